"""How `stream contracts simulate` shows what a contract would change, to people and to machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from stream_assets.silver.effects import DayEffects, Effects, SchemaChange, Simulation, Tally

VERDICTS = ("accepted", "quarantined", "duplicates")


def show_simulation(console: Console, simulation: Simulation) -> None:
    """A line per day, then rules, columns and the schema where they differ, then what to keep in mind."""
    days = simulation.days
    versions = f"{simulation.version_before} → {simulation.version_after}"
    console.print(f"[bold]{simulation.dataset}[/] {versions}, {days[0].day} to {days[-1].day}; nothing was written")
    console.print(_day_table(days, simulation.total))
    if simulation.total.rules:
        console.print(_rule_table(simulation.total))
    for move, rows in simulation.total.moves.items():
        console.print(f"{move}: {rows:,} rows")
    for column, rows in simulation.total.columns.items():
        console.print(f"other values in {column}: {rows:,} rows")
    for change in simulation.schema:
        console.print(f"Silver: {_schema_line(change)}")
    for note in simulation.notes:
        console.print(f"[yellow]note[/] {note}", soft_wrap=True)
    if not simulation.differs:
        console.print("[green]No difference.[/]")


def _day_table(days: Sequence[DayEffects], total: Effects) -> Table:
    """What the ledger says happened and what would have, side by side where they differ."""
    table = _table("day", *VERDICTS, "newly rejected", "recovered", "changed")
    for day in days:
        table.add_row(day.day, *_outcome(day.ledger, day.effects))
    ledger = Tally(*(sum(getattr(day.ledger, name, 0) for day in days) for name in VERDICTS))
    table.add_section()
    table.add_row("all", *_outcome(ledger, total))
    return table


def _outcome(ledger: Tally | None, effects: Effects) -> list[str]:
    tallies = [_step(getattr(ledger, name, None), getattr(effects.after, name)) for name in VERDICTS]
    return [*tallies, *(f"{count:,}" for count in (effects.newly_rejected, effects.recovered, effects.changed))]


def _rule_table(total: Effects) -> Table:
    table = _table("rule", "rows that break it", "newly rejected", "recovered", "only warned")
    for rule in total.rules:
        moved = (f"{count:,}" for count in (rule.newly_rejected, rule.recovered))
        table.add_row(rule.rule, _step(rule.before, rule.after), *moved, _step(rule.warned_before, rule.warned_after))
    return table


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def _step(before: int | None, after: int) -> str:
    return f"{after:,}" if before == after else f"{'–' if before is None else f'{before:,}'} → {after:,}"


def _schema_line(change: SchemaChange) -> str:
    if change.before is None:
        return f"gets {change.column} ({change.after})"
    if change.after is None:
        return f"loses {change.column} ({change.before})"
    return f"{change.column} is {change.after} instead of {change.before}; the table has to be made again"


def simulation_document(simulation: Simulation) -> dict[str, Any]:
    """The same for machines."""
    return {"differs": simulation.differs, **asdict(simulation)}
