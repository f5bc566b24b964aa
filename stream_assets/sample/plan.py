"""Which records of a delivery are damaged or repeated, and on which days a delivery changes its shape.

At most one fault touches a record, and none touches a record that has another version or that another dataset refers
to, so every expectation in the manifest is plain.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from stream_assets.sample import vocabulary as words
from stream_assets.sample.batch import CAN_FAIL, CAN_REPEAT, EVENT_DAY, marked
from stream_assets.sample.faults import Fault
from stream_assets.sample.text import pick

# Faulty records are this share of a delivery, spread evenly over the catalogue, but at least a third of the catalogue.
FAULT_SHARE = 0.003
REPEAT_SHARE = 0.001

# Days by their position in the history: early enough for a sample of a week.
NEW_COLUMN_DAY = 2
MISSING_COLUMN_DAY = 4
REORDERED_HEADER_EVERY = 5


@dataclass(frozen=True)
class Plan:
    """Positions of the records to damage, to repeat in the same delivery, and to repeat in the next one."""

    damaged: dict[int, Fault] = field(default_factory=dict)
    repeated: tuple[int, ...] = ()
    repeated_next: tuple[int, ...] = ()


def plan_faults(
    rng: np.random.Generator, batch: pa.Table, catalogue: tuple[Fault, ...], *, day: int, repeat_next: bool
) -> Plan:
    """Choose the records to damage and to repeat.

    Args:
        rng: Source of the choices.
        batch: Rows of the delivery.
        catalogue: Faults the dataset can have.
        day: Delivery day.
        repeat_next: Whether records may be repeated in the next delivery.
    """
    damaged = _choose_damaged(rng, batch, catalogue, day)
    may_repeat = marked(batch, CAN_REPEAT).copy()
    may_repeat[list(damaged)] = False
    candidates = rng.permutation(np.flatnonzero(may_repeat))
    count = math.ceil(REPEAT_SHARE * batch.num_rows)
    on_time = marked(batch, EVENT_DAY) == day
    # A record that was already late could be outside its window when it comes again.
    next_time = [int(at) for at in candidates[count : 2 * count] if on_time[at]] if repeat_next else []
    return Plan(damaged, tuple(candidates[:count].tolist()), tuple(next_time))


def _choose_damaged(
    rng: np.random.Generator, batch: pa.Table, catalogue: tuple[Fault, ...], day: int
) -> dict[int, Fault]:
    third = math.ceil(len(catalogue) / 3)
    count = max(third, math.ceil(FAULT_SHARE * batch.num_rows))
    candidates = rng.permutation(np.flatnonzero(marked(batch, CAN_FAIL)))[:count].tolist()
    on_time = marked(batch, EVENT_DAY) == day
    pairs = ((at, catalogue[(day * third + turn) % len(catalogue)]) for turn, at in enumerate(candidates))
    return {at: fault for at, fault in pairs if _fits(fault, batch, is_on_time=bool(on_time[at]))}


def _fits(fault: Fault, batch: pa.Table, *, is_on_time: bool) -> bool:
    """Tell whether a fault suits a record.

    A late record is not damaged beyond reading: some readers could still tell its event day and some could not.
    """
    return is_on_time if fault.column is None else fault.column in batch.column_names


def drift_of(dataset: str, day: int) -> tuple[str, str] | None:
    """Return the kind of drift of a delivery and its column, if it has one."""
    if dataset == "orders" and day == NEW_COLUMN_DAY:
        return "new_column", "loyalty_tier"
    if dataset == "orders" and day == MISSING_COLUMN_DAY:
        return "missing_column", "note"
    return None


def apply_drift(rng: np.random.Generator, batch: pa.Table, kind: str, column: str) -> pa.Table:
    """Return the batch with a column more or a column less."""
    if kind == "missing_column":
        return batch.drop_columns([column])
    return batch.append_column(column, pick(words.LOYALTY_TIERS, rng.integers(0, 3, batch.num_rows)))


def is_reordered(day: int) -> bool:
    """Tell whether the columns of a CSV delivery are in another order than usual."""
    return day % REORDERED_HEADER_EVERY == REORDERED_HEADER_EVERY - 1


def keeps_shape(dataset: str, day: int, *, has_header: bool) -> bool:
    """Tell whether a line of this delivery means the same in the next one."""
    if has_header and is_reordered(day) != is_reordered(day + 1):
        return False
    return drift_of(dataset, day) is None and drift_of(dataset, day + 1) is None
