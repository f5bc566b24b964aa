"""The data files of which a version of a table consists, from its Delta log, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
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
