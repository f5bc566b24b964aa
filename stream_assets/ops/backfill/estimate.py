"""What a backfill will take: rows and bytes from the tables as they are, seconds from the steps of past runs. Pure functions.

A step takes a fixed time and a time per row (`fit`). Both come from the step's own history, else from that of its layer, else
from a guess, and the plan says which.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

RECENT = 20
"""Past runs of a step that are looked at."""
GUESS_S, GUESS_S_PER_ROW = 4.0, 20e-6
"""A step on a warm engine of two cores, where nothing is known."""
GUESS_BYTES_PER_ROW = 150


@dataclass(frozen=True)
class StepRun:
    """One past execution of a step."""

    step: str
    seconds: float
    rows: int
    """Rows it worked on; 0 if there was nothing to do."""


@dataclass(frozen=True)
class History:
    """What past runs took."""

    steps: tuple[StepRun, ...] = ()
    overhead_s: float = 1.0
    """What a run takes beside its steps."""


@dataclass(frozen=True)
class Rate:
    """Seconds of a step: fixed, and per row; from how many runs."""

    fixed_s: float
    per_row_s: float
    runs: int
    basis: str
    """Where it comes from: own history, its layer's, or a guess."""

    def seconds(self, rows: int) -> float:
        """What a step over so many rows takes."""
        return self.fixed_s + self.per_row_s * rows


def rate_of(step: str, history: History) -> Rate:
    """What a step takes, by the best evidence there is. Newest runs come last."""
    own = [run for run in history.steps if run.step == step and run.rows][-RECENT:]
    if own:
        return Rate(*fit(own), len(own), "its own runs")
    verb = step.partition("_")[0] + "_"
    layer = [run for run in history.steps if run.step.startswith(verb) and run.rows][-RECENT:]
    if layer:
        return Rate(*fit(layer), len(layer), "other datasets")
    return Rate(GUESS_S, GUESS_S_PER_ROW, 0, "a guess")


def fit(runs: Sequence[StepRun]) -> tuple[float, float]:
    """Fixed seconds and seconds per row: the median slope of all pairs, which one cold start does not bend."""
    slopes = [(b.seconds - a.seconds) / (b.rows - a.rows) for a, b in combinations(runs, 2) if a.rows != b.rows]
    slope = max(statistics.median(slopes), 0.0) if slopes else 0.0
    if not slopes:  # one size only: half of it is taken to grow with the rows
        seconds, rows = statistics.median(run.seconds for run in runs), runs[0].rows
        return seconds / 2, seconds / 2 / rows
    return max(statistics.median(run.seconds - slope * run.rows for run in runs), 0.0), slope


@dataclass(frozen=True)
class Sizes:
    """Rows and bytes of a table by day; under no day for a table without days."""

    rows: Mapping[str, int]
    bytes: Mapping[str, int]

    @property
    def bytes_per_row(self) -> float:
        """How large a row is on disk."""
        rows = sum(self.rows.values())
        return sum(self.bytes.values()) / rows if rows else GUESS_BYTES_PER_ROW

    @property
    def usual_rows(self) -> int:
        """Rows of a day whose number nobody knows."""
        return round(statistics.mean(self.rows.values())) if self.rows else 0


def sizes_of(path: str) -> Sizes:
    """The size of each day of a table, from its log."""
    try:
        table = DeltaTable(path)
    except TableNotFoundError:
        return Sizes({}, {})
    rows: dict[str, int] = {}
    size: dict[str, int] = {}
    for add in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        day = next((str(value) for name, value in add.items() if name.startswith("partition.")), "")
        rows[day] = rows.get(day, 0) + (add.get("num_records") or 0)
        size[day] = size.get(day, 0) + add["size_bytes"]
    return Sizes(rows, size)
