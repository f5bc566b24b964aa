"""The newest event of each commit, from what its ledger page says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from stream_assets.engine.log import LoggedCommit
from stream_assets.sla.updates import newest_event, updates_of

NOW = datetime(2026, 4, 10, 12, tzinfo=UTC)


def commit(**days: dict[str, Any]) -> LoggedCommit:
    return LoggedCommit(1, NOW, {"days": {f"2026-04-{day[1:]}": entry for day, entry in days.items()}})


def entry(event: str | None, accepted: int = 1) -> dict[str, Any]:
    return {"accepted": accepted, "newest_event": event}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (commit(d09=entry("2026-04-09T22:00:00Z"), d08=entry("2026-04-08T23:59:00Z")), datetime(2026, 4, 9, 22, tzinfo=UTC)),
        (commit(d09=entry("2026-04-09T22:00:00.000000")), datetime(2026, 4, 9, 22, tzinfo=UTC)),
        (commit(d09=entry("2026-04-10T00:30:00+02:00")), datetime(2026, 4, 9, 22, 30, tzinfo=UTC)),
        (commit(d09=entry(None, accepted=0), d08=entry("2026-04-08T10:00:00Z")), datetime(2026, 4, 8, 10, tzinfo=UTC)),
        (commit(d08={"accepted": 5}), datetime(2026, 4, 9, tzinfo=UTC)),
        (commit(d08={"accepted": 5}, d09={"accepted": 0}), datetime(2026, 4, 9, tzinfo=UTC)),
        (commit(d10={"accepted": 5}), NOW),
        (commit(d11=entry("2026-04-11T01:00:00Z")), NOW),
        (commit(d09=entry(None)), None),
        (commit(d09={"accepted": 0}), None),
        (LoggedCommit(1, NOW, {}), None),
    ],
    ids=["newest of days", "without zone", "other zone", "a day without events", "end of the day", "end of the newest day with rows",
         "today is not over", "from the future", "no event time", "no rows", "not our commit"],
)  # fmt: skip
def test_the_newest_event_of_a_commit(made: LoggedCommit, expected: datetime | None) -> None:
    """What the entry says; an entry that says nothing stands for its whole day. Nothing is newer than its commit."""
    assert newest_event(made) == expected


def test_commits_without_events_are_no_updates() -> None:
    """Compaction must not start the measurement."""
    found = updates_of([LoggedCommit(0, NOW, {}), commit(d09=entry("2026-04-09T22:00:00Z"))])
    assert [(update.committed_at, update.newest_event.hour) for update in found] == [(NOW, 22)]
