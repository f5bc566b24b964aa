"""What a table takes on disk, without Spark: live files by partition, history, and files that belong to no commit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from stream_assets.engine.files import files_of
from stream_assets.engine.session import filesystem_of

SMALL_BYTES = 32 << 20
"""A file below this costs more to open than to read."""
_NOT_DATA = ("_delta_log/", "_change_data/", "_symlink_format_manifest/")
MANY_FILES = 8
"""So many small files in one partition are worth writing anew."""


@dataclass(frozen=True)
class Footprint:
    """The files of a table."""

    path: str
    days: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Sizes of the live files of each partition; under no day if the table has none."""
    rows: int = 0
    disk: Mapping[str, tuple[int, datetime]] = field(default_factory=dict)
    """Every data file on disk, live or not: size and time."""
    live: frozenset[str] = frozenset()
    partition: str | None = None
    """The column the table is partitioned by."""

    @property
    def files(self) -> int:
        """Live files."""
        return sum(len(sizes) for sizes in self.days.values())

    @property
    def bytes(self) -> int:
        """Bytes a reader may see."""
        return sum(sum(sizes) for sizes in self.days.values())

    @property
    def disk_bytes(self) -> int:
        """Bytes on disk, history included."""
        return sum(size for size, _ in self.disk.values())

    @property
    def crowded(self) -> list[str]:
        """Partitions of many small files."""
        return [day for day, sizes in self.days.items() if sum(size < SMALL_BYTES for size in sizes) >= MANY_FILES]

    def droppable(self, window: timedelta) -> dict[str, int]:
        """Files that no version within the window needs, with their sizes: what vacuum would remove."""
        if len(self.disk) == len(self.live):
            return {}
        hours = int(window / timedelta(hours=1))
        unneeded = DeltaTable(self.path).vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
        return {n: self.disk[n][0] for n in map(unquote, unneeded) if n in self.disk and n not in self.live}


def footprint(path: str) -> Footprint:
    """Look at a table; empty if there is none."""
    try:
        table = DeltaTable(path)
    except TableNotFoundError:
        return Footprint(path)
    files = files_of(table)
    sizes: dict[str, tuple[int, ...]] = {}
    for file in files:
        sizes[file.day] = (*sizes.get(file.day, ()), file.bytes)
    live = frozenset(file.path for file in files)
    partition = next(iter(table.metadata().partition_columns), None)
    return Footprint(path, sizes, sum(file.rows for file in files), data_files(path), live, partition)


def data_files(path: str) -> dict[str, tuple[int, datetime]]:
    """Every data file below a table's folder, by relative path."""
    filesystem, root = filesystem_of(path)
    found = filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True))
    names = {unquote(info.path.removeprefix(root).lstrip("/")): info for info in found if info.extension == "parquet"}
    return {
        name: (info.size, _time(info))
        for name, info in names.items()
        if info.type == fs.FileType.File and not name.startswith(_NOT_DATA)
    }


def orphans(found: Footprint, *, older_than: timedelta, now: datetime) -> dict[str, int]:
    """Files that no commit ever named, with their sizes: left by writers that were killed."""
    suspects = {n: size for n, (size, born) in found.disk.items() if n not in found.live and now - born > older_than}
    if not suspects:
        return {}
    named = committed_files(found.path)
    return {name: size for name, size in suspects.items() if name not in named}


def committed_files(path: str) -> set[str]:
    """Every data file that the commits still in the log ever added or removed."""
    filesystem, root = filesystem_of(f"{path}/_delta_log")
    named: set[str] = set()
    for info in filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True)):
        if info.base_name.endswith(".json") and info.base_name[:20].isdigit():
            with filesystem.open_input_stream(info.path) as stream:
                for line in stream.read().splitlines():
                    action = json.loads(line)
                    named |= {unquote(action[kind]["path"]) for kind in ("add", "remove") if kind in action}
    return named


def _time(info: fs.FileInfo) -> datetime:
    return info.mtime if isinstance(info.mtime, datetime) else datetime.now(UTC)
