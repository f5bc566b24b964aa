"""A run is killed with -9: the doctor sees it, `--fix` ends it, and the next run does what it had left."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg

from stream_assets.ops.prepare import prepare_home
from stream_assets.resources import open_instance
from tests.integration.ops.conftest import House, day, law, reading
from tests.lakes import SALT, rows

PATIENCE_S = 120


def stream(house: House, *command: str) -> subprocess.Popen[str]:
    env = {**os.environ, **house.settings.to_env(), "STREAM_PII_SALT": SALT}
    program = str(Path(sys.executable).with_name("stream"))
    return subprocess.Popen([program, *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def examine(house: House, *options: str) -> dict[str, dict[str, str]]:
    """What the doctor says of each part."""
    output, errors = stream(house, "doctor", "--json", *options).communicate(timeout=PATIENCE_S)
    assert output, errors[-2000:]
    return {line["part"]: line for line in json.loads(output)}


def started(house: House) -> set[str]:
    with open_instance(house.settings) as instance:
        return {run.run_id for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))}


def status(house: House, run_id: str) -> dg.DagsterRunStatus:
    with open_instance(house.settings) as instance:
        run = instance.get_run_by_id(run_id)
    assert run
    return run.status


def test_what_a_kill_leaves_behind_is_found_and_ended(house_of) -> None:
    house = house_of("house")
    prepare_home(house.settings)
    house.ship(law())
    house.deliver(0, [reading(0, f"r{n}", n) for n in range(10)])
    before = started(house)
    victim = stream(house, "run", "--from", str(day(0)), "--to", str(day(0)))
    deadline = time.monotonic() + PATIENCE_S
    while not (mine := started(house) - before):
        assert victim.poll() is None, victim.communicate()[1][-2000:]
        assert time.monotonic() < deadline, "no run began"
        time.sleep(0.1)
    victim.kill()
    victim.wait(30)  # not for its output: what Dagster started to copy logs may outlive it
    draft = house.settings.home / "backfills" / "killed.1.tmp"
    draft.parent.mkdir(exist_ok=True)
    draft.write_text("{")

    found = examine(house)
    assert (found["runs"]["state"], found["locks"]["state"]) == ("warn", "warn")
    assert "stream doctor --fix" in found["runs"]["remedy"]
    (run_id,) = mine
    assert status(house, run_id) == dg.DagsterRunStatus.STARTED, "looking changes nothing"
    fixed = examine(house, "--fix")
    assert (fixed["runs"]["state"], fixed["locks"]["state"]) == ("ok", "ok")
    assert status(house, run_id) == dg.DagsterRunStatus.FAILURE
    assert not draft.exists()
    again = examine(house)
    assert (again["runs"]["text"], again["locks"]["text"]) == ("none is orphaned", "none left behind")
    assert again["engine"]["state"] == "ok"

    assert house.run(0, 0).status == "success"
    assert len(rows(house.settings, "silver", "readings")) == len(rows(house.settings, "gold", "by_reading")) == 10
