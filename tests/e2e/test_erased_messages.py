"""A person whose records came from a topic, on a real broker: no landing brings them back, and on a compacted topic they end.

What the topic holds is read by a consumer of its own; what the lake holds is looked for in its files by DuckDB.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from pyspark.sql import SparkSession

from stream_assets.bronze.follow import catch_up
from stream_assets.bronze.replay import replay
from stream_assets.contracts.model import Contract
from stream_assets.ops.erase.find import parse_subject
from stream_assets.ops.erase.run import erase, removed, trace
from stream_assets.services.addresses import kafka
from stream_assets.settings import Settings
from stream_assets.sources.kafka import look_at
from stream_assets.sources.topics import Topic, ensure_topic
from tests.brokers import live_contract, topic_of
from tests.documents import document
from tests.e2e.test_topics_into_bronze import reading
from tests.integration.ops.test_erase import files_with
from tests.lakes import refine_days, rows
from tests.shops import wait_for

PERSON, OTHERS = "person-0042", [f"person-{n}" for n in range(100, 112)]
COMPACTED = {
    "cleanup.policy": "compact",
    "message.timestamp.type": "LogAppendTime",
    # As soon as Kafka can: a segment of a tenth of a second, and no waiting for more to clean.
    **{"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "min.compaction.lag.ms": "0"},
}
Send = Callable[..., None]


@pytest.fixture
def law(live: Settings, tmp_path: Path) -> Contract:
    """People, by a compacted topic."""
    made = live_contract(tmp_path, document(datasetKind="entity"))
    ensure_topic(kafka(live), Topic(topic_of(made), 3, 1, COMPACTED))
    return made


@pytest.fixture
def send(live: Settings, law: Contract) -> Send:
    """Publishes as producers in Java do, who choose the partition of a key otherwise than ours would."""
    producer = Producer({**kafka(live).for_clients(), "partitioner": "murmur2_random"})

    def publish(*messages: tuple[str, bytes | None]) -> None:
        for key, value in messages:
            producer.produce(topic_of(law), value, key)
        assert producer.flush(60) == 0

    return publish


def said(live: Settings, topic: str) -> list[Message]:
    """All that a topic still holds."""
    ends, found = look_at(kafka(live), topic).end, list[Message]()
    reader = Consumer({**kafka(live).for_clients(), "group.id": uuid4().hex, "enable.partition.eof": "true"})
    reader.assign([TopicPartition(topic, partition, 0) for partition in ends])
    finished = set[Any]()
    while len(finished) < len(ends):
        message = reader.poll(30)
        assert message is not None
        finished.add(message.partition()) if message.error() else found.append(message)
    reader.close()
    return found


def with_value(messages: list[Message], key: str) -> list[Message]:
    return [m for m in messages if m.key() == key.encode() and m.value() is not None]


def test_a_person_on_a_compacted_topic(spark: SparkSession, live: Settings, law: Contract, send: Send) -> None:
    """The certificate says what the topic holds, their keys and no other are ended, and reading it all again finds nobody."""
    topic, today = topic_of(law), datetime.now(UTC).date()
    send((PERSON, reading(1, reading_id=PERSON)), (PERSON, None), (PERSON, reading(2, reading_id=PERSON)))
    send(*[(name, reading(n, reading_id=name)) for n, name in enumerate(OTHERS)])
    send(("shared", reading(3, reading_id=PERSON)), ("shared", reading(4, reading_id=OTHERS[0])))
    catch_up(spark, live, law, run_id="first")
    refine_days(spark, live, law, today)
    places = {(m.partition(), m.key()) for m in with_value(said(live, topic), PERSON)}

    found = trace(spark, live, {law.name: law}, parse_subject(f"reading_id={PERSON}", live, {law.name: law}))
    assert removed(found)["bronze/readings"]["rows"] == 4
    (on,) = found.topics
    assert (on.topic, on.messages, set(on.keys), on.can_end) == (topic, 4, places, True)
    certificate = erase(spark, live, {law.name: law}, found, reason="asked for it", tombstones=True)
    assert certificate["verified"]
    (left,) = [part for part in certificate["remains"] if "topics" in part]
    assert (left["topics"], left["messages"]) == ([topic], 4)
    assert left["reason"].startswith("1 key ended")

    last = {m.key(): m for m in said(live, topic)}
    assert last[PERSON.encode()].value() is None
    assert {(m.partition(), m.key()) for m in said(live, topic) if m.value() is None} == places
    assert catch_up(spark, live, law, run_id="second").records == 0, "nor does what ended them bring them back"
    replay(spark, live, law, dict.fromkeys(look_at(kafka(live), topic).end, 0), run_id="again")
    refine_days(spark, live, law, today)
    assert {row["reading_id"] for row in rows(live, "silver", "readings")} == {*OTHERS}
    assert list(files_with(Path(live.lake), PERSON)) == []

    def is_compacted() -> bool:
        send(
            *[(name, reading(n, reading_id=name)) for n, name in enumerate(OTHERS)]
        )  # a segment ends with the next message
        return not with_value(said(live, topic), PERSON)

    wait_for(is_compacted, "Kafka to compact the topic", 120)
    assert with_value(said(live, topic), "shared"), "others were told of under this key"


def test_nothing_is_published_unless_asked_for(spark: SparkSession, live: Settings, law: Contract, send: Send) -> None:
    """The topic is not ours: without `--tombstones` it is as before, and the certificate says how such messages end."""
    topic = topic_of(law)
    send((PERSON, reading(1, reading_id=PERSON)))
    catch_up(spark, live, law, run_id="first")
    found = trace(spark, live, {law.name: law}, parse_subject(f"reading_id={PERSON}", live, {law.name: law}))
    certificate = erase(spark, live, {law.name: law}, found, reason="asked for it")
    assert certificate["verified"]
    assert "--tombstones" in certificate["remains"][-1]["reason"]
    assert [m.value() is None for m in said(live, topic)] == [False]
