"""What people are told about captured tables."""

import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from stream_assets.contracts.model import Contract
from stream_assets.ops import captures
from stream_assets.ops.alerts.message import repair
from stream_assets.ops.captures import capture_conditions
from stream_assets.settings import Settings
from stream_assets.sources import postgres
from stream_assets.sources.capture import MAX_RETAINED_BYTES, CaptureState
from stream_assets.sources.connect import ABSENT, ConnectorState
from stream_assets.sources.debezium import Capture
from stream_assets.sources.postgres import Slot
from tests.documents import bend, contract, document

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


def test_servers_that_keep_silent_are_not_waited_for_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All alerts wait for this look: with a Postgres that takes connections and says nothing, ten captures take as long as one."""
    monkeypatch.setattr(captures, "PATIENCE_S", 0.5)
    monkeypatch.setattr(postgres, "CONNECT_TIMEOUT_S", 2)
    laws = [_followed(tmp_path, f"accounts_{n}") for n in range(10)]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"postgresql://reader@127.0.0.1:{silent.getsockname()[1]}/shop"
        settings = Settings.from_env(
            {"STREAM_HOME": str(tmp_path), "STREAM_SERVER": "live", "STREAM_POSTGRES_DSN": dsn}
        )
        began = time.monotonic()
        found = captures.watch_captures(settings, laws)({})
    assert time.monotonic() - began < 8
    assert [condition.subject for condition in found] == [f"bronze/{law.name}" for law in laws]
    assert all("Postgres cannot be reached" in condition.found for condition in found)


def _followed(folder: Path, name: str) -> Contract:
    made = document(datasetKind="entity")
    made["name"] = made["schema"][0]["name"] = name
    place = {"host": "settings", "port": 5432, "database": "shop", "schema": "public"}
    return contract(folder / name, bend(made, "servers.1", {"server": "live", "type": "postgres", **place}))
