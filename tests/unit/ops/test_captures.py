"""What people are told about captured tables."""

from dataclasses import replace
from pathlib import Path

import pytest

from stream_assets.ops.alerts.message import repair
from stream_assets.ops.captures import capture_conditions
from stream_assets.sources.capture import MAX_RETAINED_BYTES, CaptureState
from stream_assets.sources.connect import ABSENT, ConnectorState
from stream_assets.sources.debezium import Capture
from stream_assets.sources.postgres import Slot
from tests.documents import contract

CAPTURE = Capture("readings", "public", "readings", "lab.readings.changes", "initial", needs_full_rows=True)
RUNNING = ConnectorState("RUNNING")
READ = Slot(is_active=True, retained_bytes=1_000_000, is_lost=False)


def test_a_capture_that_flows_is_no_incident(tmp_path: Path) -> None:
    """A running connector that reads its slot is all there is to want."""
    assert capture_conditions([(contract(tmp_path), CaptureState(CAPTURE, RUNNING, READ))]) == []


@pytest.mark.parametrize(
    ("connector", "slot", "severity", "remedy"),
    [
        (ABSENT, READ, "error", "stream cdc up readings"),
        (RUNNING, None, "critical", "stream cdc resnapshot readings"),
        (RUNNING, Slot(True, 5, is_lost=True), "critical", "stream cdc resnapshot readings"),
        (ConnectorState("FAILED", "no route"), READ, "error", "stream cdc up readings"),
        (RUNNING, Slot(True, MAX_RETAINED_BYTES + 1, is_lost=False), "critical", "stream cdc up readings"),
        (ConnectorState("PAUSED"), READ, "error", "stream cdc resume readings"),
        (RUNNING, Slot(False, 5, is_lost=False), "error", "stream cdc up readings"),
    ],
    ids=["absent", "slot gone", "log gone", "failed", "disk", "paused", "nobody reads"],
)
def test_each_trouble_has_its_remedy(
    tmp_path: Path, connector: ConnectorState, slot: Slot | None, severity: str, remedy: str
) -> None:
    """An alert names the command that mends it; what loses changes or the source's disk is critical."""
    (condition,) = capture_conditions([(contract(tmp_path), CaptureState(CAPTURE, connector, slot))])
    assert (condition.severity, repair(condition)) == (severity, remedy)
    assert condition.subject == "bronze/readings"


def test_a_copy_needs_no_slot(tmp_path: Path) -> None:
    """`initial_only` reads the table once: without a slot nothing is wrong, and nothing is lost when its connector fails."""
    copy = replace(CAPTURE, snapshot="initial_only")
    assert CaptureState(copy, RUNNING, None).problem is None
    (condition,) = capture_conditions([(contract(tmp_path), CaptureState(copy, ConnectorState("FAILED"), None))])
    assert condition.severity == "error"
