"""Live views of every kind against an independent computation, with repeats, disorder and late events."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from stream_assets.engine import delta, server
from stream_assets.streaming.prove import prove
from stream_assets.streaming.rebuild import needs_rebuild, rebuild
from tests.lakes import contents, forget_tables, lake_at, rows, version
from tests.streams import arrive, at, order, running, streams_of

WATERMARK = timedelta(minutes=10)


def arrivals(seed: int = 3) -> list[tuple[float, list[dict]]]:
    """Orders of two hours in a few micro-batches, out of order, some twice, some too late; and when each batch comes."""
    dice = random.Random(seed)
    batches: dict[int, list[dict]] = {}
    for n in range(240):
        minute = dice.uniform(0, 120)
        placed = order(n, minute, store=f"sto_{dice.randrange(3)}", cents=dice.randrange(100, 9_000))
        number = min(2, int((minute + dice.choice([0, 0, 0, 10, 90])) // 60))
        batches.setdefault(number, []).append(placed)
        if dice.random() < 0.2:
            batches.setdefault(min(2, number + dice.randrange(2)), []).append(placed)
    return [(60.0 * (number + 1), dice.sample(batch, len(batch))) for number, batch in sorted(batches.items())]


def expected_windows(batches: Sequence[tuple[float, list[dict]]]) -> list[tuple]:
    """Hour windows every 15 minutes by store, in DuckDB. An order misses the windows that had closed when its batch came."""
    seen: dict[str, tuple] = {}
    clock = datetime(1970, 1, 1, tzinfo=UTC)
    for _, batch in batches:
        for data in (item["data"] for item in batch):
            moment = datetime.fromisoformat(data["ordered_at"])
            seen.setdefault(data["order_id"], (data["store_id"], data["total_cents"], moment, clock - WATERMARK))
        clock = max([clock, *(datetime.fromisoformat(item["data"]["ordered_at"]) for item in batch)])
    with duckdb.connect() as db:
        db.execute("set timezone = 'UTC'")
        db.execute("create table o (store text, cents int, t timestamptz, closed timestamptz)")
        db.executemany("insert into o values (?, ?, ?, ?)", list(seen.values()))
        return db.execute("""
            select store, s, s + interval 1 hour, (sum(cents) / 100)::decimal(18, 2), count(*) from (
              select *, unnest([time_bucket(interval 15 minute, t) - to_minutes(15 * k) for k in range(4)]) as s from o)
            where s + interval 1 hour > closed group by all order by all
        """).fetchall()


def served(lake) -> list[tuple]:
    columns = ("store_id", "window_start", "window_end", "total_revenue", "order_count")
    return sorted(tuple(row[name] for name in columns) for row in rows(lake, "live", "revenue_by_store"))


@pytest.fixture(scope="module")
def revenue(engine_settings, spark, tmp_path_factory) -> Iterator[tuple]:
    """The revenue of two hours of orders, computed as they came."""
    forget_tables(spark)
    lake = lake_at(engine_settings, tmp_path_factory.mktemp("revenue"))
    streams, batches = streams_of(lake, "revenue_by_store"), arrivals()
    with running(spark, streams) as see_all:
        for minutes, batch in batches:
            arrive(spark, lake, streams.contracts["orders"], batch, minutes=minutes)
            see_all()
    yield lake, streams, batches
    forget_tables(spark)


def test_sliding_revenue_equals_an_independent_computation(revenue) -> None:
    """Repeats, disorder and late orders, one micro-batch after the other: exact windows."""
    lake, _, batches = revenue
    assert served(lake) == expected_windows(batches)


def test_late_orders_are_put_aside_with_their_reason(revenue) -> None:
    lake, _, batches = revenue
    late = rows(lake, "live", "revenue_by_store_late")
    clock, expected = at(-10_000), set()
    for _, batch in batches:
        moments = {item["data"]["order_id"]: datetime.fromisoformat(item["data"]["ordered_at"]) for item in batch}
        closed = clock - WATERMARK
        expected |= {moment for moment in moments.values() if _next_quarter(moment) <= closed}
        clock = max(clock, *moments.values())
    assert {row["event_time"] for row in late} <= expected
    assert len(late) > 10
    assert all(1 <= row["missed_windows"] <= 4 and "watermark" in row["reason"] for row in late)


def _next_quarter(moment: datetime) -> datetime:
    return moment.replace(minute=moment.minute // 15 * 15, second=0, microsecond=0) + timedelta(minutes=15)


def test_closed_windows_are_proved_from_bronze_and_a_wrong_one_is_found(revenue, spark) -> None:
    """The check recomputes in batch what the stream served. One row changed behind its back is one window that differs."""
    lake, streams, _ = revenue
    view = streams.view("revenue_by_store")
    proof = prove(spark, streams, view)
    assert (proof.wrong, proof.differences) == (0, [])
    assert proof.compared > 5
    first = min(row["window_start"] for row in rows(lake, "live", "revenue_by_store"))
    spark.sql(
        f"update live.revenue_by_store set order_count = order_count + 1 where window_start = timestamp'{first:%Y-%m-%d %H:%M:%S}'"
    )
    tampered = prove(spark, streams, view)
    assert tampered.wrong > 0
    assert {row["_found"] for row in tampered.differences} == {"only in Bronze", "only in the view"}


def test_a_view_is_rebuilt_from_the_log_and_equal(revenue, spark) -> None:
    """Whatever was done to the table, one command brings it back: the late stay late, though the log is read at once."""
    lake, streams, batches = revenue
    spark.sql("update live.revenue_by_store set order_count = -1")
    rebuild(spark, streams, "revenue_by_store")
    assert served(lake) == expected_windows(batches)


def test_a_forgotten_batch_is_done_again_and_changes_nothing(revenue, spark) -> None:
    """The last entry of each checkpoint's commit log is deleted: the batches run again, no row appears twice."""
    lake, streams, batches = revenue
    tables = ("orders_events", "revenue_by_store", "revenue_by_store_late")
    before = {name: contents(lake, "live", name) for name in tables}
    for name in streams.names:
        forget_last_batch(streams.checkpoint(name))
    with running(spark, streams) as see_all:
        see_all()
    assert {name: contents(lake, "live", name) for name in tables} == before
    assert served(lake) == expected_windows(batches)


