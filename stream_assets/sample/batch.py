"""A batch: rows of one dataset on their way to one delivery, as a table with a few bookkeeping columns.

Contract columns are all that a file ever holds. The bookkeeping columns begin with an underscore and tell the fault
injector what it may touch and the manifest what to expect.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

EVENT_DAY = "_event_day"
CAN_FAIL = "_can_fail"
CAN_REPEAT = "_can_repeat"
IS_UPDATE = "_is_update"

MAX_LATENESS = 3
LATE_SHARE = 0.015

# Dataset, delivery day by its position in the history, rows.
Shipment = tuple[str, int, pa.Table]


def build_batch(
    columns: dict[str, pa.Array],
    *,
    event_day: int,
    can_fail: np.ndarray | bool = True,
    can_repeat: np.ndarray | bool = True,
) -> pa.Table:
    """Build a batch of first versions.

    Args:
        columns: Contract columns, in the order a file shows them.
        event_day: Day the rows belong to, by its position in the history.
        can_fail: Rows that nothing else depends on, so that they may be made faulty.
        can_repeat: Rows that get no later version, so that an extra copy is the only reason to call them a duplicate.
    """
    table = pa.table(columns)
    marks = {EVENT_DAY: np.int32(event_day), CAN_FAIL: can_fail, CAN_REPEAT: can_repeat, IS_UPDATE: False}
    for name, value in marks.items():
        table = table.append_column(name, pa.array(np.broadcast_to(value, table.num_rows)))
    return table


def contract_columns(batch: pa.Table) -> pa.Table:
    """Return what a file holds of a batch."""
    return batch.select([name for name in batch.column_names if not name.startswith("_")])


def marked(batch: pa.Table, name: str) -> np.ndarray:
    """Return a bookkeeping column."""
    return batch[name].to_numpy()


def update_rows(batch: pa.Table, chosen: np.ndarray, **columns: pa.Array) -> pa.Table:
    """Return later versions of the chosen rows; they are never made faulty nor repeated, so expectations stay clear."""
    versions = batch.filter(pa.array(chosen))
    never, always = pa.repeat(False, versions.num_rows), pa.repeat(True, versions.num_rows)
    for name, values in (columns | {CAN_FAIL: never, CAN_REPEAT: never, IS_UPDATE: always}).items():
        versions = versions.set_column(versions.column_names.index(name), name, values)
    return versions


def hold_back(batch: pa.Table, rng: np.random.Generator, *, day: int, share: float) -> Iterator[tuple[int, pa.Table]]:
    """Split a batch into (delivery day, rows): a share of the rows without later versions comes 1 to 3 days late."""
    delays = rng.integers(1, MAX_LATENESS + 1, batch.num_rows)
    is_late = (rng.random(batch.num_rows) < share) & marked(batch, CAN_REPEAT)
    delays[~is_late] = 0
    for delay in range(MAX_LATENESS + 1):
        yield day + delay, batch.filter(pa.array(delays == delay))
