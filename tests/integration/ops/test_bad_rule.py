"""The runbook of a bad rule from end to end: shipped, ten days and their Gold made by it, undone, mended, and live days all the while.

What the tables must hold is what they held before, or what the mended rule accepts of what was delivered.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from stream_assets.build import build_defs
from stream_assets.ops.backfill.make import Request
from stream_assets.ops.backfill.plan import Plan, load
from stream_assets.ops.backfill.run import plan_backfill
from tests.integration.ops.conftest import House, day, law, reading
from tests.integration.ops.test_rollback import TABLES, undo
from tests.lakes import SALT, rows

GOOD, BAD, MENDED = law(), law("pieces >= 6", "1.1.0"), law("pieces >= 1", "1.2.0")
SPOILT = [day(n).isoformat() for n in range(2, 12)]


def plan_repair(house: House) -> Plan:
    request = Request("logic", 'key:"silver/readings"', days_per_chunk=5)
    return plan_backfill(house.settings, build_defs(house.settings), request)


def days_of(plan: Plan) -> dict[str, list[str]]:
    return {item.asset: sorted(item.days) for item in plan.items}


def repair(house: House, plan: Plan) -> subprocess.Popen[str]:
    """`stream backfill run`, in a process of its own."""
    environment = {**os.environ, **house.settings.to_env(), "STREAM_PII_SALT": SALT}
    command = [Path(sys.executable).with_name("stream"), "backfill", "run", plan.id, "--force"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def live(house: House, number: int) -> None:
    """A new day comes and is run as on any other day."""
    house.deliver(number, [reading(number, f"r{number}-{n}", n - 1) for n in range(10)])
    assert house.run(number, number).status == "success"


def expected(days: int) -> set[str]:
    """What the mended rule accepts of so many days: eight readings in ten, of 1 to 8 pieces."""
    return {f"r{number}-{n}" for number in range(days) for n in range(2, 10)}


def without(number: int, found: dict[str, list[str]]) -> dict[str, list[str]]:
    """The rows that are not about a day."""
    own = repr(day(number))
    return {name: [row for row in rows if own not in row] for name, rows in found.items()}


def test_a_bad_rule_from_shipping_to_repair(house_of) -> None:
    """Exactly the spoilt days are named and put back; the mended rule is then everywhere in force; live days go on."""
    house = house_of("house")
    house.ship(GOOD)
    for number in range(12):
        house.deliver(number, [reading(number, f"r{number}-{n}", n - 1) for n in range(10)])
    assert house.run(0, 11).status == "success"
    before = house.contents()
    house.ship(BAD)
    assert house.run(2, 11).status == "success"
    assert all(house.contents()[name] != before[name] for name in TABLES)

    house.ship(GOOD)  # first of all no new day is spoilt
    live(house, 12)
    assert days_of(plan_repair(house)) == {
        "silver/readings": SPOILT, "quarantine/readings": SPOILT, "gold/per_day": SPOILT, "gold/by_reading": ["whole"],
    }  # fmt: skip
    undo(house, asset="silver/readings", days=(day(2), day(11)), downstream=True)
    now = house.contents()
    assert without(12, now) == before
    assert {name: len(now[name]) - len(before[name]) for name in TABLES} == dict(zip(TABLES, (9, 1, 1, 9), strict=True))
    assert days_of(plan_repair(house)) == {}, "what was put back is what today's rule gives"

    house.ship(MENDED)
    plan = plan_repair(house)
    assert days_of(plan)["silver/readings"] == [day(n).isoformat() for n in range(13)]
    process = repair(house, plan)
    live(house, 13)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output[-2000:]
    assert load(house.settings.home, plan.id).outcome["verified"]["passed"]
    assert days_of(plan_repair(house)) == {}
    assert {row["reading_id"] for row in rows(house.settings, "silver", "readings")} == expected(14)
    assert {row["reading_id"] for row in rows(house.settings, "gold", "by_reading")} == expected(14)
    assert {(row["day"], row["readings"], row["pieces"]) for row in rows(house.settings, "gold", "per_day")} == {
        (day(number), 8, 36) for number in range(14)
    }
    rejected = [row for row in rows(house.settings, "quarantine", "readings") if row["_resolved_at"] is None]
    assert Counter(row["_event_date"] for row in rejected) == {day(number): 2 for number in range(14)}
