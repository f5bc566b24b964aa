"""The files through which commands and the supervisor talk."""

import json
from pathlib import Path

from stream_assets.streaming.control import Control, Facts
from stream_assets.streaming.supervise import note_progress

PROGRESS = {
    "batchId": 4, "timestamp": "2026-11-14T12:00:00.000Z", "numInputRows": 30, "processedRowsPerSecond": 12.34,
    "eventTime": {"watermark": "2026-11-14T11:50:00.000Z"},
    "stateOperators": [{"numRowsTotal": 5, "memoryUsedBytes": 100}, {"numRowsTotal": 2, "memoryUsedBytes": 50}],
    "sources": [{"endOffset": json.dumps({"reservoirVersion": 7, "index": -1})}],
}  # fmt: skip


def test_progress_becomes_facts_once_per_batch() -> None:
    facts = Facts("revenue_by_store")
    note_progress(facts, PROGRESS)
    note_progress(facts, PROGRESS)
    assert (facts.rows, facts.rate, facts.state_rows, facts.state_bytes) == (30, 12.3, 7, 150)
    assert (facts.position, facts.watermark) == ([7], "2026-11-14T11:50:00.000Z")


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
