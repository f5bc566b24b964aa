"""A backfill as a value: what is stale and why, in which pieces it is made, what it takes, and what came of it.

Kept as JSON under `$STREAM_HOME/backfills/<id>.json`. Nothing here reads a table: see `make.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal

from stream_assets.engine.delta import day_ranges
from stream_assets.errors import StreamError
from stream_assets.gold.models import Model
from stream_assets.ops.backfill.stale import WHOLE, Causes

Reason = Literal["schema", "bug", "logic", "new-source"]
CHUNK_S = 60.0
"""A chunk is cut when it is estimated to take longer: what a live run may have to wait for, and what a kill may cost."""


@dataclass(frozen=True)
class Item:
    """One asset of a plan."""

    asset: str
    days: Causes
    """Stale days, each with its cause; `whole` for a table without days."""
    rows: int
    bytes: int


@dataclass(frozen=True)
class Chunk:
    """One Dagster run of a plan: some assets over a range of days."""

    stage: int
    """Chunks of a stage only need those of earlier stages."""
    assets: tuple[str, ...]
    first: str
    last: str
    rows: int
    seconds: float


@dataclass(frozen=True)
class Precheck:
    """Something to know before the start. One that fails must be accepted with --force."""

    name: str
    state: Literal["ok", "warn", "fail"]
    text: str


@dataclass
class Plan:
    """A backfill, from its reason to its outcome."""

    id: str
    reason: Reason
    select: str
    created_at: str
    scope: dict[str, tuple[str, str]]
    """Per dataset (`*` for Gold): first and last day looked at."""
    items: list[Item]
    chunks: list[Chunk]
    bases: dict[str, str]
    """Per step: what its estimate rests on."""
    impact: list[dict[str, Any]]
    """Per dataset: tier, state of its error budget, what is left of it and what the longest chunk would take of it."""
    prechecks: list[Precheck]
    versions: dict[str, int]
    """Version of each table before the backfill."""
    rollback: list[str]
    """Commands that undo it."""
    code: dict[str, str]
    """What was to be run, per asset. A plan for other code is refused."""
    overhead_s: float = 0.0
    outcome: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Estimated duration of all chunks, one after the other."""
        return round(sum(chunk.seconds for chunk in self.chunks), 1)

    @property
    def longest_s(self) -> float:
        """Estimated duration of the longest chunk."""
        return max((chunk.seconds for chunk in self.chunks), default=0.0)

    @property
    def rows(self) -> int:
        """Rows to be worked on. Quarantine is made with Silver and not counted again."""
        return sum(item.rows for item in self.items if not item.asset.startswith("quarantine/"))

    @property
    def bytes(self) -> int:
        """Bytes to be written."""
        return sum(item.bytes for item in self.items)

    @property
    def partitions(self) -> int:
        """Stale partitions, over all assets."""
        return sum(len(item.days) for item in self.items)

    @property
    def status(self) -> str:
        """planned, running, done or failed."""
        return self.outcome.get("status", "planned")

    @property
    def blockers(self) -> list[Precheck]:
        """Pre-checks that failed."""
        return [check for check in self.prechecks if check.state == "fail"]

    def to_json(self) -> str:
        """The plan as stored and shown to machines."""
        totals = {"partitions": self.partitions, "rows": self.rows, "bytes": self.bytes, "seconds": self.seconds}
        return json.dumps({**asdict(self), "estimate": totals, "status": self.status}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """A stored plan."""
        found = json.loads(text)
        for derived in ("estimate", "status"):
            found.pop(derived, None)
        found["scope"] = {name: (first, last) for name, (first, last) in found["scope"].items()}
        found["items"] = [Item(**item) for item in found["items"]]
        found["chunks"] = [Chunk(**{**chunk, "assets": tuple(chunk["assets"])}) for chunk in found["chunks"]]
        found["prechecks"] = [Precheck(**check) for check in found["prechecks"]]
        return cls(**found)


def stages_of(models: Mapping[str, Model]) -> dict[str, int]:
    """The stage of each Gold table: even ones hold tables without days, odd ones daily tables, children never before parents.

    A table without days reads all days of its parents, so they are all made first.
    """
    stages: dict[str, int] = {}
    for asset, model in models.items():  # parents come first
        base = 1 if model.day else 0
        above = [stages[parent] for parent in model.parents if parent in stages]
        stages[asset] = max([base, *(stage + (stage % 2 != base) for stage in above)])
    return {asset: stage + 2 for asset, stage in stages.items()}


def stage_of(asset: str, models: Mapping[str, Model]) -> int:
    """Bronze is 0, Silver and quarantine 1, Gold from 2 on."""
    layer, _, _ = asset.partition("/")
    return {"bronze": 0, "silver": 1, "quarantine": 1}.get(layer, stages_of(models).get(asset, 2))


def groups_of(stale: Mapping[str, Causes], models: Mapping[str, Model]) -> list[tuple[int, tuple[str, ...], list[str]]]:
    """Assets of one stage with the same stale days are made together: stage, assets, days."""
    groups: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for asset, causes in stale.items():
        groups.setdefault((stage_of(asset, models), tuple(sorted(causes))), []).append(asset)
    return [(stage, tuple(assets), list(days)) for (stage, days), assets in sorted(groups.items())]


def ranges_of(days: Iterable[str], at_most: int) -> list[tuple[date, date]]:
    """Days as contiguous ranges of a limited length, oldest first."""
    return [
        (date.fromordinal(start), date.fromordinal(min(start + at_most - 1, last.toordinal())))
        for first, last in day_ranges(date.fromisoformat(day) for day in days if day != WHOLE)
        for start in range(first.toordinal(), last.toordinal() + 1, at_most)
    ]


def folder_of(home: Path) -> Path:
    """Where plans are kept."""
    return home / "backfills"


def store(home: Path, plan: Plan, to: Path | None = None) -> Path:
    """Keep a plan; a reader never sees half of it."""
    file = to or folder_of(home) / f"{plan.id}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(plan.to_json())
    temporary.replace(file)
    return file


def load(home: Path, name: str) -> Plan:
    """A plan by its id, the beginning of it, or its file."""
    file = Path(name)
    if not file.is_file():
        found = sorted(folder_of(home).glob(f"{name}*.json"))
        if len(found) != 1:
            raise StreamError(f"{len(found)} backfills are called {name}. `stream backfill list` shows them.")
        file = found[0]
    return Plan.from_json(file.read_text())


def load_all(home: Path) -> list[Plan]:
    """Every plan, oldest first."""
    return [Plan.from_json(file.read_text()) for file in sorted(folder_of(home).glob("*.json"))]
