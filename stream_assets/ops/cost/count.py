"""Bytes, compute seconds and money per dataset and layer, and what would save some. Pure functions of figures.

Storage is what lies on disk, history included. Compute is the time of steps that ended well, times the cores of the engine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from stream_assets.contracts.model import Contract
from stream_assets.engine.footprint import Footprint
from stream_assets.settings import Settings

GB = 1e9
MONTH = timedelta(days=30.4375)
IDLE_SHARE = 0.5
"""A step that finds nothing to do more often than this is scheduled too often."""
NEEDED_RUNS = 6


@dataclass(frozen=True)
class StepTime:
    """One past execution of a step: when it ended, and how long it took."""

    step: str
    ended_at: float
    seconds: float
    rows: int


@dataclass(frozen=True)
class TableCost:
    """What one table costs. Gold is built by one step for all its tables, whose time is shared by bytes written."""

    table: str
    live_bytes: int
    disk_bytes: int
    files: int
    seconds_month: float
    seconds_last: float
    runs: int
    storage: float
    compute: float

    @property
    def total(self) -> float:
        """Per month."""
        return self.storage + self.compute


@dataclass(frozen=True)
class Suggestion:
    """A way to pay less, with what it saves per month."""

    subject: str
    text: str
    command: str
    saving: float


@dataclass(frozen=True)
class Bill:
    """The cost of everything, per month."""

    tables: tuple[TableCost, ...]
    suggestions: tuple[Suggestion, ...]
    budget: float | None

    @property
    def storage(self) -> float:
        """Storing what there is for a month."""
        return sum(table.storage for table in self.tables)

    @property
    def compute(self) -> float:
        """What the last month's steps took."""
        return sum(table.compute for table in self.tables)

    @property
    def total(self) -> float:
        """Both."""
        return self.storage + self.compute

    @property
    def is_over(self) -> bool:
        """Whether it is more than the budget allows."""
        return self.budget is not None and self.total > self.budget


def step_of(table: str) -> str:
    """The step that makes a table."""
    layer, name = table.split("/")
    return {"bronze": f"land_{name}", "silver": f"refine_{name}", "gold": "build_gold"}.get(layer, "")


def count_cost(
    settings: Settings, found: Mapping[str, Footprint], times: Sequence[StepTime], now: float
) -> list[TableCost]:
    """What each table costs per month, at the prices of the settings."""
    recent = [time for time in times if now - time.ended_at <= MONTH.total_seconds()]
    gold = sum(f.bytes for table, f in found.items() if table.startswith("gold/")) or 1
    costs = []
    for table, footprint in found.items():
        own = [time for time in recent if time.step == step_of(table)]
        share = footprint.bytes / gold if table.startswith("gold/") else 1.0
        seconds = sum(time.seconds for time in own) * share
        costs.append(
            TableCost(
                table,
                footprint.bytes,
                footprint.disk_bytes,
                footprint.files,
                round(seconds, 1),
                round(own[-1].seconds * share, 1) if own else 0.0,
                len(own),
                footprint.disk_bytes / GB * settings.price_gb_month,
                seconds / 3600 * settings.spark_cores * settings.price_core_hour,
            )
        )
    return costs


def suggest_savings(
    settings: Settings,
    contracts: Mapping[str, Contract],
    found: Mapping[str, Footprint],
    times: Sequence[StepTime],
    costs: Iterable[TableCost],
    unread: Collection[str] = (),
) -> list[Suggestion]:
    """What would make it cheaper, the largest saving first. Small files cost time to open, so half their table's is at stake."""
    by_table = {cost.table: cost for cost in costs}
    made: list[Suggestion] = []
    for table, footprint in found.items():
        droppable = sum(footprint.droppable(timedelta(days=settings.rollback_days)).values())
        if droppable:
            saving = droppable / GB * settings.price_gb_month
            text = f"{droppable / 1e6:,.1f} MB of history that no rollback needs"
            made.append(Suggestion(table, text, f"stream maintain --select {table}", saving))
        if footprint.crowded:
            text = f"{len(footprint.crowded)} partitions of many small files"
            made.append(Suggestion(table, text, f"stream maintain --select {table}", by_table[table].compute / 2))
        if table in unread:
            text = "nothing that is declared reads it: no model, live view or exposure"
            remedy = "make it no more, or declare who reads it (an exposure of the dbt project)"
            made.append(Suggestion(table, text, remedy, by_table[table].total))
    for name, contract in contracts.items():
        own = [time for time in times if time.step == f"refine_{name}"]
        idle = [time for time in own if not time.rows]
        if len(own) >= NEEDED_RUNS and len(idle) / len(own) > IDLE_SHARE and contract.cadence < timedelta(days=1):
            saving = sum(t.seconds for t in idle) / 3600 * settings.spark_cores * settings.price_core_hour
            text = f"{len(idle)} of {len(own)} runs found nothing new: its cadence is too short"
            made.append(Suggestion(f"silver/{name}", text, f"raise cadence in {contract.file.name}", saving))
    return sorted(made, key=lambda suggestion: -suggestion.saving)
