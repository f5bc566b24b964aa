"""`stream alerts list` and `close`, and the documents that belong to alerts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from stream_assets.ops.alerts.incidents import Condition, Kind
from stream_assets.ops.alerts.message import RUNBOOK, TOPICS
from stream_assets.ops.alerts.outbox import Outbox
from stream_assets.settings import FIELDS, PROJECT, Settings

STREAM = Path(sys.executable).with_name("stream")
CONDITIONS = [
    Condition("resource", "disk", "capacity", "warning", "below 80% used", "83% used"),
    Condition(
        "check", "silver/orders", "r", "error", "few", "[many]", ("2026-11-01",), ("team:commerce", "c@example.com")
    ),
]


def stream(settings: Settings, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **settings.to_env(), "COLUMNS": "200"}
    return subprocess.run([STREAM, "alerts", *args], env=env, capture_output=True, text=True, check=False, timeout=60)


def test_nothing_open_says_so(configure: Callable[..., Settings]) -> None:
    done = stream(configure(), "list")
    assert (done.returncode, done.stdout) == (0, "No open incident.\n")


def test_open_incidents_are_listed_the_worst_first_and_can_be_closed(configure: Callable[..., Settings]) -> None:
    settings = configure()
    Outbox(settings.home).record(CONDITIONS, settings.alerts, channels=["file"], now=datetime.now(UTC))
    table = stream(settings, "list").stdout
    assert table.index("check:silver/orders:r") < table.index("resource:disk:capacity")
    for text in ("[many]", "team:commerce", "2026-11-01", "stream run --from 2026-11-01", "file 2 alerts waiting"):
        assert text in table
    found = json.loads(stream(settings, "list", "--json").stdout)
    assert [one["severity"] for one in found["incidents"]] == ["error", "warning"]
    assert found["channels"]["file"]["waiting"] == 2
    assert stream(settings, "close", "resource:disk:capacity").returncode == 0
    assert Outbox(settings.home).incidents().keys() == {"check:silver/orders:r"}


def test_closing_what_is_not_open_is_an_error(configure: Callable[..., Settings]) -> None:
    done = stream(configure(), "close", "nothing")
    assert done.returncode == 1
    assert "stream alerts list" in done.stderr


def test_every_kind_of_alert_has_its_runbook() -> None:
    text = (PROJECT / RUNBOOK).read_text()
    assert set(TOPICS) == set(get_args(Kind))
    assert not [kind for kind in get_args(Kind) if f"### Alert: {kind}\n" not in text]


def test_every_setting_is_in_the_docs() -> None:
    text = (PROJECT / "docs" / "settings.md").read_text()
    missing = [n for n, (default, meaning) in FIELDS.items() if f"| `{n}` | {default} | {meaning} |" not in text]
    assert not missing
