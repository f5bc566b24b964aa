"""kill -9 of the engine and of the supervisor while orders stream in: at the end the view is what a clean computation gives."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stream_assets.engine import server
from stream_assets.engine.session import open_session
from stream_assets.settings import PROJECT, Settings
from stream_assets.streaming.control import Control
from tests.integration.test_views import arrivals, expected_windows, served
from tests.reliability.test_kills import environment
from tests.streams import arrive, streams_of

KILLS = int(os.environ.get("STREAM_KILLS", "0"))
"""`make reliability` sets it: a supervisor, an engine and their restarts take minutes."""
pytestmark = pytest.mark.skipif(not KILLS, reason="STREAM_KILLS is not set: see `make reliability`")
PATIENCE_S = 300


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Settings]:
    settings = Settings.from_env(
        environment(tmp_path) | {"STREAM_TRIGGER_SECONDS": "0.5", "STREAM_REPORT_SECONDS": "2"}
    )
    yield settings
    Control.of(settings).end()
    server.stop(settings)


def supervise(settings: Settings) -> subprocess.Popen[str]:
    """Start `stream streams run` for the revenue."""
    env = {**os.environ, **settings.to_env()}
    command = [sys.executable, "-c", "from stream_assets.cli import main; main()", "streams", "run", "revenue_by_store"]
    return subprocess.Popen(command, cwd=PROJECT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for(condition, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.5)


def has_seen_all(settings: Settings) -> bool:
    told = Control.of(settings).status()
    streams = {one["name"]: one for one in told["streams"]}
    return (
        told["running"]
        and set(streams) == {"orders_events", "revenue_by_store"}
        and all(one["state"] == "running" and one["position"] and not one["lag_versions"] for one in streams.values())
    )


def test_kills_of_engine_and_supervisor_change_nothing(home: Settings) -> None:
    """Nothing is lost and nothing doubled, whichever was killed, whenever; the streams come back by themselves."""
    dice, batches = random.Random(7), arrivals(seed=5)
    streams = streams_of(home, "revenue_by_store")
    supervisor: subprocess.Popen[str] | None = None
    for number, (minutes, batch) in enumerate(batches):
        arrive(open_session(home), home, streams.contracts["orders"], batch, minutes=minutes)
        if supervisor is None:
            supervisor = supervise(home)
        wait_for(lambda: has_started(home), "streams to start")
        if number < KILLS:
            time.sleep(dice.uniform(0.0, 5.0))
            hit_engine = number % 2 == 0
            state = server.running(home)
            if hit_engine and state:
                # Gone for good before we open a session of our own: a dying server may still take a connection.
                engine = psutil.Process(state.pid)
                engine.kill()
                engine.wait(60)
            else:
                supervisor.kill()
                supervisor.wait(60)
                supervisor = supervise(home)
    expected = expected_windows(batches)
    try:
        wait_for(lambda: has_seen_all(home) and served(home) == expected, "the view to be complete")
    finally:
        assert supervisor is not None
        supervisor.terminate()
        supervisor.wait(120)
    assert served(home) == expected
    assert not Control.of(home).status()["running"]
    assert not [p for p in psutil.Process().children(recursive=True) if p.pid == supervisor.pid]


def has_started(settings: Settings) -> bool:
    told = Control.of(settings).status()
    return told["running"] and any(one["state"] == "running" for one in told["streams"])
