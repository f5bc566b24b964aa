"""Streams on this machine, broker included: how many events a second, how soon they are served, and what state takes.

Orders are produced to a real broker. Throughput: a topic is drained into Bronze, then Silver is computed from it. Latency: the
supervisor runs while orders come at a steady rate; an order is visible once the served windows count it. What is
served in the end must be what was produced.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from deltalake import DeltaTable

from bench.measure import repeated
from bench.scenarios import Bench
from bench.verify import UnequalOutputsError
from bench.ways import environment, stream_command
from stream_assets.bronze.follow import catch_up
from stream_assets.contracts.load import load_contracts
from stream_assets.engine import server
from stream_assets.engine.log import count_rows
from stream_assets.engine.session import open_session
from stream_assets.secrets import pii_salt
from stream_assets.services import local
from stream_assets.services.addresses import kafka
from stream_assets.settings import Settings
from stream_assets.silver.refine import refine
from stream_assets.sources.publish import publish
from stream_assets.sources.topics import ensure_topic, topic_of
from stream_assets.streaming.control import Control

VIEWS = ("orders_per_minute", "revenue_by_store")
"""Tumbling windows count an order once, sliding ones of an hour every 15 minutes four times."""
COUNTED = {"orders_per_minute": 1, "revenue_by_store": 4}
MEMORY_SAMPLE_S = 2
WARM_UP = 20_000
PATIENCE_S = 300


@dataclass(frozen=True)
class Load:
    """How much is asked of the streams."""

    events: int
    """Drained at once."""
    rate: int
    """Events a second while latency is measured."""
    seconds: int


LOADS = {
    "tiny": Load(20_000, 500, 15),
    "small": Load(200_000, 2_000, 60),
    "season": Load(500_000, 2_000, 60),
    "medium": Load(500_000, 2_000, 60),
    "large": Load(2_000_000, 2_000, 600),
}


@dataclass(frozen=True)
class Figure:
    """One thing that was measured, and what it was to be."""

    name: str
    value: float
    unit: str
    target: str = ""


def streams(bench: Bench, load: Load) -> list[Figure]:
    """Measure throughput, latency and state on a broker and an engine of their own."""
    home = bench.work("streams")
    settings = Settings.from_env(
        environment() | {"STREAM_HOME": str(home), "STREAM_SERVER": "live", "STREAM_REPORT_SECONDS": "5"}
    )
    local.up(settings, ["kafka"])
    try:
        return [*_throughput(bench, settings, load), *_latency(bench, settings, load)]
    finally:
        Control.of(settings).end()
        server.stop(settings)
        local.down(settings)


def _orders(first: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Orders that are placed as they are asked for: key and message."""
    for number in range(first, first + count):
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        data = {
            "order_id": f"ord_{number:010d}", "customer_id": f"cus_{number % 50_000:06d}", "store_id": f"sto_{number % 200:04d}",
            "campaign_id": None, "status": "placed", "channel": ("web", "app", "store")[number % 3], "currency": "EUR",
            "total_cents": 500 + number % 20_000, "discount_cents": 0, "customer_email": f"somebody.{number % 50_000}@example.com",
            "note": None, "ordered_at": now, "updated_at": now,
        }  # fmt: skip
        envelope = {
            "event_id": f"00000000-0000-4000-8000-{number:012d}", "event_type": "created", "timestamp": now, "version": 1,
            "source": "shop", "correlation_id": None, "data": data,
        }  # fmt: skip
        yield data["order_id"], json.dumps(envelope).encode()


def _produce(settings: Settings, first: int, count: int, *, rate: float | None = None) -> list[float]:
    """Send orders; returns when each was handed to the producer."""
    contract = load_contracts(settings.contracts)["orders"]
    topic = topic_of(settings, contract, contract.server(settings.server))
    ensure_topic(kafka(settings), topic)
    moments: list[float] = []

    def timed() -> Iterator[tuple[str, str, bytes]]:
        for key, value in _orders(first, count):
            moments.append(time.time())
            yield topic.name, key, value

    publish(kafka(settings), timed(), rate=rate)
    return moments


