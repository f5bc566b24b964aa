"""How `stream status` shows how things stand, to people and to machines."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from stream_assets.ops.status import DatasetStatus, Status, Target
from stream_assets.quality.words import span_text

COLOURS = {"ok": "green", "burning": "yellow", "exhausted": "red", "unknown": "dim"}
MARKS = {True: "[green]✓[/]", False: "[red]✗[/]", None: "[dim]–[/]"}


def show_status(console: Console, status: Status) -> None:
    """A table of datasets, what to do about those in trouble, and the targets of the whole."""
    console.print(_dataset_table(status))
    for dataset in status.datasets:
        if dataset.budget.state in ("burning", "exhausted"):
            colour = COLOURS[dataset.budget.state]
            console.print(f"[{colour}]{dataset.name}[/] {dataset.budget.policy}", soft_wrap=True)
    console.print(_target_table(status))


def _dataset_table(status: Status) -> Table:
    """Narrow enough for a terminal of 80 columns; `--json` has everything."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("dataset", no_wrap=True)
    for name in ("tier", "target", "age", "p99 to Gold", f"in {status.now:%b}", "budget left", "burn 1/6/24 h"):
        table.add_column(name, justify="right")
    table.columns[-1].no_wrap = True
    table.add_column("state", no_wrap=True)
    for dataset in status.datasets:
        table.add_row(*_dataset_row(dataset))
    return table


def _dataset_row(dataset: DatasetStatus) -> list[str]:
    budget = dataset.budget
    colour = COLOURS[budget.state]
    age = span_text(dataset.age) if dataset.age is not None else "–"
    return [
        dataset.name,
        str(dataset.tier),
        span_text(dataset.limit),
        f"[{'green' if dataset.is_fresh else 'red'}]{age}[/]",
        span_text(dataset.latency) if dataset.latency is not None else "–",
        "–" if budget.availability is None else f"{budget.availability:.2%}",
        span_text(budget.remaining),
        "/".join(f"{rate:.3g}" if rate < 100 else f"{rate:.0f}" for rate in budget.burn_rates.values()),
        f"[{colour}]{budget.state}[/]",
    ]


def _target_table(status: Status) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "promise", "figure", "target"):
        table.add_column(name)
    for target in status.targets:
        table.add_row(MARKS[target.is_met], target.name, target.figure, target.target)
    return table


def status_document(status: Status) -> dict[str, Any]:
    """The same for machines: moments as ISO text, durations in seconds."""
    return {
        "now": status.now.isoformat(timespec="seconds"),
        "datasets": [_dataset_document(dataset) for dataset in status.datasets],
        "targets": [_target_document(target) for target in status.targets],
    }


def _dataset_document(dataset: DatasetStatus) -> dict[str, Any]:
    budget = dataset.budget
    return {
        "name": dataset.name,
        "tier": dataset.tier,
        "target_seconds": _seconds(dataset.target),
        "limit_seconds": _seconds(dataset.limit),
        "newest_event": dataset.newest_event.isoformat() if dataset.newest_event else None,
        "age_seconds": _seconds(dataset.age),
        "is_fresh": dataset.is_fresh,
        "latency_p99_seconds": _seconds(dataset.latency),
        "availability": budget.availability,
        "measured_seconds": _seconds(budget.measured),
        "stale_seconds": _seconds(budget.stale),
        "budget_seconds": _seconds(budget.allowed),
        "remaining_seconds": _seconds(budget.remaining),
        "burn_rates": {f"{window // timedelta(hours=1)}h": rate for window, rate in budget.burn_rates.items()},
        "state": budget.state,
        "policy": budget.policy,
    }


def _target_document(target: Target) -> dict[str, Any]:
    return {"name": target.name, "figure": target.figure, "target": target.target, "is_met": target.is_met}


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else round(span.total_seconds(), 3)
