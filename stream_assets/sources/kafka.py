"""Messages of a topic by ranges of offsets: what there is, what to read next, and the messages as Spark rows.

A range has a fixed beginning and end, so reading it again gives the same records. Nothing is kept here between two reads:
where the next one begins is written in Bronze itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # pyright: ignore[reportPrivateImportUsage] as its documentation imports it
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_assets.contracts.model import AVRO, PROTOBUF
from stream_assets.errors import DeliveryError
from stream_assets.services.addresses import KafkaAddress, schema_registry
from stream_assets.settings import Settings
from stream_assets.sources import avro, protobuf
from stream_assets.sources.framed import schema_ids
from stream_assets.sources.registry import find_schemas
from stream_assets.sources.topics import TIMEOUT_S, admin_client, unreachable

Offsets = Mapping[int, int]
"""By partition."""
AsText = Callable[[DataFrame], DataFrame]
"""Adds `_raw`, `_raw_bytes` and `_decoding` to messages."""
DECODERS = {AVRO: avro.decode, PROTOBUF: protobuf.decode}


@dataclass(frozen=True)
class Positions:
    """How far a topic has been taken over: the next offset of each partition."""

    topic: str
    topic_id: str
    """A topic that was deleted and made anew has another one."""
    offsets: Offsets = field(hash=False)
    generation: int = 0
    """Raised by a replay, which changes what was landed without going on."""

    def to_page(self) -> dict[str, Any]:
        """As a ledger page holds it."""
        return asdict(self) | {"offsets": {str(p): offset for p, offset in sorted(self.offsets.items())}}

    @classmethod
    def from_page(cls, page: Mapping[str, Any]) -> Positions | None:
        """From a ledger page; None if it tells none, or those of another kind of source."""
        if "topic" not in page:
            return None
        return cls(**{**page, "offsets": {int(p): offset for p, offset in page["offsets"].items()}})

    @property
    def token(self) -> tuple[str, int]:
        """Names this place: only one commit may go on from it.

        The number is that of the place, not of where the commit goes: every place a topic is read to, or grows a partition at, has a
        higher one than those before, and two landings that go on from one place have the same.
        """
        return f"kafka:{self.topic}:{self.topic_id}:{self.generation}", sum(
            offset + 1 for offset in self.offsets.values()
        )


@dataclass(frozen=True)
class Marks:
    """Which offsets a topic has at this moment."""

    topic: str
    topic_id: str
    first: Offsets = field(hash=False)
    end: Offsets = field(hash=False)
    """One after the last."""

    def start(self) -> Positions:
        """Where somebody begins who has read nothing."""
        return Positions(self.topic, self.topic_id, self.first)


@dataclass(frozen=True)
class Slice:
    """A range of offsets of each partition: from the first, up to the end."""

    first: Offsets = field(hash=False)
    end: Offsets = field(hash=False)

    @property
    def size(self) -> int:
        """Offsets in it: at least as many as records."""
        return sum(self.end[p] - self.first[p] for p in self.end)


def look_at(address: KafkaAddress, topic: str) -> Marks:
    """Ask Kafka which offsets a topic has. Messages of open transactions do not count yet."""
    admin = admin_client(address)
    try:
        described = admin.describe_topics(TopicCollection([topic]))[topic].result(TIMEOUT_S)
        partitions = [TopicPartition(topic, partition.id) for partition in described.partitions]
        first, end = (_offsets(admin, partitions, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
    except KafkaException as error:
        raise unreachable(address, error) from error
    return Marks(topic, str(described.topic_id), first, end)


def _offsets(admin: AdminClient, partitions: Sequence[TopicPartition], spec: Any) -> dict[int, int]:
    wanted: dict[TopicPartition, Any] = dict.fromkeys(partitions, spec)
    asked = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
    return {partition.partition: found.result(TIMEOUT_S).offset for partition, found in asked.items()}


def offsets_at(address: KafkaAddress, marks: Marks, moment: datetime) -> Offsets:
    """The first offset of each partition that arrived at this moment or later."""
    admin = admin_client(address)
    spec = OffsetSpec.for_timestamp(int(moment.timestamp() * 1000))
    offsets = _offsets(admin, [TopicPartition(marks.topic, p) for p in marks.end], spec)
    # Kafka says -1 where nothing arrived since.
    return {p: offset if offset >= 0 else marks.end[p] for p, offset in offsets.items()}


def next_slice(positions: Positions, marks: Marks, *, until: Offsets, limit: int) -> Slice:
    """What to read next: at most `limit` offsets, each partition getting its share. Refuses to skip what is lost."""
    require_same_topic(positions, marks)
    first = {p: positions.offsets.get(p, marks.first[p]) for p in marks.end}
    require_kept(marks, first)
    waiting = {p: max(0, until.get(p, 0) - first[p]) for p in first}
    share = min(1.0, limit / max(1, sum(waiting.values())))
    end = {p: first[p] + (n if share == 1 else min(n, max(1, int(n * share)))) for p, n in waiting.items()}
    return Slice(first, end)


def require_same_topic(positions: Positions, marks: Marks) -> None:
    """Offsets mean nothing in a topic that was made anew."""
    behind = {p: offset for p, offset in positions.offsets.items() if offset > marks.end.get(p, 0)}
    if (positions.topic, positions.topic_id) == (marks.topic, marks.topic_id) and not behind:
        return
    raise DeliveryError(
        f"{marks.topic} is not the topic that was read so far (then {positions.topic}, id {positions.topic_id}; now id "
        f"{marks.topic_id}), or lost its end (partitions {sorted(behind) or 'none'}): it was deleted and made anew, or restored. If what it "
        "holds now is to be read from its beginning, run `stream topics skip <dataset>`."
    )


def require_kept(marks: Marks, first: Offsets) -> None:
    """Offsets that retention removed before we read them are lost: never silently."""
    lost = {p: (offset, marks.first[p]) for p, offset in first.items() if offset < marks.first[p]}
    if lost:
        listed = ", ".join(f"{marks.topic}/{p} offsets {low} to {high - 1}" for p, (low, high) in sorted(lost.items()))
        raise DeliveryError(
            f"Messages expired before they were read: {listed} ({sum(high - low for low, high in lost.values()):,} offsets). Ask the producer "
            "to send them again, then run `stream topics skip <dataset>`, which goes on after the gap and notes it in Bronze's "
            "ledger. Raise retentionDays in the contract if readers may be away for so long."
        )


def read_messages(
    spark: SparkSession, address: KafkaAddress, topic: str, part: Slice, *, group: str, as_text: AsText
) -> DataFrame:
    """The messages of a slice as received, in the columns of Bronze; those of a registry's schemas also as text."""
    return as_text(_messages(spark, address, topic, part, group)).select(
        "_raw",
        "_raw_bytes",
        "_decoding",
        F.lit(None).cast("string").alias("_header"),
        F.concat_ws("/", "topic", "partition").alias("_source"),
        F.col("offset").alias("_position"),
        F.to_date("timestamp").alias("_delivery_date"),
        F.col("timestamp").alias("_ingested_at"),
        F.col("key").alias("_message_key"),
        F.col("headers").alias("_message_headers"),
    )


