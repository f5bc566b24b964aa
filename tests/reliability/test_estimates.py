"""After a week of daily runs, a plan says within a factor of two what its backfill takes, works on and writes.

Each backfill is run in a copy of its own of that week, by the commands people use, so all it was estimated from is single days.
Bytes are counted in the Delta logs, and not by what the backfill says of itself.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stream_assets.engine import server
from stream_assets.ops.backfill.plan import Plan, load, load_all
from stream_assets.settings import Settings
from tests.documents import write
from tests.integration.ops.conftest import day, law, reading, write_project
from tests.lakes import as_lines, deliver
from tests.reliability.shop import done, open_shop

ROWS = int(os.environ.get("STREAM_ESTIMATE_ROWS", "0"))
"""Records a day. `make reliability` sets it: times of a busy machine say little."""
pytestmark = pytest.mark.skipif(not ROWS, reason="STREAM_ESTIMATE_ROWS is not set: see `make reliability`")
WEEK, MONTH = 7, 30
SILVER = 'key:"silver/readings"'


def house(folder: Path) -> Settings:
    """A lakehouse of one dataset, a daily and a whole table of Gold."""
    shop = open_shop(folder)
    return replace(shop, dbt_project=folder / "dbt_project", contracts=folder / "laws")


def receive(shop: Settings, number: int) -> None:
    """Deliver a day: most are of that day, some of the day before."""
    of_day = [reading(number, f"{number}-{n}", n % 100) for n in range(ROWS)]
    late = [reading(number - 1, f"{number}-late-{n}", 1) for n in range(ROWS // 50)]
    deliver(shop, f"readings/{day(number)}/part.jsonl", as_lines([*of_day, *late]))


def ship(shop: Settings, least: int) -> None:
    """Put a rule in force: fewer pieces are rejected."""
    checks = [{"check": "validity__table__rejected_share", "strictness": "warn"}]
    write(shop.contracts, law(f"pieces >= {least}", maxLateness=2, checks=checks))


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A lakehouse after a week of daily runs."""
    shop = house(tmp_path_factory.mktemp("week") / "home")
    write_project(shop.dbt_project)
    ship(shop, 1)
    for number in range(WEEK):
        receive(shop, number)
        done(shop, "run", "--from", str(day(number)), "--to", str(day(number)))
    server.stop(shop)
    return shop


@pytest.fixture
def shop(week: Settings, tmp_path: Path) -> Iterator[Settings]:
    """A copy of that lakehouse."""
    shutil.copytree(week.home, tmp_path / "home")
    copy = house(tmp_path / "home")
    yield copy
    server.stop(copy)


def backfill(shop: Settings, *request: str) -> Plan:
    """Plan and run it."""
    done(shop, "backfill", "plan", *request)
    made = load_all(shop.home)[-1]
    done(shop, "backfill", "run", made.id, "--force")
    return load(shop.home, made.id)


def written(shop: Settings, plan: Plan) -> int:
    """Bytes of the files that were added to the planned tables since the plan was made."""
    total = 0
    for item in plan.items:
        for commit in Path(f"{shop.lake}/{item.asset}/_delta_log").glob("*.json"):
            if commit.stem.isdigit() and int(commit.stem) > plan.versions.get(item.asset, -1):
                actions = [json.loads(line) for line in commit.read_text().splitlines()]
                total += sum(action["add"]["size"] for action in actions if "add" in action)
    return total


def assert_close(shop: Settings, plan: Plan) -> None:
    """Everything that was estimated is within a factor of two of what it came to."""
    pairs = {
        "seconds": (plan.seconds, plan.outcome["seconds"]),
        "rows": (plan.rows, plan.outcome["rows"]),
        "bytes": (plan.bytes, written(shop, plan)),
    }
    told = ", ".join(f"{what} {actual:,} of {estimate:,}" for what, (estimate, actual) in pairs.items())
    print(f"\n{plan.partitions} partitions in {len(plan.chunks)} runs: {told}")
    assert plan.status == "done"
    assert {what: pair for what, pair in pairs.items() if not 0.5 <= pair[1] / pair[0] <= 2} == {}


@pytest.mark.parametrize("days", [1, 3])
def test_some_days(shop: Settings, days: int) -> None:
    ship(shop, 2)
    window = ("--from", str(day(2)), "--to", str(day(1 + days)))
    assert_close(shop, backfill(shop, "--reason", "bug", "--select", SILVER, *window))


def test_all_days_on_a_cold_and_on_a_warm_engine(shop: Settings) -> None:
    for least in (2, 1):
        ship(shop, least)
        assert_close(shop, backfill(shop, "--reason", "logic", "--select", SILVER))


def test_a_month_of_which_only_single_days_are_known(shop: Settings) -> None:
    """It was never landed: its rows are taken to be what those of the week were."""
    for number in range(WEEK, WEEK + MONTH):
        receive(shop, number)
    request = ("--reason", "new-source", "--select", 'key:"bronze/readings"', "--from", str(day(WEEK)))
    assert_close(shop, backfill(shop, *request, "--to", str(day(WEEK + MONTH - 1))))
