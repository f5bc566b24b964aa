"""Orders under fire: the supervisor, the engine and the broker are killed while a load of orders goes through Bronze into two views.

Orders come repeated, shuffled and late. At the end Bronze is what Kafka has receipts for, and Silver, the windows and what was put
aside as late are what DuckDB computes from what was sent.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from stream_assets.contracts.load import load_contracts
from stream_assets.engine import server
from stream_assets.engine.session import open_session
from stream_assets.secrets import pii_salt
from stream_assets.services import local, process
from stream_assets.services.addresses import kafka
from stream_assets.settings import PROJECT, Settings
from stream_assets.silver.refine import refine
from stream_assets.sources.topics import ensure_topic, topic_of
from stream_assets.streaming.control import Control
from tests.lakes import rows
from tests.shops import (
    Phase,
    Shop,
    computed,
    expected_late,
    expected_per_minute,
    expected_revenue,
    landed,
    late,
    orders,
    per_minute,
    receipts,
    revenue,
    wait_for,
)

KILLS = int(os.environ.get("STREAM_KILLS", "0"))
"""`make reliability` sets it: every kill costs half a minute. A small one of these is in `tests/e2e/test_live_views.py`."""
EVENTS = int(os.environ.get("STREAM_KILL_EVENTS", "300"))
"""Orders sent around each kill; a fifth of them, and some of earlier ones, are sent twice."""
pytestmark = pytest.mark.skipif(not KILLS, reason="STREAM_KILLS is not set: see `make reliability`")
MOST_KILLS = 15
VIEWS = ("revenue_by_store", "orders_per_minute")
VICTIMS = ("engine", "supervisor", "broker")
PATIENCE_S = 400
BEGIN = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=6)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop with a broker, an engine and a supervisor of its own."""
    views = tmp_path / "views"
    views.mkdir()
    for view in VIEWS:
        shutil.copy(PROJECT / "stream_assets" / "contracts" / "specs" / "views" / f"{view}.yaml", views)
    environment = os.environ | {
        "STREAM_HOME": str(tmp_path / "home"), "STREAM_VIEWS": str(views), "STREAM_SERVER": "live",
        "STREAM_REPORT_SECONDS": "5", "STREAM_SPARK_MEMORY": "1536m", "STREAM_SPARK_IDLE_MINUTES": "3",
    }  # fmt: skip
    settings = Settings.from_env(environment)
    local.up(settings, ["kafka"])
    law = load_contracts(settings.contracts)["orders"]
    made = topic_of(settings, law, law.server("live"))
    ensure_topic(kafka(settings), made)
    try:
        yield Shop(settings, environment, made.name, views=VIEWS)
    finally:
        Control.of(settings).end()
        server.stop(settings)
        local.down(settings)


def load(number: int) -> Phase:
    """By turns, orders that move time on by a quarter of an hour and orders of any time so far."""
    step = number // 2
    minutes = (15 * step + 1.0, 15 * step + 9.0) if number % 2 == 0 else (0.0, 15 * step + 8.0)
    return orders(BEGIN, number * EVENTS, EVENTS, minutes)


def kill(shop: Shop, supervisor: subprocess.Popen[bytes], victim: str) -> subprocess.Popen[bytes]:
    """Kill one of the three. A broker and a supervisor are started again, the engine is the supervisor's business."""
    if victim == "engine" and (state := server.running(shop.settings)):
        psutil.Process(state.pid).kill()
    elif victim == "broker" and (found := process.find(shop.settings.home / "services" / "kafka")):
        found.kill()
        found.wait(10)
        local.up(shop.settings, ["kafka"])
    elif victim == "supervisor":
        supervisor.kill()
        supervisor.wait(60)
        return shop.supervise()
    return supervisor


def is_at_work(shop: Shop) -> bool:
    told = Control.of(shop.settings).status()
    return told["running"] and all(one["state"] == "running" for one in told["streams"])


def test_what_is_served_is_what_was_produced_whatever_was_killed(shop: Shop) -> None:
    """Nothing is lost, nothing counts twice, nothing late is forgotten."""
    dice, settings = random.Random(KILLS), shop.settings
    supervisor = shop.supervise()
    for number in range(min(KILLS, MOST_KILLS)):
        wait_for(lambda: is_at_work(shop), "every stream to work", PATIENCE_S)
        again = [dice.choice(phase) for phase in shop.phases for _ in range(EVENTS // 50)]
        sending = threading.Thread(target=shop.produce, args=(load(number), b"{"), kwargs={"again": again})
        sending.start()
        time.sleep(dice.uniform(0.0, 8.0))
        supervisor = kill(shop, supervisor, VICTIMS[number % len(VICTIMS)])
        sending.join()
    assert len(shop.phases) == min(KILLS, MOST_KILLS)
    revenues, minutes = expected_revenue(shop.phases), expected_per_minute(shop.phases)
    try:
        wait_for(lambda: (revenue(settings), per_minute(settings)) == (revenues, minutes), "the views", PATIENCE_S)
    finally:
        supervisor.terminate()
        supervisor.wait(120)
    assert late(settings) == expected_late(shop.phases)
    assert landed(settings) == receipts(shop.sent)
    assert silver(shop) == computed(shop.phases, "select id, store, cents, t from o order by id")


def silver(shop: Shop) -> list[tuple]:
    """Silver of every day that has an order, computed from Bronze."""
    settings, law = shop.settings, load_contracts(shop.settings.contracts)["orders"]
    days = sorted({row["_event_date"] for row in rows(settings, "bronze", "orders", ["_event_date"])})
    refine(open_session(settings), settings, law, days, run_id="fire", salt=pii_salt(settings))
    columns = ("order_id", "store_id", "total_cents", "ordered_at")
    found = rows(settings, "silver", "orders", columns)
    return sorted(tuple(row[name] for name in columns) for row in found)
