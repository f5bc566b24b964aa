"""Orders from a real broker become a served view, by the commands a person would type, with kill -9 on the way.

What is served, what is put aside as late and what is in Bronze are compared with a computation in DuckDB of what was produced.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from stream_assets.contracts.load import load_contracts
from stream_assets.engine import server
from stream_assets.engine.log import count_rows
from stream_assets.services.addresses import kafka
from stream_assets.settings import PROJECT, Settings
from stream_assets.sources.topics import ensure_topic, topic_of
from stream_assets.streaming.control import Control
from tests.lakes import contents
from tests.shops import Order, Shop, expected_late, expected_revenue, landed, late, orders, receipts, revenue, wait_for

VIEW = "revenue_by_store"
BEGIN = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=4)
"""Windows are quarters of an hour: what is late depends on nothing but the minutes below."""


@pytest.fixture
def shop(broker: Settings, tmp_path: Path) -> Iterator[Shop]:
    views = tmp_path / "views"
    views.mkdir()
    shutil.copy(PROJECT / "stream_assets" / "contracts" / "specs" / "views" / f"{VIEW}.yaml", views)
    environment = os.environ | {
        "STREAM_HOME": str(tmp_path / "home"), "STREAM_VIEWS": str(views), "STREAM_SERVER": "live",
        "STREAM_KAFKA_BOOTSTRAP": kafka(broker).bootstrap, "STREAM_TRIGGER_SECONDS": "0.5",
        "STREAM_REPORT_SECONDS": "2", "STREAM_SPARK_MEMORY": "1g", "STREAM_SPARK_IDLE_MINUTES": "3",
    }  # fmt: skip
    settings = Settings.from_env(environment)
    law = load_contracts(settings.contracts)["orders"]
    made = topic_of(settings, law, law.server("live"))
    ensure_topic(kafka(settings), made)
    yield Shop(settings, environment, made.name, views=(VIEW,))
    Control.of(settings).end()
    server.stop(settings)


def some(first: int, count: int, minutes: tuple[float, float]) -> list[Order]:
    return orders(BEGIN, first, count, minutes)


def wait_until_served(shop: Shop, what: str) -> None:
    expected = expected_revenue(shop.phases)
    wait_for(lambda: revenue(shop.settings) == expected, what)


def states(shop: Shop) -> dict[str, str]:
    return {one["name"]: one["state"] for one in Control.of(shop.settings).status()["streams"]}


def test_kills_change_nothing_that_is_served(shop: Shop) -> None:
    """The engine and the supervisor are killed on the way; repeats count once, late orders are put aside, junk is left out."""
    settings = shop.settings
    shop.produce(some(0, 150, (0, 9)), b"{", b'{"version":1}')
    supervisor = shop.supervise()
    wait_until_served(shop, "the first orders to be served")

    shop.produce(some(1_000, 150, (55, 64)))
    engine = server.running(settings)
    assert engine
    psutil.Process(engine.pid).kill()
    wait_until_served(shop, "the engine to come back")

    shop.produce(some(2_000, 100, (0, 30)), again=shop.phases[0][:20])
    supervisor.kill()
    supervisor.wait(60)
    assert shop.stream("status").returncode == 1
    supervisor = shop.supervise()
    shop.produce(some(3_000, 100, (56, 63)))
    wait_until_served(shop, "the new supervisor to take over")
    assert late(settings) == expected_late(shop.phases)
    assert len(late(settings)) > 50
    assert landed(settings) == receipts(shop.sent)

    let_one_rest(shop)
    rebuild(shop)

    stopped = shop.stream("stop")
    assert (stopped.returncode, supervisor.wait(60)) == (0, 0), stopped.stdout
    assert "Traceback" not in (settings.home.parent / "supervisor.log").read_text()
    assert revenue(settings) == expected_revenue(shop.phases)


def let_one_rest(shop: Shop) -> None:
    """A stream that is stopped rests while the others go on; woken, it makes up for what it missed."""
    settings = shop.settings
    before, known = revenue(settings), count_rows(settings.table_path("live", "orders_events"))
    rested = shop.stream("stop", VIEW)
    assert rested.returncode == 0, rested.stdout + rested.stderr
    assert states(shop) == {"bronze/orders": "running", "orders_events": "running", VIEW: "stopped"}
    shop.produce(some(4_000, 50, (56, 63)))
    wait_for(lambda: count_rows(settings.table_path("live", "orders_events")) == known + 50, "the others to go on")
    assert (revenue(settings), states(shop)[VIEW]) == (before, "stopped")
    woken = shop.stream("run", VIEW)
    assert (woken.returncode, "Supervised already" in woken.stdout) == (0, True), woken.stdout + woken.stderr
    wait_until_served(shop, "the rested view to catch up")


def rebuild(shop: Shop) -> None:
    """A view is computed anew while the supervisor runs, and is equal."""
    settings = shop.settings
    before = contents(settings, "live", f"{VIEW}_late")
    rebuilt = shop.stream("rebuild", VIEW)
    assert rebuilt.returncode == 0, rebuilt.stdout + rebuilt.stderr
    assert revenue(settings) == expected_revenue(shop.phases)
    assert contents(settings, "live", f"{VIEW}_late") == before
    wait_for(lambda: shop.stream("status").returncode == 0, "the rebuilt view to run again")
    assert set(states(shop)) == {"bronze/orders", "orders_events", VIEW}
