"""Some datasets are broken, each in its own way, beside a healthy one: that one is made up to Gold, and the run says what failed."""

import json
import os
import subprocess
import sys
from pathlib import Path

from stream_assets.contracts.load import load_contracts
from tests.documents import write
from tests.integration.ops.conftest import House, day, law, reading
from tests.lakes import SALT, as_lines, deliver, rows

GATED, TORN, UNREAD, REFUSED = "gauges", "meters", "probes", "dials"
OTHERS = (GATED, TORN, UNREAD)
STRICT = [{"check": "validity__table__rejected_share", "strictness": "gate", "limit": 0.1}]


def other(name: str, **custom) -> dict:
    """The contract under another name."""
    text = json.dumps(law(**custom)).replace('"readings"', f'"{name}"').replace("test:readings", f"test:{name}")
    return json.loads(text)


def deliver_all(house: House, number: int, pieces: int = 1) -> None:
    house.deliver(number, [reading(number, f"r{number}-{n}", 1) for n in range(10)])
    for name in OTHERS:
        content = as_lines(reading(number, f"r{number}-{n}", pieces) for n in range(10))
        deliver(house.settings, f"{name}/{day(number)}/part.jsonl", content)


def stream_run(house: House, *options: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **house.settings.to_env(), "STREAM_PII_SALT": SALT}
    command = [str(Path(sys.executable).with_name("stream")), "run", *options]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)


def tear(house: House, layer: str, name: str) -> None:
    """Make a table's log unreadable, as a bad disk would."""
    for file in (Path(house.settings.table_path(layer, name)) / "_delta_log").glob("*.json"):
        file.write_text("not a commit\n")


def test_one_that_fails_does_not_stop_the_others(house_of) -> None:
    """A failed gate, a torn table of Silver, one of Bronze, a refused contract: exit 1, each named, the healthy one complete."""
    house = house_of("house")
    house.ship(law())
    write(house.settings.contracts, other(GATED, checks=STRICT), GATED)
    for name in (TORN, UNREAD):
        write(house.settings.contracts, other(name), name)
    deliver_all(house, 0)
    first = stream_run(house, "--from", str(day(0)), "--to", str(day(0)))
    assert first.returncode == 0, first.stdout[-3000:]

    write(house.settings.contracts, {**other(REFUSED), "apiVersion": "v0"}, REFUSED)
    assert [Path(e.file).name for e in load_contracts(house.settings.contracts).broken] == [f"{REFUSED}.odcs.yaml"]
    tear(house, "silver", TORN)
    tear(house, "bronze", UNREAD)
    deliver_all(house, 1, pieces=-1)
    run = stream_run(house, "--from", str(day(1)), "--to", str(day(1)))
    assert run.returncode == 1, run.stdout[-3000:]
    told = json.loads((house.settings.home / "reports" / "runs" / "latest.json").read_text())
    assert {error["step"] for error in told["errors"]} >= {f"refine_{GATED}", f"refine_{TORN}", f"land_{UNREAD}"}
    assert not [error for error in told["errors"] if "readings" in error["step"] or "gold" in error["step"]]
    assert all(name in run.stdout for name in (*OTHERS, REFUSED))
    gates = {(c["asset"], c["check"]) for c in told["checks"] if c["is_gate"] and not c["passed"]}
    assert (f"silver/{GATED}", "validity__table__rejected_share") in gates

    days = {row["_event_date"] for row in rows(house.settings, "silver", "readings", ["_event_date"])}
    assert days == {day(0), day(1)}
    assert {row["day"]: row["readings"] for row in rows(house.settings, "gold", "per_day")} == {day(0): 10, day(1): 10}
    assert len(rows(house.settings, "gold", "by_reading")) == 20
    assert {row["_event_date"] for row in rows(house.settings, "silver", GATED)} == {day(0)}
