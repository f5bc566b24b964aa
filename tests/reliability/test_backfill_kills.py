"""kill -9 of a backfill and of the engine under it, at random moments, until it is through: as if it had been left in peace.

Two equal lakehouses of the whole retail sample repair the same bad rule, one of them under fire. What is compared is every
row of every table, read by delta-rs; how often a day was made is counted in the commits of its table.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable

from stream_assets.engine import server
from stream_assets.ops.backfill.plan import Plan, load, load_all
from stream_assets.sample import write_sample
from stream_assets.settings import Settings
from tests.reliability.shop import BAD, LAST, RULE, contents, done, open_shop, ship, stream

KILLS = int(os.environ.get("STREAM_BACKFILL_KILLS", "0"))
"""`make reliability` sets it: the lakehouse of the sample takes a minute to build, and each kill costs a start."""
DAYS = int(os.environ.get("STREAM_BACKFILL_DAYS", "60"))
pytestmark = pytest.mark.skipif(not KILLS, reason="STREAM_BACKFILL_KILLS is not set: see `make reliability`")
DAYS_PER_RUN = 6


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[tuple[Settings, Settings]]:
    """Two homes with the same history, built under the bad rule, the good one since in force; and the same plan."""
    hurt = open_shop(tmp_path / "hurt")
    ship(hurt, BAD)
    write_sample(Path(hurt.landing), days=DAYS, end=LAST, scale=0.02, seed=5)
    done(hurt, "run")
    server.stop(hurt)
    ship(hurt, RULE)
    few = ("--days-per-run", str(DAYS_PER_RUN))
    done(hurt, "backfill", "plan", "--reason", "logic", "--select", 'key:"silver/orders"', *few)
    shutil.copytree(hurt.home, tmp_path / "clean")
    clean = open_shop(tmp_path / "clean")
    yield hurt, clean
    for home in (hurt, clean):
        server.stop(home)


def made(home: Settings, plan: Plan, asset: str) -> Counter[str]:
    """How often each day of a table (or the table) was written since the plan was made."""
    pages = {c["version"]: c.get("userMetadata") or "{}" for c in DeltaTable(f"{home.lake}/{asset}").history()}
    since = [json.loads(page) for version, page in pages.items() if version > plan.versions[asset]]
    is_whole = any(item.asset == asset and "whole" in item.days for item in plan.items)
    return Counter(whole=len(since)) if is_whole else Counter(day for page in since for day in page.get("days", {}))


def repeated(home: Settings, plan: Plan) -> dict[str, Counter[str]]:
    """What was written more than once. Quarantine is, if the kill came between it and Silver, its other half."""
    counted = {item.asset: made(home, plan, item.asset) for item in plan.items}
    twice = {asset: Counter({day: n for day, n in days.items() if n > 1}) for asset, days in counted.items()}
    return {asset: days for asset, days in twice.items() if days and not asset.startswith("quarantine/")}


def strike(home: Settings, victim: subprocess.Popen[str], number: int) -> str:
    """Kill the run; every third time the engine under it, if there is one: the run then tries again by itself."""
    state = server.running(home)
    if number % 3 == 2 and state:
        engine = psutil.Process(state.pid)
        engine.kill()
        engine.wait(60)
        return "engine"
    victim.kill()
    victim.wait(60)
    return "run"


def under_fire(home: Settings, plan: Plan, seconds: float) -> list[str]:
    """Run the plan and kill it or its engine, as many times as asked for. Returns what was hit, and when."""
    dice, hits, victim = random.Random(11), list[str](), None
    for number in range(KILLS):
        if victim is None or victim.poll() is not None:
            victim = stream(home, "backfill", "run", plan.id, "--force")
            assert victim.stdout
            victim.stdout.readline()  # it has looked at what is left and says what it begins with
        moment = dice.uniform(0, 2 * seconds / KILLS)
        time.sleep(moment)
        assert victim.poll() is None, f"it was through after {number} kills"
        hits.append(f"{strike(home, victim, number)} after {moment:.1f} s")
    if victim is not None and victim.poll() is None:
        victim.communicate(timeout=1800)
    return hits


def test_a_backfill_under_fire_ends_as_one_left_in_peace(twins: tuple[Settings, Settings]) -> None:
    """Every table is equal, and no day that was committed is made again."""
    hurt, clean = twins
    (plan,) = load_all(hurt.home)
    done(clean, "backfill", "run", plan.id, "--force")
    peace = load(clean.home, plan.id).outcome
    server.stop(clean)
    hits = under_fire(hurt, plan, peace["seconds"])
    if load(hurt.home, plan.id).status != "done":
        done(hurt, "backfill", "run", plan.id, "--force")
    last = load(hurt.home, plan.id).outcome
    print(f"\n{plan.partitions} partitions in {len(plan.chunks)} runs; in peace {peace['seconds']} s", end=" ")
    print(f"({peace['actual_over_estimate']} of the estimate); {last['attempts']} attempts; {', '.join(hits)}")
    assert last["verified"]["passed"]
    assert contents(hurt) == contents(clean)
    assert repeated(hurt, plan) == repeated(clean, plan) == {}
