"""How backfills are shown to people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta

from rich import box
from rich.console import Console
from rich.table import Table

from stream_assets.engine.delta import day_ranges
from stream_assets.ops.backfill.plan import Item, Plan
from stream_assets.ops.backfill.stale import WHOLE
from stream_assets.quality.words import count_text, percent, short_count, span_text

MARKS = {"ok": "[green]✓[/]", "warn": "[yellow]![/]", "fail": "[red]✗[/]"}
COLOURS = {"planned": "cyan", "running": "yellow", "done": "green", "failed": "red"}
SHOWN_RANGES = 3


def show_plan(console: Console, plan: Plan) -> None:
    """A plan: what, why, how long, what stands against it, how to undo it, and what came of it."""
    console.print(f"[bold]{plan.id}[/]  {plan.reason}, {plan.select}  [{COLOURS[plan.status]}]{plan.status}[/]")
    if not plan.items:
        console.print("Nothing is stale: every partition is what today's contracts, code and deliveries give.")
        return
    console.print(_items(plan))
    console.print(
        f"Estimate: {count_text(plan.partitions, 'partition')}, {plan.rows:,} rows, {size_text(plan.bytes)}, "
        f"{_span(plan.seconds)} in {count_text(len(plan.chunks), 'run')} (by {_basis(plan)})",
        soft_wrap=True,
    )
    for row in plan.impact:
        share = row["share_of_remaining"]
        console.print(
            f"Error budget of {row['dataset']} (tier {row['tier']}): {row['state']}, {_span(row['remaining_seconds'])} left; a live run "
            f"may wait {_span(row['delay_seconds'])}" + (f", {percent(share)} of it" if share is not None else ""),
            soft_wrap=True,
        )
    for check in plan.prechecks:
        console.print(f"{MARKS[check.state]} {check.name}: {check.text}", soft_wrap=True)
    if plan.status == "planned":
        console.print(f"Run it: stream backfill run {plan.id}")
    _show_outcome(console, plan)
    console.print("Undo it:", *plan.rollback, sep="\n  ", soft_wrap=True)


def _items(plan: Plan) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("asset", no_wrap=True)
    table.add_column("stale", justify="right")
    table.add_column("days", no_wrap=True)
    table.add_column("because")
    for name in ("rows", "bytes"):
        table.add_column(name, justify="right")
    for item in plan.items:
        causes = ", ".join(f"{cause} {n}" if len(item.days) > 1 else cause for cause, n in _causes(item))
        table.add_row(
            item.asset, str(len(item.days)), days_text(item.days), causes, short_count(item.rows), size_text(item.bytes)
        )
    return table


def _causes(item: Item) -> list[tuple[str, int]]:
    return Counter(item.days.values()).most_common()


def days_text(days: Iterable[str]) -> str:
    """Days as a few ranges."""
    days = list(days)
    if WHOLE in days:
        return "the whole table"
    ranges = day_ranges(date.fromisoformat(day) for day in days)
    shown = [str(first) if first == last else f"{first} … {last}" for first, last in ranges[:SHOWN_RANGES]]
    more = len(ranges) - SHOWN_RANGES
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _basis(plan: Plan) -> str:
    kinds = Counter(text.rsplit(" (", 1)[0] for text in plan.bases.values())
    return ", ".join(f"{kind}: {count_text(n, 'step')}" for kind, n in kinds.most_common()) or "nothing"


def _show_outcome(console: Console, plan: Plan) -> None:
    outcome = plan.outcome
    if "finished_at" not in outcome:
        return
    ratio = outcome["actual_over_estimate"]
    console.print(
        f"Took {_span(outcome.get('seconds', 0))} in {count_text(len(outcome['runs']), 'run')}, "
        f"{count_text(outcome['attempts'], 'attempt')}; estimated {_span(outcome['estimated_seconds'])}"
        + (f" (actual ÷ estimate {ratio:.2f})" if ratio is not None else ""),
        soft_wrap=True,
    )
    if plan.status == "done":
        made = f"{outcome.get('rows', 0):,} rows, {size_text(outcome.get('bytes', 0))}"
        console.print(f"Made {made}; estimated {plan.rows:,} rows, {size_text(plan.bytes)}", soft_wrap=True)
    for error in outcome["errors"]:
        console.print(f"[red]✗ {error['step']}[/] {error['error']}", soft_wrap=True)
    for gate in outcome["failed_gates"]:
        console.print(f"[red]✗ gate[/] {gate}", soft_wrap=True)
    verified = outcome["verified"]
    if verified:
        console.print(
            f"{MARKS['ok' if verified['passed'] else 'fail']} verified: {count_text(verified['days_counted'], 'day')} counted in the files, "
            f"{len(verified['miscounted'])} wrong, {sum(map(len, verified['still_stale'].values()))} still stale; "
            f"checks {outcome['checks']['passed']} passed, {len(outcome['checks']['failed'])} failed",
            soft_wrap=True,
        )


def show_plans(console: Console, plans: Iterable[Plan]) -> None:
    """Every backfill, a line each."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("id", "selection", "status"):
        table.add_column(name, no_wrap=True)
    for name in ("partitions", "rows", "estimated", "took"):
        table.add_column(name, justify="right")
    for plan in plans:
        took = plan.outcome.get("seconds")
        state = f"[{COLOURS[plan.status]}]{plan.status}[/]"
        sizes = (f"{plan.partitions:,}", short_count(plan.rows), _span(plan.seconds))
        table.add_row(plan.id, plan.select, state, *sizes, "–" if took is None else _span(took))
    console.print(table)


def size_text(size: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _span(seconds: float) -> str:
    return span_text(timedelta(seconds=seconds))
