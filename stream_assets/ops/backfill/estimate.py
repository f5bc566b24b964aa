"""What a backfill will take: rows and bytes from the tables as they are, seconds from the steps of past runs. Pure functions.

A step takes a fixed time and a time per row (`fit`). Both come from the step's own history, else from that of its layer, else
from a guess, and the plan says which. One step builds all of Gold: of some tables it takes a share of the fixed time.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from stream_assets.engine.files import files_in

RECENT = 20
"""Past runs of a step that are looked at."""
GUESS_S, GUESS_S_PER_ROW = 4.0, 20e-6
"""A step on a warm engine of two cores, where nothing is known."""
GUESS_BYTES_PER_ROW = 150
WIDE = 2
"""Runs whose sizes differ by less tell how much times vary, not what a row takes."""
ENOUGH = 3
"""So many runs of one size are believed to be warm."""
SHARED = 0.3
"""What a build of Gold takes whatever the number of its tables, as a share of its fixed time."""
START_S = 15.0
"""What an engine takes to start and to warm up, where none runs."""
BETWEEN_S = 0.7
"""From the end of a run to the start of the next: what is still stale is looked up, and the job made."""


@dataclass(frozen=True)
class StepRun:
    """One past execution of a step."""

    step: str
    seconds: float
    rows: int
    """Rows it worked on; 0 if there was nothing to do."""
    tables: int = 1
    """Tables it wrote."""
    is_cold: bool = False
    """Whether an engine was started in it."""


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
    tables: float = 1.0
    """Tables that a run wrote."""

    def seconds(self, rows: int, tables: int = 1) -> float:
        """What a step over so many rows of so many tables takes."""
        return self.fixed_s * (SHARED + (1 - SHARED) * tables / self.tables) + self.per_row_s * rows


def rate_of(step: str, history: History) -> Rate:
    """What a step takes, by the best evidence there is. Newest runs come last."""
    own = _telling(run for run in history.steps if run.step == step)
    if own:
        return Rate(*fit(own), len(own), "its own runs", statistics.median(run.tables for run in own))
    verb = step.partition("_")[0] + "_"
    layer = _telling(run for run in history.steps if run.step.startswith(verb))
    if layer:
        return Rate(*fit(layer), len(layer), "other datasets")
    return Rate(GUESS_S, GUESS_S_PER_ROW, 0, "a guess")


def _telling(runs: Iterable[StepRun]) -> list[StepRun]:
    """The newest runs that did something. The start of an engine is counted by itself: what it was part of tells only if all is cold."""
    busy = [run for run in runs if run.rows]
    return ([run for run in busy if not run.is_cold] or busy)[-RECENT:]


def fit(runs: Sequence[StepRun]) -> tuple[float, float]:
    """Fixed seconds and seconds per row: the median slope of pairs of unlike sizes, which one cold start does not bend.

    Where all runs are about as large, a row is taken to take what it usually does; of a run or two, which may have been
    cold, half is taken to grow with the rows.
    """
    pairs = [(a, b) for a, b in combinations(sorted(runs, key=lambda run: run.rows), 2) if b.rows >= WIDE * a.rows]
    usual, rows = (statistics.median(values) for values in zip(*((r.seconds, r.rows) for r in runs), strict=True))
    if pairs:
        slope = max(statistics.median((b.seconds - a.seconds) / (b.rows - a.rows) for a, b in pairs), 0.0)
    else:
        slope = min(GUESS_S_PER_ROW, 0.9 * usual / rows) if len(runs) >= ENOUGH else usual / 2 / rows
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
        """Rows of a day whose number nobody knows. The first day, with all there was before, is not a usual one."""
        return round(statistics.median(self.rows.values())) if self.rows else 0


def sizes_of(path: str) -> Sizes:
    """The size of each day of a table, from its log."""
    rows: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for file in files_in(path):
        rows[file.day] += file.rows
        size[file.day] += file.bytes
    return Sizes(rows, size)
