"""Orders from a real broker become a served view, by the commands a person would type, with kill -9 on the way.

What is served, what is put aside as late and what is in Bronze are compared with a computation in DuckDB of what was produced.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest
from deltalake import DeltaTable

from stream_assets.contracts.load import load_contracts
from stream_assets.engine import server
from stream_assets.services.addresses import kafka
from stream_assets.settings import PROJECT, Settings
from stream_assets.sources.topics import ensure_topic, topic_of
from stream_assets.streaming.control import Control
from tests.brokers import Sent, send
from tests.lakes import contents, rows
from tests.streams import event, text_of

VIEW = "revenue_by_store"
WATERMARK = timedelta(minutes=10)
PATIENCE_S = 240
BEGIN = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=4)
"""Windows are quarters of an hour: what is late depends on nothing but the minutes below."""


@dataclass
class Shop:
    """A lake of its own that is fed by the broker, and what was sent to it so far."""

    settings: Settings
    environment: dict[str, str]
    topic: str
    sent: list[Sent] = field(default_factory=list)
    phases: list[list[dict[str, Any]]] = field(default_factory=list)

    def stream(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `stream streams` to its end."""
        return subprocess.run(  # noqa: PLW1510 the caller looks at the code
            command(*words), cwd=PROJECT, env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S
        )

    def supervise(self) -> subprocess.Popen[bytes]:
        """Start the supervisor."""
        with (self.settings.home.parent / "supervisor.log").open("a") as log:
            return subprocess.Popen(command("run", VIEW), cwd=PROJECT, env=self.environment, stdout=log, stderr=log)

    def produce(self, orders: list[dict[str, Any]], *junk: bytes) -> None:
        """Send orders, some of them twice, in any order. Arrival is told by the second: the next ones come in a later one."""
        dice = random.Random(len(self.phases))
        messages = [(o["data"]["order_id"], json.dumps(o).encode()) for o in orders]
        messages += dice.sample(messages, len(messages) // 5) + [("junk", value) for value in junk]
        dice.shuffle(messages)
        self.sent += send(self.settings, self.topic, messages)
        self.phases.append(orders)
        now = int(time.time())
        wait_for(lambda: time.time() > now + 1.1, "the next second")


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", "from stream_assets.cli import main; main()", "streams", *words]


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
    yield Shop(settings, environment, made.name)
    Control.of(settings).end()
    server.stop(settings)


def orders(first: int, count: int, minutes: tuple[float, float]) -> list[dict[str, Any]]:
    """Orders placed between these minutes after the beginning. The last of them is placed at the last moment."""
    dice, made = random.Random(first), []
    for number in range(first, first + count):
        moment = BEGIN + timedelta(minutes=minutes[1] if number == first + count - 1 else dice.uniform(*minutes))
        data = {
            "order_id": f"ord_{number}", "customer_id": "cus_1", "store_id": f"sto_{dice.randrange(3)}", "campaign_id": None,
            "status": "placed", "channel": "web", "currency": "EUR", "total_cents": dice.randrange(100, 9_000), "discount_cents": 0,
            "customer_email": "a@example.com", "note": None, "ordered_at": text_of(moment), "updated_at": text_of(moment),
        }  # fmt: skip
        made.append(event(data, moment))
    return made


def with_closed(phases: list[list[dict[str, Any]]]) -> list[tuple[str, str, int, datetime, datetime]]:
    """Order, store, cents, time, and what had closed when it came: phases are so made that no order is late within its own."""
    clock, found = datetime(1970, 1, 2, tzinfo=UTC), []
    for phase in phases:
        data = [made["data"] for made in phase]
        moments = [datetime.fromisoformat(one["ordered_at"]) for one in data]
        found += [
            (one["order_id"], one["store_id"], one["total_cents"], moment, clock - WATERMARK)
            for one, moment in zip(data, moments, strict=True)
        ]
        clock = max(clock, *moments)
    return found


WINDOWS = "select *, unnest([time_bucket(interval 15 minute, t) - to_minutes(15 * k) for k in range(4)]) as s from o"


def computed(phases: list[list[dict[str, Any]]], query: str) -> list[tuple]:
    """The answer of DuckDB over the orders, each with its four windows."""
    with duckdb.connect() as db:
        db.execute("set timezone = 'UTC'")
        db.execute("create table o (id text, store text, cents int, t timestamptz, closed timestamptz)")
        db.executemany("insert into o values (?, ?, ?, ?, ?)", with_closed(phases))
        return db.execute(f"with w as ({WINDOWS}) {query}").fetchall()


def expected_windows(phases: list[list[dict[str, Any]]]) -> list[tuple]:
    return computed(
        phases,
        "select store, s, (sum(cents) / 100)::decimal(18, 2), count(*) from w where s + interval 1 hour > closed group by all order by all",
    )


def expected_late(phases: list[list[dict[str, Any]]]) -> list[tuple]:
    return computed(phases, "select t, count(*) from w where s + interval 1 hour <= closed group by id, t order by all")


def served(settings: Settings) -> list[tuple]:
    columns = ("store_id", "window_start", "total_revenue", "order_count")
    found = rows(settings, "live", VIEW) if DeltaTable.is_deltatable(settings.table_path("live", VIEW)) else []
    return sorted(tuple(row[name] for name in columns) for row in found)


def late(settings: Settings) -> list[tuple]:
    found = rows(settings, "live", f"{VIEW}_late")
    return sorted((row["event_time"], row["missed_windows"]) for row in found)


def wait_for(is_so: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.5)


def wait_until_served(shop: Shop, phases: list[list[dict[str, Any]]], what: str) -> None:
    expected = expected_windows(phases)
    wait_for(lambda: served(shop.settings) == expected, what)


def test_kills_change_nothing_that_is_served(shop: Shop) -> None:
    """The engine and the supervisor are killed on the way; repeats count once, late orders are put aside, junk is left out."""
    settings = shop.settings
    shop.produce(orders(0, 150, (0, 9)), b"{", b'{"version":1}')
    supervisor = shop.supervise()
    wait_until_served(shop, shop.phases, "the first orders to be served")

    shop.produce(orders(1_000, 150, (55, 64)))
    engine = server.running(settings)
    assert engine
    psutil.Process(engine.pid).kill()
    wait_until_served(shop, shop.phases, "the engine to come back")

    shop.produce(orders(2_000, 100, (0, 30)) + shop.phases[0][:20])
    supervisor.kill()
    supervisor.wait(60)
    assert shop.stream("status").returncode == 1
    supervisor = shop.supervise()
    shop.produce(orders(3_000, 100, (56, 63)))
    distinct = [shop.phases[0], shop.phases[1], shop.phases[2][:100], shop.phases[3]]
    wait_until_served(shop, distinct, "the new supervisor to take over")
    assert late(settings) == expected_late(distinct)
    assert len(late(settings)) > 50
    landed = sorted((r["_source"], r["_position"], r["_raw"]) for r in rows(settings, "bronze", "orders"))
    assert landed == sorted((s.source, s.offset, (s.value or b"").decode()) for s in shop.sent)

    second = shop.stream("run", VIEW)
    assert (second.returncode, "Supervised already" in second.stdout) == (0, True), second.stdout + second.stderr
    before = contents(settings, "live", f"{VIEW}_late")
    rebuilt = shop.stream("rebuild", VIEW)
    assert rebuilt.returncode == 0, rebuilt.stdout + rebuilt.stderr
    assert served(settings) == expected_windows(distinct)
    assert contents(settings, "live", f"{VIEW}_late") == before
    wait_for(lambda: shop.stream("status").returncode == 0, "the rebuilt view to run again")
    told = {one["name"]: one for one in Control.of(settings).status()["streams"]}
    assert set(told) == {"bronze/orders", "orders_events", VIEW}

    stopped = shop.stream("stop")
    assert (stopped.returncode, supervisor.wait(60)) == (0, 0), stopped.stdout
    assert "Traceback" not in (settings.home.parent / "supervisor.log").read_text()
    assert served(settings) == expected_windows(distinct)
