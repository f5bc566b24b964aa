"""A run that somebody stops says so, begins nothing more, and the next one makes what is missing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.ops.conftest import House, day, law, reading
from tests.lakes import SALT, rows


def start(house: House) -> subprocess.Popen[str]:
    """`stream run`, in a process of its own."""
    environment = {**os.environ, **house.settings.to_env(), "STREAM_PII_SALT": SALT, "PYTHONUNBUFFERED": "1"}
    command = [Path(sys.executable).with_name("stream"), "run", "--from", str(day(0)), "--to", str(day(0))]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_no_success(number: signal.Signals, house_of) -> None:
    """Stopped after landing: exit code 130, the result says canceled, no Gold is made; run again, everything is there, late records too."""
    house = house_of("house")
    house.ship(law())
    house.deliver(0, [*(reading(0, f"r{n}", n) for n in range(10)), reading(-1, "late", 1)])
    process = start(house)
    assert process.stdout is not None
    for line in process.stdout:
        if "✓ land_readings" in line:
            process.send_signal(number)
            break
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Interrupted" in said
    stored = json.loads((house.settings.home / "reports" / "runs" / "latest.json").read_text())
    assert stored["status"] == "canceled"
    assert not (Path(house.settings.lake) / "gold").exists()

    assert house.run(0, 0).status == "success"
    made = {row["reading_id"] for row in rows(house.settings, "gold", "by_reading")}
    assert made == {"late", *(f"r{n}" for n in range(10))}
