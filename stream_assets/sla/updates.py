"""The updates of a dataset, as its Silver ledger tells them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from stream_assets.engine.log import LoggedCommit
from stream_assets.sla.budget import Update


def updates_of(commits: Iterable[LoggedCommit]) -> list[Update]:
    """One update per commit that brought events. Compaction and days without records say nothing."""
    newest = [(commit, newest_event(commit)) for commit in commits]
    return [Update(commit.committed_at, event) for commit, event in newest if event]


def newest_event(commit: LoggedCommit) -> datetime | None:
    """Time of the newest event of a commit, never after the commit itself."""
    entries = commit.page.get("days", {}).items()
    events = [event for day, entry in entries if (event := _newest_of_day(date.fromisoformat(day), entry))]
    return min(max(events), commit.committed_at) if events else None


def _newest_of_day(day: date, entry: Mapping[str, Any]) -> datetime | None:
    """What the entry says. Entries that say nothing of it stand for their whole day, if it has accepted rows."""
    if "newest_event" in entry:
        return _moment(entry["newest_event"]) if entry["newest_event"] else None
    return datetime.combine(day + timedelta(days=1), time(), UTC) if entry.get("accepted") else None


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
