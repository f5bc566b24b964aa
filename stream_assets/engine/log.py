"""Reads the ledger of a table from its Delta log without Spark: in a moment, and while the engine sleeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from stream_assets.engine.ledger import parse_page


@dataclass(frozen=True)
class LoggedCommit:
    """One commit of a table."""

    version: int
    committed_at: datetime
    page: Mapping[str, Any]
    """The ledger page of the commit (see `ledger.Commit`); empty if another tool made it."""


def read_log(path: str) -> list[LoggedCommit]:
    """The commits that a table's log still holds, oldest first; none if there is no such table."""
    try:
        history = DeltaTable(path).history()
    except TableNotFoundError:
        return []
    return sorted((_to_commit(info) for info in history), key=lambda commit: commit.version)


def newest_entries(commits: Iterable[LoggedCommit]) -> dict[str, Mapping[str, Any]]:
    """For each ISO day, what the newest of these commits says of it."""
    ordered = sorted(commits, key=lambda commit: commit.version)
    return {day: entry for commit in ordered for day, entry in commit.page.get("days", {}).items()}


def _to_commit(info: Mapping[str, Any]) -> LoggedCommit:
    milliseconds = info.get("inCommitTimestamp") or info["timestamp"]
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return LoggedCommit(info["version"], moment, parse_page(info.get("userMetadata")))