def _throughput(bench: Bench, settings: Settings, load: Load) -> Iterator[Figure]:
    """Drain a topic into Bronze, then compute Silver of its day; an engine that has worked before."""
    contract, salt = load_contracts(settings.contracts)["orders"], pii_salt(settings)
    spark = open_session(settings)

    def drain(first: int, count: int) -> tuple[float, float]:
        bench.say(f"streams    {count:,} orders into the topic …")
        _produce(settings, first, count)
        started = time.monotonic()
        landing = catch_up(spark, settings, contract, run_id=f"bench-{first}")
        landed = time.monotonic()
        refine(spark, settings, contract, landing.touched, run_id=f"bench-{first}", salt=salt)
        return landed - started, time.monotonic() - landed

    drain(0, WARM_UP)
    to_bronze, to_silver = drain(WARM_UP, load.events)
    spark.stop()
    _require(settings, WARM_UP + load.events, "bronze/orders", "silver/orders")
    for name, seconds, count in (
        ("Kafka → Bronze", to_bronze, load.events),
        # Silver computes its whole day, the warm-up included.
        ("Bronze → Silver", to_silver, load.events + WARM_UP),
    ):
        yield Figure(name, count / seconds, "events/s")
    yield Figure("Kafka → Bronze → Silver", load.events / (to_bronze + to_silver), "events/s", "≥ 10,000")


def _require(settings: Settings, expected: int, *tables: str) -> None:
    for table in tables:
        if (found := count_rows(settings.table_path(*table.split("/")))) != expected:
            raise UnequalOutputsError(f"{table} has {found:,} rows of {expected:,}")


def _latency(bench: Bench, settings: Settings, load: Load) -> Iterator[Figure]:
    """Run the supervisor, send orders at a steady rate, and look up in the tables' own logs when each was counted."""
    known, memory = WARM_UP + load.events, _Memory(settings)
    with _supervised(settings), repeated(memory.look, MEMORY_SAMPLE_S):
        _wait_until(lambda: all(_counted(settings, view) == known for view in VIEWS), "the views to catch up")
        bench.say(f"streams    {load.rate:,} orders a second for {load.seconds} s …")
        memory.begin()
        moments = _produce(settings, known, load.rate * load.seconds, rate=load.rate)
        _wait_until(
            lambda: all(_counted(settings, view) == known + len(moments) for view in VIEWS), "every order to be served"
        )
    yield Figure("produced", len(moments) / (moments[-1] - moments[0]), "events/s")
    for view in VIEWS:
        seconds = sorted(_delays(settings, view, known, moments))
        for share, target in ((0.5, ""), (0.99, "≤ 10")):
            value = seconds[min(len(seconds) - 1, int(share * len(seconds)))]
            yield Figure(f"produced → visible in {view}, p{share * 100:g}", value, "s", target)
    yield from memory.figures()


@contextmanager
def _supervised(settings: Settings) -> Iterator[None]:
    command = [stream_command(), "streams", "run", *VIEWS]
    with (settings.home / "supervisor.log").open("w") as log:
        process = subprocess.Popen(command, env=os.environ | settings.to_env(), stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(120)


def _wait_until(is_so: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise UnequalOutputsError(f"waited {PATIENCE_S} s in vain for {what}")
        time.sleep(1)


def _counted(settings: Settings, view: str, version: int | None = None) -> int:
    """How many orders the windows of a view count."""
    path = settings.table_path("live", view)
    if not DeltaTable.is_deltatable(path):
        return 0
    table = DeltaTable(path, version=version).to_pyarrow_table(columns=["order_count"])
    return (sum(table["order_count"].to_pylist()) if table.num_rows else 0) // COUNTED[view]


def _delays(settings: Settings, view: str, known: int, moments: list[float]) -> Iterator[float]:
    """Seconds from each order to the first version of the view that counts it: orders are counted as they came."""
    path = settings.table_path("live", view)
    seen = [(0.0, known)]
    for version in range(DeltaTable(path).version() + 1):
        commit = Path(path) / "_delta_log" / f"{version:020d}.json"
        if commit.stat().st_mtime >= moments[0]:
            seen.append((commit.stat().st_mtime, _counted(settings, view, version)))
    counts = [count for _, count in seen]
    for number, moment in enumerate(moments, known + 1):
        yield seen[bisect_left(counts, number)][0] - moment


class _Memory:
    """The state of the streams and the memory of the engine, as far as looked at."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.samples: list[tuple[int, int, int]] = []

    def begin(self) -> None:
        """Forget what was before."""
        self.samples.clear()

    def figures(self) -> Iterator[Figure]:
        """State and memory at the beginning and at the end."""
        for when, (rows, state, resident) in (("first", self.samples[0]), ("last", self.samples[-1])):
            yield Figure(f"keys and windows held in state, {when}", rows, "rows")
            yield Figure(f"memory of state, {when}", state / 1e6, "MB")
            yield Figure(f"memory of the engine, {when}", resident / 1e6, "MB")

    def look(self) -> None:
        """Take a sample."""
        told = Control.of(self.settings).status()["streams"]
        engine = server.running(self.settings)
        if told and engine:
            rows, state = (sum(one[name] for one in told) for name in ("state_rows", "state_bytes"))
            self.samples.append((rows, state, psutil.Process(engine.pid).memory_info().rss))
