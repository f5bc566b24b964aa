"""A shop whose orders come from a real broker: what was sent to it, and what DuckDB says must have become of it.

Orders are sent in phases, each in later seconds than the one before. A phase either moves time on, and then none of its orders can be
late for another, or it does not, and then what had closed is known exactly: the expected windows hang on nothing else.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from stream_assets.settings import PROJECT, Settings
from tests.brokers import Sent, send
from tests.lakes import rows
from tests.streams import event, text_of

WATERMARK = timedelta(minutes=10)
PATIENCE_S = 240
STORES = 3
CHANNELS = ("web", "app", "store")

Order = dict[str, Any]
"""An order in its envelope."""
Phase = Sequence[Order]


@dataclass
class Shop:
    """A lake of its own that is fed by a broker, and what was sent to it so far."""

    settings: Settings
    environment: dict[str, str]
    topic: str
    views: tuple[str, ...]
    sent: list[Sent] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)

    def stream(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `stream streams` to its end."""
        return subprocess.run(  # noqa: PLW1510 the caller looks at the code
            command(*words), cwd=PROJECT, env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S
        )

    def supervise(self) -> subprocess.Popen[bytes]:
        """Start the supervisor."""
        with (self.settings.home.parent / "supervisor.log").open("a") as log:
            return subprocess.Popen(
                command("run", *self.views), cwd=PROJECT, env=self.environment, stdout=log, stderr=log
            )

    def produce(self, orders: Phase, *junk: bytes, again: Iterable[Order] = ()) -> None:
        """Send orders, some of them twice, in any order, others again. Arrival is told by the second: the next ones come in a later one."""
        dice = random.Random(len(self.phases))
        messages = [(o["data"]["order_id"], json.dumps(o).encode()) for o in orders]
        messages += dice.sample(messages, len(messages) // 5) + [("junk", value) for value in junk]
        messages += [(o["data"]["order_id"], json.dumps(o).encode()) for o in again]
        dice.shuffle(messages)
        self.sent += send(self.settings, self.topic, messages)
        self.phases.append(orders)
        now = int(time.time())
        wait_for(lambda: time.time() > now + 1.1, "the next second")


def command(*words: str) -> list[str]:
    """A command of `stream streams`."""
    return [sys.executable, "-c", "from stream_assets.cli import main; main()", "streams", *words]


def orders(begin: datetime, first: int, count: int, minutes: tuple[float, float]) -> list[Order]:
    """Orders placed between these minutes after the beginning. The last of them is placed at the last moment."""
    dice, made = random.Random(first), []
    for number in range(first, first + count):
        moment = begin + timedelta(minutes=minutes[1] if number == first + count - 1 else dice.uniform(*minutes))
        data = {
            "order_id": f"ord_{number}", "customer_id": "cus_1", "store_id": f"sto_{dice.randrange(STORES)}", "campaign_id": None,
            "status": "placed", "channel": dice.choice(CHANNELS), "currency": "EUR", "total_cents": dice.randrange(100, 9_000), "discount_cents": 0,
            "customer_email": "a@example.com", "note": None, "ordered_at": text_of(moment), "updated_at": text_of(moment),
        }  # fmt: skip
        made.append(event(data, moment))
    return made


def placed(phases: Iterable[Phase]) -> pa.Table:
    """Every order, with its time and what had closed when it came."""
    clock, found = datetime(1970, 1, 2, tzinfo=UTC), []
    for phase in phases:
        data = [made["data"] for made in phase]
        moments = [datetime.fromisoformat(one["ordered_at"]) for one in data]
        found += [
            {"id": one["order_id"], "store": one["store_id"], "channel": one["channel"], "cents": one["total_cents"], "t": moment,
             "closed": clock - WATERMARK}
            for one, moment in zip(data, moments, strict=True)
        ]  # fmt: skip
        clock = max(clock, *moments)
    return pa.Table.from_pylist(found)


def computed(phases: Iterable[Phase], query: str) -> list[tuple]:
    """The answer of DuckDB over the orders `o`, and `w`: each with its four windows of an hour."""
    windows = (
        "select *, unnest([time_bucket(interval 15 minute, t) - to_minutes(15 * k) for k in range(4)]) as s from o"
    )
    with duckdb.connect() as db:
        db.execute("set timezone = 'UTC'")
        db.register("o", placed(phases))
        return db.execute(f"with w as ({windows}) {query}").fetchall()


def expected_revenue(phases: Iterable[Phase]) -> list[tuple]:
    """Rows of `revenue_by_store`."""
    return computed(
        phases,
        "select store, s, (sum(cents) / 100)::decimal(18, 2), count(*) from w where s + interval 1 hour > closed group by all order by all",
    )


def expected_late(phases: Iterable[Phase]) -> list[tuple]:
    """Rows of `revenue_by_store_late`: when each was placed and how many windows it missed."""
    return computed(phases, "select t, count(*) from w where s + interval 1 hour <= closed group by id, t order by all")


def expected_per_minute(phases: Iterable[Phase]) -> list[tuple]:
    """Rows of `orders_per_minute`."""
    minute = "time_bucket(interval 1 minute, t)"
    return computed(
        phases,
        f"select channel, {minute}, count(*) from o where {minute} + interval 1 minute > closed group by all order by all",
    )


def revenue(settings: Settings) -> list[tuple]:
    """What `revenue_by_store` serves."""
    return served(settings, "revenue_by_store", "store_id", "window_start", "total_revenue", "order_count")


def per_minute(settings: Settings) -> list[tuple]:
    """What `orders_per_minute` serves."""
    return served(settings, "orders_per_minute", "channel", "window_start", "order_count")


def late(settings: Settings) -> list[tuple]:
    """What `revenue_by_store` put aside."""
    return served(settings, "revenue_by_store_late", "event_time", "missed_windows")


def landed(settings: Settings) -> list[tuple]:
    """Where each record of Bronze came from, and what it is."""
    return _rows(settings, "bronze", "orders", "_source", "_position", "_raw")


def receipts(sent: Iterable[Sent]) -> list[tuple]:
    """The same, as Kafka took it."""
    return sorted((s.source, s.offset, (s.value or b"").decode()) for s in sent)


def served(settings: Settings, view: str, *columns: str) -> list[tuple]:
    """Some columns of what a view serves."""
    return _rows(settings, "live", view, *columns)


def _rows(settings: Settings, layer: str, name: str, *columns: str) -> list[tuple]:
    is_there = DeltaTable.is_deltatable(settings.table_path(layer, name))
    found = rows(settings, layer, name, columns) if is_there else []
    return sorted(tuple(row[column] for column in columns) for row in found)


def wait_for(is_so: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.5)
