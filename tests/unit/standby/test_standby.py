"""Commands that another process has loaded for us: the same words, the same end, and nobody left behind.

A small listener stands for the engine, as none of these commands needs one. The process on standby and the commands are the real thing.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import stream_assets
from stream_assets.engine import server
from stream_assets.settings import Settings
from stream_assets.standby import entry
from tests.engines import put_listener, wait_for

STREAM = str(Path(sys.executable).with_name("stream"))
HEEDING = """
import os, signal, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Starts a command that heeds signals: what runs the tests may ignore some, and what it starts would ignore them too."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is longer than a socket's address may be."""
    return tmp_path_factory.mktemp("h" * 120)


@pytest.fixture(scope="module")
def settings(home: Path) -> Iterator[Settings]:
    made = Settings.from_env({"STREAM_HOME": str(home), "STREAM_SPARK_IDLE_MINUTES": "10"})
    with pytest.MonkeyPatch.context() as patch:
        put_listener(patch)
        server.connect(made)
    yield made
    server.stop(made)


@pytest.fixture
def on_standby(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a home in which a process is on standby."""
    monkeypatch.setenv("STREAM_HOME", str(settings.home))
    monkeypatch.setenv("STREAM_STANDBY", "on")
    if not entry.place(settings).exists():
        assert "dagster" in sys.modules or __import__("dagster")
        with monkeypatch.context() as elsewhere:  # as somebody might who names his home from where he is
            elsewhere.chdir(settings.home.parent)
            elsewhere.setenv("STREAM_HOME", settings.home.name)
            entry.leave_one_ready(settings)
        wait_for(lambda: entry.place(settings).exists())
    return settings


def run(*words: str, standby: str = "on", **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "STREAM_STANDBY": standby, "COLUMNS": "120", **more}
    return subprocess.run([STREAM, *words], env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def long_one(on_standby: Settings, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command that would take minutes, handed over and under way."""
    environment = {**os.environ, "STREAM_LANDING": str(tmp_path / "landing")}
    words = [sys.executable, "-c", HEEDING, STREAM, "sample", "--days", "600", "--scale", "3"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as started:
        wait_for(lambda: list((tmp_path / "landing").rglob("*.jsonl")), 60)
        yield started
        started.kill()


def forks(settings: Settings) -> list[psutil.Process]:
    """The processes that work on commands handed over."""
    return psutil.Process(int(entry.place(settings).with_suffix(".pid").read_text())).children()


@pytest.mark.parametrize(
    ("words", "code"), [(("contracts", "list"), 0), (("contracts", "diff", "a", "b"), 1), (("nonsense",), 2), ((), 2)]
)
def test_a_command_ends_as_if_it_had_been_run_here(words: tuple[str, ...], code: int, on_standby: Settings) -> None:
    """Output, errors and exit code are those of a process that loads everything itself."""
    theirs, ours = run(*words), run(*words, standby="off")
    assert (theirs.stdout, theirs.stderr, theirs.returncode) == (ours.stdout, ours.stderr, ours.returncode)
    assert ours.returncode == code


def test_a_command_is_really_handed_over(on_standby: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    """It runs with our descriptors: what it prints comes out here."""
    before = {number: signal.getsignal(number) for number in entry.PASSED_ON}
    try:
        assert entry.hand_over(on_standby, ["contracts", "list"]) == 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "orders" in capfd.readouterr().out


def test_folder_and_environment_are_the_callers(
    on_standby: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one command was told is nothing to the next."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bad.odcs.yaml").write_text("apiVersion: v3.1.0\n")
    monkeypatch.chdir(tmp_path)
    refused = run("contracts", "lint", STREAM_CONTRACTS="mine")
    assert refused.returncode == 1
    assert "bad.odcs.yaml" in refused.stdout + refused.stderr
    assert run("contracts", "lint").returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_reach_the_command(
    number: signal.Signals, code: int, on_standby: Settings, long_one: subprocess.Popen[bytes]
) -> None:
    """Whoever stops the command in the terminal stops the one that works."""
    long_one.send_signal(number)
    assert long_one.wait(30) == code
    wait_for(lambda: not forks(on_standby))


def test_ctrl_c_is_answered_by_the_command_itself(on_standby: Settings, long_one: subprocess.Popen[bytes]) -> None:
    """It is asked, not killed: it may tidy up before it ends, and ends as commands do that were interrupted."""
    long_one.send_signal(signal.SIGINT)
    assert long_one.wait(30) == 130
    wait_for(lambda: not forks(on_standby))


def test_a_command_dies_with_whoever_started_it(on_standby: Settings, long_one: subprocess.Popen[bytes]) -> None:
    """A killed command does not go on behind anybody's back."""
    assert forks(on_standby)
    long_one.kill()
    long_one.wait(30)
    wait_for(lambda: not forks(on_standby))


def test_a_killed_worker_is_a_failed_command(on_standby: Settings, long_one: subprocess.Popen[bytes]) -> None:
    """The caller is told as if it had been killed itself, and never waits for ever."""
    for process in forks(on_standby):
        process.kill()
    assert long_one.wait(30) == 137


def test_only_its_owner_may_ask(on_standby: Settings) -> None:
    """Whoever can connect can run commands."""
    assert entry.place(on_standby).stat().st_mode & 0o077 == 0


def test_there_is_one_at_most(on_standby: Settings) -> None:
    """Whoever comes second leaves again, and the first still answers."""
    second = [sys.executable, "-P", "-m", "stream_assets.standby.server"]
    assert subprocess.run(second, env=os.environ, check=False, timeout=30).returncode == 0
    assert run("contracts", "list").returncode == 0


def test_changed_code_is_not_run_from_memory(on_standby: Settings) -> None:
    """The process takes leave at the next command, which is run by what lies on the disk."""
    file = Path(stream_assets.__file__)
    before = file.stat()
    try:
        os.utime(file, (before.st_atime, time.time()))
        assert entry.hand_over(on_standby, ["contracts", "list"]) is None
        wait_for(lambda: not entry.place(on_standby).exists())
    finally:
        os.utime(file, (before.st_atime, before.st_mtime))
    assert run("contracts", "list").returncode == 0


def test_another_checkout_runs_its_own_code(on_standby: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two checkouts may share a STREAM_HOME: a command is never run by the code of the other."""
    monkeypatch.setattr(entry, "PROGRAM", [sys.executable, "/elsewhere/stream_assets/standby"])
    assert entry.hand_over(on_standby, ["contracts", "list"]) is None


def test_files_are_as_private_as_the_caller_wants_them(on_standby: Settings, tmp_path: Path) -> None:
    """The mask of permissions is the caller's."""
    environment = {**os.environ, "STREAM_LANDING": str(tmp_path / "landing")}
    command = [STREAM, "sample", "--days", "1", "--scale", "0.01"]
    subprocess.run(command, env=environment, umask=0o077, check=True, capture_output=True, timeout=60)
    files = [file for file in (tmp_path / "landing").rglob("*") if file.is_file()]
    assert files
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def test_it_leaves_with_the_engine(on_standby: Settings) -> None:
    """Nothing stays behind when the engine is stopped."""
    assert entry.place(on_standby).exists()
    server.stop(on_standby)
    wait_for(lambda: not entry.place(on_standby).exists())
