"""The life of our own server: started once, found again, stopped for sure, never mistaken for another process.

A small listener stands for the JVM. Everything else, the keeper process included, is the real thing.
"""

import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from stream_assets.engine import server
from stream_assets.errors import EngineError
from stream_assets.settings import Settings
from tests.engines import put_listener, wait_for


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    put_listener(monkeypatch)
    made = Settings.from_env({"STREAM_HOME": str(tmp_path), "STREAM_SPARK_IDLE_MINUTES": "1"})
    yield made
    server.stop(made)


def state_of(settings: Settings) -> Path:
    return settings.home / "spark" / "server.json"


def test_one_server_serves_everybody_and_stops(settings: Settings) -> None:
    """The second caller gets the first one's server; stopping ends the process and forgets it."""
    connection = server.connect(settings)
    state = server.running(settings)
    assert state is not None
    assert (connection.url, server.connect(settings)) == (f"sc://localhost:{state.port}", connection)
    assert server.stop(settings)
    assert not psutil.pid_exists(state.pid)
    assert server.running(settings) is None
    assert not server.stop(settings)
    wait_for(
        lambda: not psutil.pid_exists(state.keeper) or psutil.Process(state.keeper).status() == psutil.STATUS_ZOMBIE
    )


def test_the_token_is_for_its_owner_alone(settings: Settings) -> None:
    """Mode 600, not in the state that others may read, not on the command line that everyone may list."""
    connection = server.connect(settings)
    state = server.running(settings)
    token = settings.home / "spark" / "token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert connection.token == token.read_text()
    assert len(connection.token) >= 32
    assert connection.token not in state_of(settings).read_text()
    assert state is not None
    assert connection.token not in " ".join(
        psutil.Process(state.pid).cmdline() + psutil.Process(state.keeper).cmdline()
    )


def test_a_server_that_cannot_start_says_why_at_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of its log is in the error: nobody has to look for it, or to wait for a time-out."""
    dying = [sys.executable, "-c", "import sys; sys.exit('no space left on device')"]
    monkeypatch.setattr(server, "_command", lambda *_: dying)
    began = time.monotonic()
    with pytest.raises(EngineError, match="no space left on device"):
        server.connect(settings)
    assert time.monotonic() - began < 30


def test_a_server_that_crashed_is_replaced(settings: Settings) -> None:
    """The keeper of the dead server must not take the state of the next one away with it."""
    server.connect(settings)
    dead = server.running(settings)
    assert dead is not None
    psutil.Process(dead.pid).kill()
    wait_for(lambda: server.running(settings) is None)
    server.connect(settings)
    wait_for(lambda: not psutil.pid_exists(dead.keeper) or psutil.Process(dead.keeper).status() == psutil.STATUS_ZOMBIE)
    fresh = server.running(settings)
    assert fresh is not None
    assert fresh.pid != dead.pid


def test_an_idle_server_stops_by_itself(settings: Settings) -> None:
    """Whoever forgot it, it does not stay."""
    server.connect(replace(settings, spark_idle_minutes=0.001))
    state = server.running(settings)
    assert state is not None
    wait_for(lambda: not state_of(settings).exists())
    assert not psutil.pid_exists(state.pid)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        json.dumps({"pid": os.getpid(), "born": 0.0, "keeper": 1, "port": 1}),
        json.dumps({"pid": 2**22 + 1, "born": 0.0, "keeper": 1, "port": 1}),
        json.dumps({"pid": os.getpid(), "born": psutil.Process().create_time(), "keeper": 1, "port": 1}),
    ],
    ids=["empty", "torn", "list", "nothing", "recycled pid", "no such pid", "not listening"],
)
def test_a_state_that_names_no_server_of_ours_is_none(text: str, settings: Settings) -> None:
    """A recycled process number is not our server, and must never be stopped as if it were."""
    state_of(settings).parent.mkdir()
    state_of(settings).write_text(text)
    assert server.running(settings) is None
    assert not server.stop(settings)


def test_a_cluster_is_used_as_it_is(tmp_path: Path) -> None:
    """With SPARK_REMOTE nothing is started and nothing is written."""
    settings = Settings.from_env({"STREAM_HOME": str(tmp_path / "home"), "SPARK_REMOTE": "sc://cluster:15002"})
    assert server.connect(settings) == server.Connection("sc://cluster:15002")
    assert not settings.home.exists()


def test_the_server_listens_on_loopback_only(tmp_path: Path) -> None:
    """Spark binds all interfaces unless it is told otherwise."""
    conf = server.server_conf(Settings.from_env({"STREAM_HOME": str(tmp_path)}), 4242)
    assert conf["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.ui.enabled"] == "false"
    assert not [value for key, value in conf.items() if "token" in key]


def test_the_keeper_ends_its_server_when_told_to(settings: Settings) -> None:
    """A keeper that is asked to go takes the JVM along."""
    server.connect(settings)
    state = server.running(settings)
    assert state is not None
    psutil.Process(state.keeper).terminate()
    wait_for(lambda: server.running(settings) is None)
    wait_for(lambda: not psutil.pid_exists(state.pid))
