"""The files through which commands and the supervisor talk."""

import json
import time
from pathlib import Path

from stream_assets.streaming.control import Control, Facts
from stream_assets.streaming.notes import Pace, note_progress

PROGRESS = {
    "batchId": 4, "timestamp": "2026-11-14T12:00:00.000Z", "eventTime": {"watermark": "2026-11-14T11:50:00.000Z"},
    "stateOperators": [{"numRowsTotal": 5, "memoryUsedBytes": 100}, {"numRowsTotal": 2, "memoryUsedBytes": 50}],
    "sources": [{"endOffset": json.dumps({"reservoirVersion": 7, "index": -1}), "numInputRows": 30}],
}  # fmt: skip
"""As Spark says it: the rows are told by the sources alone."""


def test_progress_becomes_facts_once_per_trigger() -> None:
    """An idle trigger has the number of the batch that comes next: that batch counts all the same."""
    facts = Facts("revenue_by_store")
    idle = PROGRESS | {
        "timestamp": "2026-11-14T11:59:50.000Z",
        "stateOperators": [],
        "sources": [{"endOffset": None, "numInputRows": 0}],
    }
    for progress in (idle, PROGRESS, idle, PROGRESS):
        note_progress(facts, progress)
    assert (facts.rows, facts.state_rows, facts.state_bytes) == (30, 7, 150)
    assert (facts.position, facts.watermark) == ([7], "2026-11-14T11:50:00.000Z")
    assert (facts.seen_at, facts.idle_at) == (PROGRESS["timestamp"], idle["timestamp"])


def test_a_rate_is_what_came_in_lately() -> None:
    pace = Pace()
    assert pace(100) == 0
    wait_until = time.monotonic() + 0.05
    while time.monotonic() < wait_until:
        pass
    assert 0 < pace(110) <= 10 / 0.05


def test_status_of_a_dead_supervisor_says_that_its_streams_stopped(tmp_path: Path) -> None:
    control = Control(tmp_path)
    assert control.status() == {"running": False, "streams": []}
    control.tell([Facts("a", state="running")])
    assert control.status()["running"]
    told = json.loads((tmp_path / "status.json").read_text())
    (tmp_path / "status.json").write_text(json.dumps(told | {"born": told["born"] - 100}))
    found = control.status()
    assert (found["running"], found["streams"][0]["state"]) == (False, "stopped")
    assert not control.end()


def test_streams_rest_until_they_are_resumed(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.pause(["a", "b"])
    control.resume(["a", "c"])
    assert Control(tmp_path).paused == {"b"}
