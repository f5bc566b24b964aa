"""How a stream is doing, read from what its query says after each trigger and from the logs of its tables."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from deltalake import DeltaTable

from stream_assets.engine.log import count_rows
from stream_assets.streaming.control import Facts
from stream_assets.streaming.queries import Streams

PACE_S = 30.0
"""Over how long a rate is taken."""
BEGINNING = "1970-01-02"
"""Spark's watermark before the first event."""


class Pace:
    """How fast a count grows."""

    def __init__(self) -> None:
        self.seen: deque[tuple[float, int]] = deque()

    def __call__(self, count: int) -> float:
        """Growth per second since half a minute ago."""
        now = time.monotonic()
        self.seen.append((now, count))
        while len(self.seen) > 2 and now - self.seen[1][0] > PACE_S:
            self.seen.popleft()
        since, before = self.seen[0]
        return round((count - before) / (now - since), 1) if now > since else 0.0


def note_progress(facts: Facts, progress: Mapping[str, Any], *, has_event_time: bool = True) -> None:
    """Take down what a trigger of a query said, once. An idle one has the number of the batch that will come next."""
    if progress["timestamp"] <= facts.seen_at:
        return
    taken, states = (
        sum(source.get("numInputRows", 0) for source in progress["sources"]),
        progress.get("stateOperators", []),
    )
    facts.rows += taken
    facts.batch, facts.seen_at = progress["batchId"], progress["timestamp"]
    facts.idle_at = facts.idle_at if taken else facts.seen_at
    watermark = progress.get("eventTime", {}).get("watermark", "")
    facts.watermark = watermark if has_event_time and watermark > BEGINNING else None
    if states:
        facts.state_rows = sum(operator.get("numRowsTotal", 0) for operator in states)
        facts.state_bytes = sum(operator.get("memoryUsedBytes", 0) for operator in states)
    ends = [
        json.loads(source["endOffset"]) if isinstance(source["endOffset"], str) else source["endOffset"]
        for source in progress["sources"]
    ]
    facts.position = [end.get("reservoirVersion") for end in ends if end]


def note_tables(facts: Facts, streams: Streams) -> None:
    """Take down what the tables of a stream say: what it has served, what came late, what it has not read yet."""
    settings, view = streams.settings, streams.view(facts.name)
    facts.served_rows = count_rows(settings.table_path("live", facts.name))
    facts.late_rows = count_rows(settings.table_path("live", f"{facts.name}_late")) if view else 0
    places = (
        [settings.table_path("live", f"{name}_events") for name in view.sources]
        if view
        else [settings.table_path("bronze", streams.contract(facts.name).name)]
    )
    waits = [_unread(place, position, facts.idle_at) for place, position in zip(places, facts.position, strict=False)]
    facts.lag_versions = sum(versions for versions, _ in waits)
    facts.lag_seconds = max((seconds for _, seconds in waits), default=0.0)


def _unread(path: str, position: int | None, idle_at: str) -> tuple[int, float]:
    """How many commits of a table a reader at this position lacks, and the age of the oldest.

    A commit without new rows (a day replaced, a table compacted) moves no position: one that the reader has looked at since
    and found nothing in is not lacking.
    """
    table = DeltaTable(path)
    behind = max(0, table.version() + 1 - (position or 0)) if position is not None else 0
    made = [datetime.fromtimestamp(page["timestamp"] / 1000, UTC) for page in table.history(behind)] if behind else []
    unread = [moment for moment in made if not idle_at or moment > datetime.fromisoformat(idle_at)]
    if not unread:
        return 0, 0.0
    return len(unread), round((datetime.now(UTC) - min(unread)).total_seconds(), 1)
