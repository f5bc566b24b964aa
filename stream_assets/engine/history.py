"""What each commit of a table changed, and what an older version held: from the Delta log, without Spark.

A commit's own actions say which partitions it changed; its ledger page also names days that it found to be without rows.
Going back in history touches these and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

from stream_assets.engine.files import DataFile, files_in
from stream_assets.engine.ledger import parse_page
from stream_assets.engine.session import filesystem_of
from stream_assets.errors import LakeError

WHOLE = ""
"""The one partition of a table that has none."""
_JUDGES = ("bronze", "silver", "quarantine")
"""Layers whose pages tell of each day on its own. A page of Gold names the days of the run, whatever it changed."""


@dataclass(frozen=True)
class Change:
    """One commit: who made it, when, and the partitions whose rows it changed."""

    version: int
    committed_at: datetime
    page: Mapping[str, Any]
    operation: str
    partitions: frozenset[str]
    """ISO days, or `WHOLE`. Compaction changes none: it only moves rows from file to file."""

    @property
    def run_id(self) -> str:
        """The run that made it; for another tool's commit, a name that says so."""
        return self.page.get("run_id") or f"{self.operation} v{self.version}"


@dataclass(frozen=True)
class Holding:
    """What some partitions hold in one version."""

    rows: int
    files: int
    missing: int
    """Files that are no longer there: vacuum removed them."""


@dataclass(frozen=True)
class History:
    """A table's commits, oldest first, as far as the log still has them."""

    path: str
    partition_by: str | None
    """The day column; None if the table is one piece."""
    changes: tuple[Change, ...]

    @property
    def version(self) -> int:
        """The newest version."""
        return self.changes[-1].version

    def since(self, version: int, partition: str) -> list[Change]:
        """The commits after a version that changed a partition, oldest first."""
        return [c for c in self.changes if c.version > version and partition in c.partitions]

    def at(self, moment: datetime) -> int | None:
        """The version that was the newest one at a moment; None if the log does not reach back so far."""
        return max((c.version for c in self.changes if c.committed_at <= moment), default=None)

    def entries(self, version: int) -> dict[str, Mapping[str, Any]]:
        """What the ledger said of each day in a version."""
        pages = [c.page for c in self.changes if c.version <= version]
        return {day: entry for page in pages for day, entry in page.get("days", {}).items()}

    def holding(self, version: int, partitions: Iterable[str]) -> Holding:
        """The rows and files of these partitions in a version. Raises LakeError if the log of that version is lost."""
        wanted = set(partitions)
        files = [file for file in self._files(version) if WHOLE in wanted or file.day in wanted]
        filesystem, root = filesystem_of(self.path)
        found = filesystem.get_file_info([f"{root}/{file.path}" for file in files]) if files else []
        missing = sum(info.type == fs.FileType.NotFound for info in found)
        return Holding(sum(file.rows for file in files), len(files), missing)

    def readable_since(self, version: int, partitions: Iterable[str]) -> Change | None:
        """The oldest commit from this version on whose rows are still there."""
        wanted = frozenset(partitions)
        later = (c for c in self.changes if c.version >= version)
        return next((c for c in later if not self._is_lost(c.version, wanted)), None)

    def _is_lost(self, version: int, partitions: Iterable[str]) -> bool:
        try:
            return bool(self.holding(version, partitions).missing)
        except LakeError:
            return True

    def _files(self, version: int) -> list[DataFile]:
        try:
            return files_in(self.path, version)
        except (DeltaError, OSError) as error:
            raise LakeError(
                f"The log of {self.path} no longer has version {version}: it begins with version "
                f"{self.changes[0].version} of {self.changes[0].committed_at:%Y-%m-%d %H:%M} UTC."
            ) from error


def read_history(path: str) -> History | None:
    """The history of a table; None if there is no such table."""
    filesystem, folder = filesystem_of(f"{path}/_delta_log")
    found = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    commits = sorted((f for f in found if _is_commit(f.base_name)), key=lambda f: f.base_name)
    if not commits:
        return None
    partition_by = next(iter(DeltaTable(path).metadata().partition_columns), None)
    return History(path, partition_by, tuple(_read_commit(filesystem, f.path, partition_by) for f in commits))


def _is_commit(name: str) -> bool:
    return name.endswith(".json") and name[:-5].isdigit()


def _read_commit(filesystem: fs.FileSystem, path: str, partition_by: str | None) -> Change:
    with filesystem.open_input_stream(path) as stream:
        actions = [json.loads(line) for line in stream.read().splitlines() if line.strip()]
    info = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    files = [action.get("add") or action.get("remove") or {} for action in actions]
    changed = {_partition(file, partition_by) for file in files if file.get("dataChange")}
    page = parse_page(info.get("userMetadata"))
    judged = page.get("days", {}) if partition_by and page.get("layer") in _JUDGES else {}
    milliseconds = info.get("inCommitTimestamp") or info.get("timestamp") or 0
    return Change(
        version=int(path.rsplit("/", 1)[-1].removesuffix(".json")),
        committed_at=datetime.fromtimestamp(milliseconds / 1000, UTC),
        page=page,
        operation=info.get("operation", "commit"),
        partitions=frozenset(changed | set(judged)),
    )


def _partition(file: Mapping[str, Any], partition_by: str | None) -> str:
    return str((file.get("partitionValues") or {}).get(partition_by)) if partition_by else WHOLE
