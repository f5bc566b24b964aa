"""Topics into Bronze, on a real broker: every message once, with its place; the bad ones set aside and the stream goes on.

What was sent, as Kafka's own receipts tell it, is compared with what delta-rs reads.
"""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from stream_assets.bronze.follow import catch_up, follower, skip_lost
from stream_assets.bronze.replay import replay
from stream_assets.errors import DeliveryError, LakeError
from stream_assets.services.addresses import kafka
from stream_assets.settings import Settings
from stream_assets.sources.topics import Topic, ensure_topic
from tests.brokers import Sent, live_contract, send, topic_of
from tests.documents import document
from tests.lakes import as_lines, deliver, land_days, refine_days, rows

NOW = datetime.now(UTC)
TODAY = NOW.date()


def reading(number: int, **fields: Any) -> bytes:
    return json.dumps({"reading_id": f"r{number}", "taken_at": NOW.isoformat(), "pieces": number, **fields}).encode()


def landed(live: Settings) -> list[tuple[str, int, str, bytes | None]]:
    found = rows(live, "bronze", "readings")
    return sorted((r["_source"], r["_position"], r["_raw"], r["_message_key"]) for r in found)


def as_sent(sent: list[Sent]) -> list[tuple[str, int, str, bytes | None]]:
    return sorted((s.source, s.offset, (s.value or b"").decode(), s.key) for s in sent)


def test_every_message_is_landed_once(spark: SparkSession, live: Settings, tmp_path: Path) -> None:
    """In commits of bounded size, with its key, headers, place and arrival; and not again."""
    law = live_contract(tmp_path)
    follower(spark, live, law, run_id="made")
    sent = send(live, topic_of(law), [(f"k{n}", reading(n)) for n in range(90)], trace=b"\x01")
    bounded = _with_limit(live, 40)
    landing = catch_up(spark, bounded, law, [TODAY], run_id="first")
    assert landed(live) == as_sent(sent)
    assert (landing.touched, sum(landing.rows.values()), sum(landing.lag.values())) == ((TODAY,), 90, 0)
    found = rows(live, "bronze", "readings")
    assert all(r["_message_headers"] == [{"key": "trace", "value": b"\x01"}] for r in found)
    assert all(abs(r["_ingested_at"] - datetime.now(UTC)) < timedelta(minutes=5) for r in found)
    assert catch_up(spark, live, law, run_id="again").landed == ()
    more = send(live, topic_of(law), [(None, reading(n)) for n in range(90, 100)])
    catch_up(spark, live, law, run_id="later")
    assert landed(live) == as_sent(sent + more)


POISON = {
    "no value": (b"k", None, "validity__record__empty"),
    "not JSON": (b"k", b"{", "validity__record__malformed"),
    "not UTF-8": (b"k", b'{"reading_id":"\xff\xfe"}', "validity__record__encoding"),
    "5 MB of nothing": (b"k", b"x" * (5 << 20), "validity__record__malformed"),
    "no data": (None, b'{"version":1}', "validity__record__malformed"),
}


def test_a_poison_message_is_quarantined_and_the_stream_goes_on(
    spark: SparkSession, live: Settings, tmp_path: Path
) -> None:
    """Each with its topic, partition and offset, and the sound messages around it accepted."""
    law = live_contract(tmp_path, document(envelope=True))
    follower(spark, live, law, run_id="made")
    topic = topic_of(law)
    sound = send(live, topic, [(None, enveloped(1)), ("k", enveloped(2))])
    bad = {name: send(live, topic, [(key, value)])[0] for name, (key, value, _) in POISON.items()}
    wrong_version = send(live, topic, [("k", enveloped(3, version=0))])[0]
    sound += send(live, topic, [("k", enveloped(4))])
    catch_up(spark, live, law, run_id="test")
    refine_days(spark, live, law, TODAY)
    aside = {(r["_source"], r["_position"]): r["_violations"] for r in rows(live, "quarantine", "readings")}
    expected = {(bad[name].source, bad[name].offset): [rule] for name, (_, _, rule) in POISON.items()}
    assert aside == {**expected, (wrong_version.source, wrong_version.offset): ["validity__event_version__range"]}
    accepted = {(r["_source"], r["_position"]) for r in rows(live, "silver", "readings")}
    assert accepted == {(s.source, s.offset) for s in sound}
    raw = {r["_position"]: r["_raw_bytes"] for r in rows(live, "quarantine", "readings") if r["_raw_bytes"]}
    assert list(raw.values()) == [POISON["not UTF-8"][1]]


def enveloped(number: int, **head: Any) -> bytes:
    envelope = {
        "event_id": f"00000000-0000-4000-8000-{number:012d}",
        "event_type": "created",
        "timestamp": NOW.isoformat(),
        "version": 1,
        "source": "lab",
        "correlation_id": None,
    }
    return json.dumps(envelope | head | {"data": json.loads(reading(number))}).encode()


def test_two_landings_at_once_write_every_message_once(spark: SparkSession, live: Settings, tmp_path: Path) -> None:
    """Both go on from the same place; Delta lets one of them."""
    law = live_contract(tmp_path)
    follower(spark, live, law, run_id="made")
    sent: list[Sent] = []
    for turn in range(2):
        sent += send(live, topic_of(law), [(None, reading(n)) for n in range(30)])
        with ThreadPoolExecutor(2) as pair:
            names = [f"{turn}-{who}" for who in ("a", "b")]
            list(pair.map(lambda name: catch_up(spark, live, law, run_id=name), names))
        assert landed(live) == as_sent(sent)