def _messages(spark: SparkSession, address: KafkaAddress, topic: str, part: Slice, group: str) -> DataFrame:
    asked = {p for p, end in part.end.items() if end > part.first[p]}
    client = {f"kafka.{name}": value for name, value in address.for_java().items()}
    return (
        spark.read.format("kafka")
        .options(**client)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.group.id", group)
        .option("kafka.max.partition.fetch.bytes", str(16 << 20))
        .option("assign", json.dumps({topic: sorted(asked)}))
        .option("startingOffsets", json.dumps({topic: {str(p): part.first[p] for p in asked}}))
        .option("endingOffsets", json.dumps({topic: {str(p): part.end[p] for p in asked}}))
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .load()
    )


def text_of(settings: Settings, message_format: str) -> AsText:
    """How messages of a format become text."""
    decode = DECODERS.get(message_format)
    if decode is None:
        return _as_text
    registry = schema_registry(settings)
    return lambda messages: decode(messages, find_schemas(registry, schema_ids(messages)))


def _as_text(messages: DataFrame) -> DataFrame:
    text = F.col("value").cast("string")
    is_text = F.call_function("is_valid_utf8", text)
    return messages.select(
        "*",
        F.when(is_text, text).otherwise(F.call_function("make_valid_utf8", text)).alias("_raw"),
        F.when(~is_text, F.col("value")).alias("_raw_bytes"),
        F.lit(None).cast("string").alias("_decoding"),
    )
