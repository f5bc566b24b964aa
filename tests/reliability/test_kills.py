"""kill -9 of the run and of the Spark server, at random moments of every stage: afterwards, a plain re-run gives a clean run's tables."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from stream_assets.engine import server
from stream_assets.sample import write_sample
from stream_assets.settings import PROJECT, Settings

LAST = date(2026, 11, 14)
DAYS = [str(LAST - timedelta(days=n)) for n in (2, 1, 0)]
KILLS = int(os.environ.get("STREAM_KILLS", "2"))
"""`make reliability` sets 200."""
UNSTABLE = ("_run_id", "_quarantined_at")


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "STREAM_HOME": str(home), "STREAM_SPARK_MEMORY": "1g", "STREAM_SPARK_IDLE_MINUTES": "2"}


def start(home: Path, dataset: str, run_id: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.reliability.worker", dataset, run_id, *DAYS]
    return subprocess.Popen(
        command, cwd=PROJECT, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def contents(home: Path, layer: str, dataset: str) -> list[dict]:
    """A table's rows in a fixed order, read by delta-rs, without the columns that name the run."""
    table = DeltaTable(str(home / "lake" / layer / dataset)).to_pyarrow_table()
    kept = table.select([name for name in table.column_names if name not in UNSTABLE])
    return kept.sort_by([("_source", "ascending"), ("_position", "ascending")]).to_pylist()


@pytest.fixture
def homes(tmp_path: Path):
    """A home to be hurt and one left in peace, with the same deliveries to the byte and the second."""
    hurt, clean = tmp_path / "hurt", tmp_path / "clean"
    for home in (hurt, clean):
        write_sample(home / "landing", days=3, end=LAST, scale=0.05, seed=5)
        for file in (home / "landing").rglob("*.*"):
            os.utime(file, (1_790_000_000, 1_790_000_000))
    yield hurt, clean
    for home in (hurt, clean):
        server.stop(Settings.from_env(environment(home)))


def hurt_once(home: Path, dataset: str, number: int, dice: random.Random) -> str:
    """Start the victim and kill it, or the server under it, at a random moment. Returns what was hit and when."""
    victim = start(home, dataset, f"run-{number}")
    assert victim.stdout
    victim.stdout.readline()
    time.sleep(dice.uniform(0.0, 7.0))
    state = server.running(Settings.from_env(environment(home)))
    hit_server = number % 2 == 1 and state is not None
    os.kill(state.pid if hit_server and state else victim.pid, signal.SIGKILL)
    victim.kill()
    victim.wait(60)
    return "server" if hit_server else "run"


def test_any_kill_is_healed_by_running_again(homes: tuple[Path, Path]) -> None:
    """Nothing is lost and nothing doubled, whatever was killed, whenever."""
    hurt, clean = homes
    for number in range(KILLS):
        hurt_once(hurt, "orders", number, random.Random(number))
    for home in homes:
        done = start(home, "orders", "final")
        output, errors = done.communicate(timeout=240)
        assert done.returncode == 0, errors[-2000:]
        assert "refined" in output
    for layer in ("bronze", "silver", "quarantine"):
        assert contents(hurt, layer, "orders") == contents(clean, layer, "orders"), layer
    assert isinstance(DeltaTable(str(hurt / "lake" / "silver" / "orders")).to_pyarrow_table(), pa.Table)
