"""Reads the ledger of a table from its Delta log without Spark: in milliseconds, where Spark would start a job, and while the engine sleeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from stream_assets.engine.files import files_in
from stream_assets.engine.ledger import Commit, parse_page
from stream_assets.engine.session import filesystem_of

RECENT_COMMITS = 200
"""Commits read at first: months of daily loads. Reading all of a long history would make every day dearer than the last."""
LAST_COMMITS = 5
"""Commits read to find the newest positions: a loop asks several times a second."""
RECENT_DAYS = 40
"""Days that a page with positions repeats: more than an event is late by in practice."""


@dataclass(frozen=True)
class Ledger:
    """What the commits of a table say together."""

    days: dict[str, dict[str, Any]]
    """The newest entry of each ISO day, with `run_id` and `version` of its commit."""
    positions: Mapping[str, Any] = field(default_factory=dict)
    """The newest positions, as their commit wrote them."""
    run_id: str = ""
    """Run that wrote the newest positions."""


@dataclass(frozen=True)
class LoggedCommit:
    """One commit of a table."""

    version: int
    committed_at: datetime
    page: Mapping[str, Any]
    """The ledger page of the commit (see `ledger.Commit`); empty if another tool made it."""
    operation: str = ""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """What Delta counted: `numOutputRows`, `numOutputBytes` and others, by operation."""


def read_log(path: str, newest: int | None = None) -> list[LoggedCommit]:
    """The commits that a table's log still holds, or the newest of them, oldest first; none if there is no such table."""
    try:
        history = DeltaTable(path, without_files=True).history(newest)
    except TableNotFoundError:
        return []
    return sorted((_to_commit(info) for info in history), key=lambda commit: commit.version)


def is_made(path: str, commit: Commit) -> bool:
    """Whether a commit is among the last ones: Delta does not say that it made none because its token was used."""
    page = parse_page(commit.to_json())
    return any(logged.page == page for logged in read_log(path, RECENT_COMMITS))


def newest_version(path: str) -> int | None:
    """The version of a table by the names in its log, nothing read; None if there is no such table."""
    filesystem, folder = filesystem_of(f"{path}/_delta_log")
    names = [f.base_name for f in filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))]
    return max((int(name[:20]) for name in names if name[:20].isdigit()), default=None)


def newest_commits(commits: Iterable[LoggedCommit]) -> dict[str, LoggedCommit]:
    """For each ISO day, the newest of these commits that has it."""
    return {day: commit for commit in sorted(commits, key=lambda c: c.version) for day in commit.page.get("days", {})}


def read_ledger(path: str, needed: Iterable[date] = ()) -> dict[str, dict[str, Any]]:
    """The newest entry of every day the last commits tell of, by ISO day; of older days too, if a needed one is among them."""
    return read_whole_ledger(path, needed).days


def read_whole_ledger(path: str, needed: Iterable[date] = ()) -> Ledger:
    """The same, with the positions of the topic that is landed there."""
    recent = read_log(path, RECENT_COMMITS)
    ledger = add_up(recent)
    newest = max(ledger.days, default="")
    # A day after the newest one is new, not forgotten; nor is one of which the newest page with positions would have told.
    told_since = _recent_since(newest) if ledger.positions else "9999"
    is_forgotten = any(d not in ledger.days and d <= newest and d < told_since for d in map(str, needed))
    return add_up(read_log(path)) if is_forgotten and len(recent) == RECENT_COMMITS else ledger


def read_positions(path: str) -> Ledger:
    """The ledger with the newest positions, however far back they were written: their page repeats what came before."""
    for newest in (LAST_COMMITS, RECENT_COMMITS, None):
        ledger = add_up(read_log(path, newest))
        if ledger.positions:
            break
    return ledger


def recent_entries(days: Mapping[str, Mapping[str, Any]], *, but: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """The entries that a page with positions repeats: those of the last days, except these."""
    since, left_out = _recent_since(max([*days, *but], default="")), set(but)
    return {day: entry for day, entry in days.items() if day >= since and day not in left_out}


def _recent_since(newest: str) -> str:
    return (date.fromisoformat(newest) - timedelta(days=RECENT_DAYS)).isoformat() if newest else ""


def newest_entries(commits: Iterable[LoggedCommit]) -> dict[str, dict[str, Any]]:
    """For each ISO day, what the newest of these commits says of it, and which commit of which run that is."""
    return add_up(commits).days


def as_written(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Entries without what reading added to them."""
    return {day: {k: v for k, v in e.items() if k not in ("run_id", "version")} for day, e in entries.items()}


def add_up(commits: Iterable[LoggedCommit]) -> Ledger:
    """What commits say together. An entry that a page only repeats counts as old as it was when it was read.

    Commits of other tools (compaction, vacuum) have no entries and change none.
    """
    days: dict[str, dict[str, Any]] = {}
    newest: Mapping[str, Any] = {}
    for commit in sorted(commits, key=lambda commit: commit.version):
        page = commit.page
        for day, entry in page.get("recent", {}).items():
            if day not in days or entry["version"] > days[day]["version"]:
                days[day] = dict(entry)
        for day, entry in page.get("days", {}).items():
            days[day] = {**entry, "run_id": page["run_id"], "version": commit.version}
        newest = page if page.get("positions") else newest
    return Ledger(days, newest.get("positions", {}), newest.get("run_id", ""))


def _to_commit(info: Mapping[str, Any]) -> LoggedCommit:
    milliseconds = info.get("inCommitTimestamp") or info["timestamp"]
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    operation, metrics = info.get("operation", ""), info.get("operationMetrics") or {}
    return LoggedCommit(info["version"], moment, parse_page(info.get("userMetadata")), operation, metrics)


def count_rows(path: str) -> int:
    """How many rows a table has, as its log says; none if there is no such table."""
    return sum(file.rows for file in files_in(path))