def test_expired_messages_are_a_loud_error(spark: SparkSession, live: Settings, tmp_path: Path) -> None:
    """The lost range is named, nothing is skipped by itself, and after `skip` the rest is landed."""
    law = live_contract(tmp_path)
    follower(spark, live, law, run_id="made")
    topic = topic_of(law)
    first = send(live, topic, [("k", reading(n)) for n in range(5)])
    catch_up(spark, live, law, run_id="before")
    rest = send(live, topic, [("k", reading(n)) for n in range(5, 20)])
    source, partition = first[0].source, int(first[0].source.rpartition("/")[2])
    admin = AdminClient(kafka(live).for_clients())
    for done in admin.delete_records([TopicPartition(topic, partition, 12)]).values():
        done.result(30)
    with pytest.raises(DeliveryError, match=f"{source} offsets 5 to 11"):
        catch_up(spark, live, law, run_id="too late")
    skip_lost(spark, live, law, run_id="skip")
    catch_up(spark, live, law, run_id="after")
    assert landed(live) == as_sent(first + [s for s in rest if s.offset >= 12])


def test_a_topic_made_anew_is_noticed(spark: SparkSession, live: Settings, tmp_path: Path) -> None:
    """Its offsets begin again at 0: reading on from the old ones would lose what it holds."""
    law = live_contract(tmp_path)
    follower(spark, live, law, run_id="made")
    topic = topic_of(law)
    first = send(live, topic, [("k", reading(1))])
    catch_up(spark, live, law, run_id="before")
    admin = AdminClient(kafka(live).for_clients())
    admin.delete_topics([topic])[topic].result(30)
    _wait_until_gone(live, topic)
    follower(spark, live, law, run_id="anew")
    anew = send(live, topic, [("k", reading(2)), ("k", reading(3))])
    with pytest.raises(DeliveryError, match="made anew"):
        catch_up(spark, live, law, run_id="refused")
    skip_lost(spark, live, law, run_id="skip")
    catch_up(spark, live, law, run_id="after")
    assert Counter(row[2] for row in landed(live)) == Counter(row[2] for row in as_sent(first + anew))


def test_a_replay_replaces_exactly_its_positions(spark: SparkSession, live: Settings, tmp_path: Path) -> None:
    """Whatever happened to them in Bronze: afterwards they are there once, and Silver knows that it is stale."""
    law = live_contract(tmp_path)
    follower(spark, live, law, run_id="made")
    sent = send(live, topic_of(law), [(f"k{n}", reading(n)) for n in range(60)])
    catch_up(spark, live, law, run_id="first")
    refine_days(spark, live, law, TODAY)
    partition = int(sent[-1].source.rpartition("/")[2])
    spark.sql(f"delete from bronze.readings where _source = '{sent[-1].source}' and _position >= 3")
    assert landed(live) != as_sent(sent)
    step = replay(spark, live, law, {partition: 2}, run_id="replay")
    assert landed(live) == as_sent(sent)
    assert step.touched == (TODAY,)
    assert refine_days(spark, live, law, TODAY).refined == (TODAY,)
    assert replay(spark, live, law, NOW - timedelta(minutes=5), run_id="all").records == 60
    assert landed(live) == as_sent(sent)
    more = send(live, topic_of(law), [("k", reading(99))])
    assert catch_up(spark, live, law, [TODAY], run_id="on").rows == {TODAY: 61}
    assert landed(live) == as_sent(sent + more)


def test_files_do_not_replace_what_came_from_a_topic(spark: SparkSession, live: Settings, tmp_path: Path) -> None:
    law = live_contract(tmp_path)
    follower(spark, live, law, run_id="made")
    send(live, topic_of(law), [("k", reading(1))])
    catch_up(spark, live, law, run_id="live")
    deliver(live, f"readings/{TODAY}/part.jsonl", as_lines([json.loads(reading(2))]))
    with pytest.raises(LakeError, match="came from a topic"):
        land_days(spark, live, law, TODAY)


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_weaker_promises_land_everything_when_nothing_fails(
    spark: SparkSession, live: Settings, tmp_path: Path, delivery: str
) -> None:
    law = live_contract(tmp_path, delivery=delivery)
    follower(spark, live, law, run_id="made")
    sent = send(live, topic_of(law), [(None, reading(n)) for n in range(20)])
    catch_up(spark, live, law, run_id="test")
    assert landed(live) == as_sent(sent)


def test_a_topic_is_made_as_wanted_and_never_altered(live: Settings) -> None:
    """What differs is told; a topic that dates messages by their producers is refused."""
    wanted = Topic("lab.topics.events", 3, 1, {"message.timestamp.type": "LogAppendTime", "retention.ms": "60000"})
    address = kafka(live)
    assert ensure_topic(address, wanted).is_new
    assert ensure_topic(address, wanted).differences == {}
    other = Topic(wanted.name, 5, 1, {**wanted.config, "retention.ms": "120000"})
    assert ensure_topic(address, other).differences == {"partitions": ("5", "3"), "retention.ms": ("120000", "60000")}
    assert ensure_topic(address, wanted).differences == {}


def _with_limit(live: Settings, limit: int) -> Settings:
    return replace(live, live=replace(live.live, kafka_max_records=limit))


def _wait_until_gone(live: Settings, topic: str) -> None:
    admin = AdminClient(kafka(live).for_clients())
    deadline = datetime.now(UTC) + timedelta(seconds=30)
    while topic in admin.list_topics(timeout=10).topics and datetime.now(UTC) < deadline:
        pass
