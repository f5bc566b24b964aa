"""What `stream` prints: progress while it works, and the tables it ends with."""

from __future__ import annotations

import time
from datetime import timedelta
from types import TracebackType
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from stream_assets.contracts.load import ContractSet
from stream_assets.ops.run import ExecutionResult
from stream_assets.quality.score import TARGET
from stream_assets.quality.words import percent
from stream_assets.settings import Settings


class Progress:
    """A line per step as it ends, and a spinner with what is under way. Without a terminal, only the lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("Starting …")
        self._began = time.monotonic()
        self._rows: dict[str, list[str]] = {}

    def __enter__(self) -> Progress:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def note(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, soft_wrap=True)

    def report(self, name: str, state: str, facts: dict[str, Any]) -> None:
        """Show one piece of news of a run."""
        elapsed = f"{time.monotonic() - self._began:6.1f} s"
        if state == "started":
            self._rows[name] = []
            self._status.update(f"{elapsed}  {name} …")
        elif state == "rows":
            self._rows.setdefault(facts["step"], []).append(f"{name} {facts['rows']:,}")
            self._status.update(f"{elapsed}  {name} …")
        elif state == "done":
            self._console.print(
                f"[dim]{elapsed}[/]  [green]✓[/] {name:<24} [dim]{facts['seconds']:5.1f} s[/]  {self._summary(name)}",
                soft_wrap=True,
            )
        elif state == "current":
            self._console.print(f"[dim]{elapsed}[/]  [green]✓[/] {name:<24} up to date")
        elif state == "skipped":
            self._console.print(f"[dim]{elapsed}[/]  [yellow]–[/] {name:<24} skipped: something before it failed")
        elif state == "failed":
            self._console.print(f"[dim]{elapsed}[/]  [red]✗[/] {name:<24} {facts['error']}", soft_wrap=True)

    def _summary(self, step: str) -> str:
        rows = self._rows.pop(step, [])
        return ", ".join(rows) if len(rows) <= 2 else f"{len(rows)} tables"


def show_result(console: Console, settings: Settings, contracts: ContractSet, result: ExecutionResult) -> None:
    """The summary of a run: rows per layer, checks and freshness per dataset, then Gold, then what went wrong."""
    span = f"{result.days[0]} to {result.days[-1]}" if result.days else None
    # As narrow as it can be: millions of rows of every dataset fit into 80 columns, with no heading cut off.
    table = Table(
        title=span, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column("dataset")
    for name in ("Bronze", "Silver", "quarantined", "duplicates", "checks"):
        table.add_column(name, justify="right")
    table.add_column("freshness")
    shown = [
        name for name in contracts if any(asset.endswith(f"/{name}") for asset in (*result.assets, *result.current))
    ]
    for name in shown or contracts:
        silver = result.assets.get(f"silver/{name}", {})
        table.add_row(
            name,
            _rows(result, f"bronze/{name}"),
            _rows(result, f"silver/{name}"),
            _count(silver.get("quarantined")),
            _count(silver.get("duplicates")),
            _checks(result, (f"bronze/{name}", f"silver/{name}")),
            _freshness(result, f"silver/{name}"),
        )
    console.print(table)
    gold = sorted(name for name in result.assets if name.startswith("gold/"))
    if result.current:
        console.print(f"Gold: {len(result.current)} models, up to date")
    if gold:
        console.print(f"Gold: {len(gold)} models, checks {_checks(result, tuple(gold))}")
    _show_problems(console, result)
    for note in result.notes:
        console.print(f"[yellow]→[/] {note}", soft_wrap=True)
    _show_quality(console, result)
    state = f"[{'green' if result.status == 'success' else 'red'}]{result.status}[/]"
    console.print(
        f"{state} in {result.duration_seconds:.1f} s, {result.rows_processed:,} records. Details: {settings.home / 'reports' / 'runs' / 'latest.json'}",
        soft_wrap=True,
    )


def _show_problems(console: Console, result: ExecutionResult) -> None:
    for error in result.errors:
        console.print(f"[red]✗ {error['step']}[/] {error['error']}", soft_wrap=True)
    for check in result.checks:
        if not check["passed"]:
            colour = "red" if check["is_gate"] or check["severity"] == "ERROR" else "yellow"
            console.print(f"[{colour}]! {check['asset']} {check['check']}[/] {check['summary']}", soft_wrap=True)
    for text in result.broken_contracts:
        console.print(f"[red]✗ refused contract[/] {text}", soft_wrap=True)


def _show_quality(console: Console, result: ExecutionResult) -> None:
    if result.quality_score is not None:
        colour = "green" if result.quality_score > TARGET else "yellow"
        score = f"[{colour}]{percent(result.quality_score)}[/] (target above {TARGET:.0%})"
        console.print(f"Quality of everything: {score}. Report: {result.quality_report}", soft_wrap=True)


def _rows(result: ExecutionResult, name: str) -> str:
    return _count(result.assets.get(name, {}).get("rows"))


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _checks(result: ExecutionResult, names: tuple[str, ...]) -> str:
    latest = {(c["asset"], c["check"]): c["passed"] for c in result.checks if c["asset"] in names}
    passed = sum(latest.values())
    colour = "green" if passed == len(latest) else "yellow"
    return f"[{colour}]{passed}/{len(latest)}[/]" if latest else "–"


def _freshness(result: ExecutionResult, name: str) -> str:
    found = [c for c in result.checks if c["asset"] == name and c["check"] == "freshness__table__event_time"]
    return f"{'[green]fresh[/]' if found[-1]['passed'] else '[yellow]stale[/]'}" if found else "–"


def show_contracts(console: Console, contracts: ContractSet) -> None:
    """The contracts as a table, the refused ones below."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("dataset", "version", "kind", "format", "tier", "fresh in", "keeps", "team"):
        table.add_column(name, no_wrap=True)
    for c in contracts.values():
        sizes = (str(c.tier), _span(c.freshness), _span(c.retention))
        table.add_row(c.name, c.version, c.kind, c.format, *sizes, c.team)
    console.print(table)
    for error in contracts.broken:
        console.print(f"[red]refused[/] {error}", soft_wrap=True)


def _span(span: timedelta) -> str:
    hours = span.total_seconds() / 3600
    return f"{span.days // 365} y" if span.days >= 365 else f"{span.days} d" if hours >= 24 else f"{hours:g} h"