def forget_last_batch(checkpoint: str) -> None:
    """As if the stream had been killed after it wrote, and before it noted that."""
    commits = Path(checkpoint, "commits")
    last = max((file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


def test_orders_are_not_late_for_their_own_batch_when_it_is_done_again(engine_settings, spark, tmp_path) -> None:
    """None was late the first time. The second time the log has the batch, and its newest order must not make the others late."""
    forget_tables(spark)
    lake = lake_at(engine_settings, tmp_path)
    streams = streams_of(lake, "revenue_by_store")
    arrive(spark, lake, streams.contracts["orders"], [order(1, 0), order(2, 180)], minutes=181)
    for _ in range(2):
        with running(spark, streams) as see_all:
            see_all()
        assert rows(lake, "live", "revenue_by_store_late") == []
        assert len(rows(lake, "live", "orders_events")) == 2
        forget_last_batch(streams.checkpoint("orders_events"))


def test_only_rows_that_change_are_written(revenue, spark) -> None:
    """An order that came again changes no window and makes no version of the view."""
    lake, streams, batches = revenue
    with running(spark, streams) as see_all:
        see_all()
        before = version(lake, "live", "revenue_by_store"), version(lake, "live", "orders_events")
        arrive(spark, lake, streams.contracts["orders"], batches[-1][1][:3], minutes=300)
        see_all()
    assert served(lake) == expected_windows(batches)
    assert version(lake, "live", "orders_events") == before[1]
    assert version(lake, "live", "revenue_by_store") == before[0]


def test_a_stream_without_its_checkpoint_asks_to_be_rebuilt(revenue) -> None:
    lake, streams, _ = revenue
    assert not needs_rebuild(streams, "revenue_by_store")
    Path(streams.checkpoint("revenue_by_store")).rename(lake.checkpoints + "/lost")
    assert needs_rebuild(streams, "revenue_by_store")


@pytest.mark.parametrize("few", [0, delta.FEW_ROWS], ids=["merged by Spark", "merged by delta-rs"])
def test_orders_that_are_read_at_once_give_the_same_windows(engine_settings, spark, tmp_path, monkeypatch, few) -> None:
    """All of them waited: of two copies the one that came first counts, so an order that was in time stays so."""
    monkeypatch.setattr(delta, "FEW_ROWS", few)
    forget_tables(spark)
    lake = lake_at(engine_settings, tmp_path)
    streams, batches = streams_of(lake, "revenue_by_store"), arrivals(seed=5)
    for minutes, batch in batches:
        arrive(spark, lake, streams.contracts["orders"], batch, minutes=minutes)
    with running(spark, streams) as see_all:
        see_all()
    assert served(lake) == expected_windows(batches)


def test_the_workers_of_streams_do_not_log_the_token(revenue, engine_settings) -> None:
    """Spark's own worker prints the address it connects to, with the token in it."""
    log = server.log_file(engine_settings).read_bytes()
    assert (engine_settings.home / "spark" / "token").read_bytes() not in log
    assert b"Completed batch" not in log
