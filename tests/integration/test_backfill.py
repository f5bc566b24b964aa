"""Backfills on a real engine: the runbook of a bad rule, and kill -9 in the middle of one while live loads go on.

What Silver must hold is computed here from what was delivered, by the rule in force, and not read from another run.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from stream_assets.build import build_defs
from stream_assets.errors import StreamError
from stream_assets.ops.backfill.instance import BACKFILL
from stream_assets.ops.backfill.make import Request
from stream_assets.ops.backfill.plan import Plan, load
from stream_assets.ops.backfill.run import plan_backfill, run_backfill
from stream_assets.ops.run import ExecutionResult, run_range
from stream_assets.resources import open_instance
from stream_assets.settings import Settings
from tests.documents import bend, document, write
from tests.lakes import as_lines, deliver, rows, table

DAYS = [date(2025, 3, n) for n in range(1, 7)]
KILLS = int(os.environ.get("STREAM_BACKFILL_KILLS", "1"))
"""Kills of the backfill under way."""
SILVER = 'key:"silver/readings"'


def quiet(*_: Any) -> None:
    return


def records(day: date, count: int = 20) -> list[dict[str, Any]]:
    """Records of a day, the last one about the day before."""
    late = {"reading_id": f"{day}-late", "taken_at": f"{day - timedelta(days=1)}T09:00:00Z", "pieces": 1}
    return [{"reading_id": f"{day}-{n}", "taken_at": f"{day}T10:00:00Z", "pieces": n} for n in range(count)] + [late]


def expected(least: int, *days: date) -> list[str]:
    return sorted(r["reading_id"] for day in days for r in records(day) if r["pieces"] >= least)


def found(lake: Settings) -> list[str]:
    return sorted(row["reading_id"] for row in rows(lake, "silver", "readings", ["reading_id"]))


@pytest.fixture
def shop(lake: Settings, tmp_path: Path) -> Settings:
    """A lake of one dataset, without Gold, built in two runs."""
    shop = replace(lake, contracts=tmp_path / "contracts", dbt_project=tmp_path / "none")
    rule(shop, 0)
    for day in DAYS:
        deliver(shop, f"readings/{day}/part.jsonl", as_lines(records(day)))
    for first, last in ((DAYS[0], DAYS[2]), (DAYS[3], DAYS[-1])):
        assert run(shop, first, last).status == "success"
    return shop


def rule(shop: Settings, least: int) -> None:
    """Ship a rule: fewer pieces than this are rejected. The share of rejected records is not what these tests are about."""
    law = document(maxLateness=2, checks=[{"check": "validity__table__rejected_share", "strictness": "warn"}])
    bend(law, "schema.0.quality.0.implementation.expression", f"pieces >= {least}")
    write(shop.contracts, law)


def run(shop: Settings, first: date, last: date) -> ExecutionResult:
    return run_range(shop, build_defs(shop), first, last, select=None, report=quiet)


def plan(shop: Settings, **given: Any) -> Plan:
    request = Request(**{"reason": "logic", "select": SILVER, "days_per_chunk": 1, **given})
    return plan_backfill(shop, build_defs(shop), request)


def days_of(made: Plan, asset: str) -> list[str]:
    return next((sorted(item.days) for item in made.items if item.asset == asset), [])


def test_a_bad_rule_is_found_and_repaired_whatever_is_killed(shop: Settings) -> None:
    """The runbook of a bad rule, with kill -9 in the middle of the repair and a live load beside it."""
    assert plan(shop).items == []
    rule(shop, 15)
    assert run(shop, DAYS[3], DAYS[-1]).status == "success"
    rule(shop, 0)
    bad = plan(shop)
    assert days_of(bad, "silver/readings") == days_of(bad, "quarantine/readings") == [str(day) for day in DAYS[3:]]
    before = table(shop, "silver", "readings").version()
    for number in range(KILLS):
        kill_after_commit(shop, bad, number)
    repair = start(shop, bad)
    new = DAYS[-1] + timedelta(days=1)
    deliver(shop, f"readings/{new}/part.jsonl", as_lines(records(new)))
    live = run(shop, new, new)
    _, errors = repair.communicate(timeout=300)
    assert (live.status, repair.returncode) == ("success", 0), errors[-2000:]
    done = load(shop.home, bad.id)
    assert (done.status, done.outcome["attempts"]) == ("done", KILLS + 1)
    assert done.outcome["verified"] == {"passed": True, "days_counted": 3, "still_stale": {}, "miscounted": []}
    assert found(shop) == expected(0, *DAYS, new)
    assert [row for row in rows(shop, "quarantine", "readings") if not row["_resolved_at"]] == []
    made = made_since(shop, before)
    # The live load brings a late record for the day before it: that one is made by both, every other one once.
    assert {day: times for day, times in made.items() if day not in (str(DAYS[-1]), str(new))} == {
        str(day): 1 for day in DAYS[3:-1]
    }
    with open_instance(shop) as instance:
        tagged = instance.get_runs(dg.RunsFilter(tags={BACKFILL: bad.id}))
    assert {r.run_id for r in tagged} >= set(done.outcome["runs"])


def test_a_delivery_that_came_again_is_planned_with_the_days_it_holds(shop: Settings) -> None:
    """Nothing else is made, the estimate holds, and a plan for other code is refused."""
    deliver(shop, f"readings/{DAYS[3]}/part.jsonl", as_lines(records(DAYS[3], 25)))
    made = plan(shop, reason="bug", select='key:"bronze/readings"', first=DAYS[0], last=DAYS[-1], days_per_chunk=4)
    assert days_of(made, "bronze/readings") == [str(DAYS[3])]
    before = table(shop, "silver", "readings").version()
    rule(shop, 6)
    with pytest.raises(StreamError, match="Plan again"):
        run_backfill(shop, build_defs(shop), made, report=quiet, note=quiet)
    rule(shop, 0)
    done = run_backfill(shop, build_defs(shop), made, report=quiet, note=quiet)
    assert done.status == "done"
    assert len(found(shop)) == len(expected(0, *DAYS)) + 5
    assert made_since(shop, before) == {str(DAYS[2]): 1, str(DAYS[3]): 1}
    assert 0.4 <= done.outcome["actual_over_estimate"] <= 2.5  # within 2 on a machine of one's own


def made_since(shop: Settings, version: int) -> Counter[str]:
    """How often each day of Silver was written after a version."""
    pages = {c["version"]: c.get("userMetadata") or "{}" for c in table(shop, "silver", "readings").history()}
    return Counter(day for v, page in pages.items() if v > version for day in json.loads(page).get("days", {}))


def kill_after_commit(shop: Settings, made: Plan, number: int) -> None:
    """Let the backfill make one more day, and kill it soon after."""
    goal = table(shop, "silver", "readings").version() + 1
    victim = start(shop, made)
    deadline = time.monotonic() + 180
    while table(shop, "silver", "readings").version() < goal and victim.poll() is None:
        assert time.monotonic() < deadline, "no commit came"
        time.sleep(0.1)
    time.sleep(random.Random(number).uniform(0, 1))
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate(timeout=30)


def start(shop: Settings, made: Plan) -> subprocess.Popen[str]:
    environment = {**os.environ, **shop.to_env(), "STREAM_PII_SALT": "salt-of-the-tests"}
    command = [Path(sys.executable).with_name("stream"), "backfill", "run", made.id, "--force"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
