"""Topics in Avro, on a real broker and a real schema registry, written by Confluent's own serializer."""

import signal
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stream_assets.bronze.follow import catch_up, follower
from stream_assets.bronze.replay import replay
from stream_assets.errors import ServiceError
from stream_assets.services import local, process
from stream_assets.services.addresses import services_folder
from stream_assets.settings import Settings
from stream_assets.sources import registry as registries
from stream_assets.streaming.events import sound_events
from tests.brokers import live_contract, send, topic_of
from tests.lakes import SALT, refine_days, rows
from tests.registries import LATER, NOW, Writer, as_sent, days_since_now, landed


@pytest.fixture
def avro(live: Settings, registry: Settings) -> Iterator[Settings]:
    """An empty lake that is fed by the broker, in a process that has seen no schema yet."""
    registries._fetch.cache_clear()
    yield live
    local.up(registry, ["registry"])


def test_records_of_changing_schemas_reach_silver(spark: SparkSession, avro: Settings, tmp_path: Path) -> None:
    """Bytes as sent in Bronze, exact values in Silver, in streams the same; a replay changes nothing."""
    law = live_contract(tmp_path, message_format="avro")
    follower(spark, avro, law, run_id="made")
    old, new = Writer(avro, law), Writer(avro, law, *LATER)
    more = {"due_date": NOW.date() + timedelta(days=3), "text": "high", "is_final": True, "detail": {"a": 1}}
    sent = send(avro, topic_of(law), [(f"k{n}", old(n)) for n in range(30)])
    catch_up(spark, avro, law, run_id="first")
    sent += send(avro, topic_of(law), [(f"k{n}", new(n, **more) if n % 2 else old(n)) for n in range(30, 70)])
    days = days_since_now()
    landing = catch_up(spark, avro, law, days, run_id="second")
    assert (landed(avro), [*landing.rows], sum(landing.rows.values())) == (as_sent(sent), days, 70)
    refine_days(spark, avro, law, *days)
    silver = {row["reading_id"]: row for row in rows(avro, "silver", "readings")}
    assert len(silver) == 70 and not rows(avro, "quarantine", "readings")
    for n in range(70):
        row, is_new = silver[f"r{n}"], n >= 30 and n % 2 == 1
        assert (row["taken_at"], row["amount"], row["pieces"]) == (NOW, Decimal(n) / 100, n)
        found = (row["due_date"], row["text"], row["is_final"], row["detail"])
        assert found == ((more["due_date"], "high", True, '{"a":1}') if is_new else (None,) * 4)
    events = sound_events(spark.table("bronze.readings"), law, SALT).select("reading_id", "amount").collect()
    assert {(e["reading_id"], e["amount"]) for e in events} == {(r, row["amount"]) for r, row in silver.items()}
    assert replay(spark, avro, law, NOW - timedelta(minutes=5), run_id="all").records == 70
    assert landed(avro) == as_sent(sent)


def test_poison_is_quarantined_and_the_stream_goes_on(spark: SparkSession, avro: Settings, tmp_path: Path) -> None:
    """Each with its topic, partition, offset and bytes, and the sound messages around it accepted."""
    law = live_contract(tmp_path, message_format="avro")
    follower(spark, avro, law, run_id="made")
    write = Writer(avro, law)
    poison = {
        "empty": None,
        "unframed": b'{"reading_id": "r1"}',
        "unknown_schema": b"\x00\x7f\x00\x00\x01" + write(2)[5:],
        "undecodable": write(3)[:-1],
    }
    sound = send(avro, topic_of(law), [(None, write(1))])
    bad = {rule: send(avro, topic_of(law), [("k", value)])[0] for rule, value in poison.items()}
    sound += send(avro, topic_of(law), [(None, write(4, amount=None))])
    catch_up(spark, avro, law, run_id="test")
    refine_days(spark, avro, law, *days_since_now())
    aside = {(r["_source"], r["_position"]): (r["_violations"], r["_raw_bytes"]) for r in rows(avro, "quarantine", "readings")}  # fmt: skip
    assert aside == {(s.source, s.offset): ([f"validity__record__{rule}"], s.value) for rule, s in bad.items()}
    accepted = {(r["_source"], r["_position"]) for r in rows(avro, "silver", "readings")}
    assert accepted == {(s.source, s.offset) for s in sound}


def test_a_registry_that_is_away_loses_nothing(
    spark: SparkSession, avro: Settings, registry: Settings, tmp_path: Path
) -> None:
    """Schemas seen before are enough; a new one waits, whole, until the registry is back with what it was told before its kill."""
    law = live_contract(tmp_path, message_format="avro")
    follower(spark, avro, law, run_id="made")
    old, new = Writer(avro, law), Writer(avro, law, LATER[0])
    sent = send(avro, topic_of(law), [("k", old(1))])
    catch_up(spark, avro, law, run_id="before")
    unseen = new(2)
    process.end(services_folder(registry) / "registry", by=signal.SIGKILL, timeout_s=30)
    registries._fetch.cache_clear()
    sent += send(avro, topic_of(law), [("k", old(3))])
    catch_up(spark, avro, law, run_id="known")
    assert landed(avro) == as_sent(sent)
    waiting = send(avro, topic_of(law), [("k", old(4)), ("k", unseen), ("j", old(5))])
    with pytest.raises(ServiceError, match="schema registry does not answer"):
        catch_up(spark, avro, law, run_id="unknown")
    assert landed(avro) == as_sent(sent)
    local.up(registry, ["registry"])
    catch_up(spark, avro, law, run_id="after")
    assert landed(avro) == as_sent(sent + waiting)
    assert {r["_decoding"] for r in rows(avro, "bronze", "readings")} == {"avro"}
