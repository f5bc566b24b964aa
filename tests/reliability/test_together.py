"""Live loads, backfills, compaction, vacuum and readers on one lakehouse for minutes, each as a process of its own.

No command fails, no reader sees a day that is neither the old nor the new one, and in the end every table is that of a
lakehouse in which nothing happened at the same time.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from stream_assets.engine import delta, server
from stream_assets.engine.session import open_session
from stream_assets.ops.backfill.plan import load_all
from stream_assets.sample import write_sample
from stream_assets.settings import Settings
from tests.lakes import reading
from tests.reliability.shop import BAD, LAST, RULE, bring, contents, done, open_shop, ship

SECONDS = int(os.environ.get("STREAM_TOGETHER_S", "0"))
"""`make reliability` sets it."""
pytestmark = pytest.mark.skipif(not SECONDS, reason="STREAM_TOGETHER_S is not set: see `make reliability`")
DAYS, OLD = 40, 8
FIRST = LAST - timedelta(days=DAYS - 1)
SHATTERED = ("bronze/orders", "silver/orders", "gold/fct_orders")


@pytest.fixture
def shops(tmp_path: Path) -> Iterator[tuple[Settings, Settings]]:
    """A lakehouse with some days, more of them to come one by one, and one to compare it with."""
    busy, calm = open_shop(tmp_path / "busy"), open_shop(tmp_path / "calm")
    write_sample(Path(calm.landing), days=DAYS, end=LAST, scale=0.02, seed=3)
    for number in range(OLD):
        bring(Path(calm.landing), busy, FIRST + timedelta(days=number))
    done(busy, "run")
    yield busy, calm
    for shop in (busy, calm):
        server.stop(shop)


def shatter(spark: SparkSession, shop: Settings, asset: str, day: date) -> None:
    """Rewrite a day as many small files, as a stream would leave it; the rows stay the same."""
    path = f"{shop.lake}/{asset}"
    column = DeltaTable(path).metadata().partition_columns[0]
    where = f"{column} = date'{day}'"

    def write() -> None:
        rows = spark.read.format("delta").load(path).where(where).repartition(10)
        options = {"replaceWhere": where, "dataChange": "false"}
        rows.write.format("delta").mode("overwrite").options(**options).save(path)

    delta.commit_by_spark(path, write)


def litter(shop: Settings, asset: str, number: int) -> Path:
    """A file of a write that was killed long ago."""
    file = Path(f"{shop.lake}/{asset}/part-killed-{number}.parquet")
    file.write_bytes(b"half a file")
    long_ago = time.time() - timedelta(days=60).total_seconds()
    os.utime(file, (long_ago, long_ago))
    return file


def per_day(shop: Settings) -> Counter[str]:
    """Orders in Silver by day, as a reader sees them."""
    found = DeltaTable(f"{shop.lake}/silver/orders").to_pyarrow_table(columns=["_event_date"])
    return Counter(str(day) for day in found["_event_date"].to_pylist())


def test_everything_at_once_ends_as_if_one_after_the_other(shops: tuple[Settings, Settings]) -> None:
    busy, calm = shops
    end, over = time.monotonic() + SECONDS, threading.Event()
    counted = Counter[str]()
    old = [FIRST + timedelta(days=number) for number in range(OLD - 4)]  # nothing late comes for these any more

    def repeat(work: Callable[[int], object]) -> None:
        number = 0
        while number == 0 or (time.monotonic() < end and not over.is_set()):
            work(number)
            number += 1
            counted[work.__name__] += 1

    def live(number: int) -> None:
        day = FIRST + timedelta(days=OLD + number)
        assert day <= LAST, "give it more days"
        bring(Path(calm.landing), busy, day)
        done(busy, "run", "--from", str(day), "--to", str(day))

    def backfill(number: int) -> None:
        ship(busy, BAD if number % 2 == 0 else RULE)
        done(busy, "backfill", "plan", "--reason", "logic", "--select", 'key:"silver/orders"')
        done(busy, "backfill", "run", load_all(busy.home)[-1].id, "--force")

    def maintain(number: int) -> None:
        for asset in SHATTERED:
            shatter(spark, busy, asset, old[number % len(old)])
        orphan = litter(busy, "silver/orders", number)
        done(busy, "maintain")
        assert not orphan.exists()

    spark = open_session(busy)
    with reading(lambda: per_day(busy)) as seen, ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(repeat, work) for work in (live, backfill, maintain)]
        try:
            for job in jobs:
                job.result()
        finally:
            over.set()
    spark.stop()
    ship(busy, RULE)
    done(busy, "backfill", "plan", "--reason", "logic", "--select", 'key:"silver/orders"')
    done(busy, "backfill", "run", load_all(busy.home)[-1].id, "--force")
    server.stop(busy)
    print(f"\nin {SECONDS} s: {dict(counted)}, {len(seen)} looks")
    for delivery in Path(calm.landing).glob("*/*"):
        if delivery.is_dir() and not (Path(busy.landing) / delivery.relative_to(calm.landing)).exists():
            shutil.rmtree(delivery)
    done(calm, "run")
    assert contents(busy) == contents(calm)
    right = per_day(calm)
    for day in old:
        values = {found[str(day)] for found in seen}
        assert right[str(day)] in values
        assert len(values) <= 2, f"{day} was seen with {values} orders: neither the old nor the new rule gives that"
