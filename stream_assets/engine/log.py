"""Reads the ledger of a table from its Delta log without Spark: in milliseconds, where Spark would start a job, and while the engine sleeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from stream_assets.engine.ledger import parse_page

RECENT_COMMITS = 200
"""Commits read at first: months of daily loads. Reading all of a long history would make every day dearer than the last."""


@dataclass(frozen=True)
class LoggedCommit:
    """One commit of a table."""

    version: int
    committed_at: datetime
    page: Mapping[str, Any]
    """The ledger page of the commit (see `ledger.Commit`); empty if another tool made it."""


def read_log(path: str, newest: int | None = None) -> list[LoggedCommit]:
    """The commits that a table's log still holds, or the newest of them, oldest first; none if there is no such table."""
    try:
        history = DeltaTable(path, without_files=True).history(newest)
    except TableNotFoundError:
        return []
    return sorted((_to_commit(info) for info in history), key=lambda commit: commit.version)


def read_ledger(path: str, needed: Iterable[date] = ()) -> dict[str, dict[str, Any]]:
    """The newest entry of every day the last commits tell of, by ISO day; of older days too, if a needed one is among them."""
    recent = read_log(path, RECENT_COMMITS)
    days = newest_entries(recent)
    # A day after the newest one is new, not forgotten.
    is_forgotten = any(day.isoformat() not in days and day.isoformat() <= max(days, default="") for day in needed)
    return newest_entries(read_log(path)) if is_forgotten and len(recent) == RECENT_COMMITS else days


def newest_entries(commits: Iterable[LoggedCommit]) -> dict[str, dict[str, Any]]:
    """For each ISO day, what the newest of these commits says of it, and which commit of which run that is.

    Commits of other tools (compaction, vacuum) have no entries and change none.
    """
    return {
        day: {**entry, "run_id": commit.page["run_id"], "version": commit.version}
        for commit in sorted(commits, key=lambda commit: commit.version)
        for day, entry in commit.page.get("days", {}).items()
    }


def _to_commit(info: Mapping[str, Any]) -> LoggedCommit:
    milliseconds = info.get("inCommitTimestamp") or info["timestamp"]
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return LoggedCommit(info["version"], moment, parse_page(info.get("userMetadata")))
