"""The data files of which a version of a table consists, and what they hold, from its Delta log, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError


@dataclass(frozen=True)
class DataFile:
    """One file of a table."""

    path: str
    """Relative to the table, as it lies on disk."""
    day: str
    """The partition it belongs to; empty if the table has none."""
    rows: int
    bytes: int


def files_in(path: str, version: int | None = None) -> list[DataFile]:
    """The files of a table's newest version, or of another; none if there is no such table."""
    try:
        return files_of(DeltaTable(path, version=version))
    except TableNotFoundError:
        return []


def files_of(table: DeltaTable) -> list[DataFile]:
    """The files of the version that was opened."""
    return [
        DataFile(
            unquote(add["path"]),
            next((str(value) for name, value in add.items() if name.startswith("partition.")), ""),
            add.get("num_records") or 0,
            add["size_bytes"],
        )
        for add in pa.table(table.get_add_actions(flatten=True)).to_pylist()
    ]


def rows_in(path: str) -> int:
    """How many rows a table has; none if there is no such table."""
    return sum(file.rows for file in files_in(path))


def count_by(
    path: str, columns: Sequence[str], where: pc.Expression, *, within: str, version: int | None = None
) -> dict[tuple[Any, ...], int]:
    """Rows by the values of some small columns, counted in the files themselves: no payload is read, and no engine asked.

    `within` is SQL that the rows fulfil too, by which files are left out: all of a long history would have to be listed.
    """
    try:
        table = DeltaTable(path, version=version)
    except TableNotFoundError:
        return {}
    counts: Counter[tuple[Any, ...]] = Counter()
    for batch in table.to_pyarrow_dataset(file_pruning_predicate=within).to_batches(
        columns=list(columns), filter=where
    ):
        groups = pa.Table.from_batches([batch]).group_by(columns).aggregate([([], "count_all")])
        for row in groups.to_pylist():
            counts[tuple(row[name] for name in columns)] += row["count_all"]
    return dict(counts)
