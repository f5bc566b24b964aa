"""What topics hold of a person. A message cannot be taken out of Kafka: it ends with the topic's retention, or by its key.

On a compacted topic a message without a value removes what was told under its key before. Bronze knows the keys of a
person's messages and where each was told, until it forgets them too: so such messages are published before anything is removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.engine.log import read_positions
from stream_assets.errors import ServiceError
from stream_assets.quality.words import count_text
from stream_assets.services.addresses import kafka
from stream_assets.settings import Settings
from stream_assets.sources.publish import end_keys
from stream_assets.sources.topics import Topic, read_config, topic_of

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class OnTopic:
    """What a topic holds of a person, as far as Bronze has it."""

    topic: str
    messages: int
    keys: tuple[tuple[int, bytes], ...] = field(repr=False)
    """Partition and key of messages that tell of nobody else."""
    config: Mapping[str, str] = field(repr=False)

    @property
    def can_end(self) -> bool:
        """Whether messages without a value would end theirs."""
        return bool(self.keys) and "compact" in self.config["cleanup.policy"]


def find_messages(settings: Settings, contract: Contract, bronze: DataFrame) -> Iterator[OnTopic]:
    """The topics of a dataset that was landed from one, with what they hold of a person: Bronze with `_is_theirs`."""
    if not read_positions(settings.table_path("bronze", contract.name)).positions:
        return
    for server in (s for s in contract.live_servers if s.kind == "kafka"):
        topic = topic_of(settings, contract, server)
        by_key = (
            bronze.where(F.startswith("_source", F.lit(f"{topic.name}/")))
            .groupBy("_source", "_message_key")
            .agg(F.count_if("_is_theirs").alias("theirs"), F.bool_and("_is_theirs").alias("only"))
            .where("theirs > 0")
            .collect()
        )
        keys = [
            (int(row["_source"].rpartition("/")[2]), bytes(row["_message_key"]))
            for row in by_key
            if row["only"] and row["_message_key"] is not None
        ]
        yield OnTopic(topic.name, sum(row["theirs"] for row in by_key), tuple(sorted(keys)), _config(settings, topic))


def _config(settings: Settings, topic: Topic) -> Mapping[str, str]:
    """As the cluster says; as the contract wants it, where no cluster answers."""
    try:
        return read_config(kafka(settings), topic.name)
    except ServiceError:
        return topic.config


def end_messages(settings: Settings, found: Sequence[OnTopic]) -> dict[str, int]:
    """Publish messages without a value where they end a person's. Returns how many, per topic. Doing it again does no harm."""
    return {on.topic: end_keys(kafka(settings), on.topic, on.keys) for on in found if on.can_end}


def remaining(found: Sequence[OnTopic], ended: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """What topics go on holding, and until when."""
    for on in found:
        reason = _until_compacted(on.config, ended[on.topic]) if on.topic in ended else _kept(on.config)
        yield {"files": [], "topics": [on.topic], "messages": on.messages, "reason": f"{reason}; landing drops them"}


def _until_compacted(config: Mapping[str, str], ended: int) -> str:
    lag = float(config.get("min.compaction.lag.ms", 0)) / _DAY_MS
    earliest = f", {lag:g} days after they came at the earliest" if lag else ""
    return f"{count_text(ended, 'key')} ended: Kafka removes their messages when it next compacts the topic{earliest}"


def _kept(config: Mapping[str, str]) -> str:
    """Why a topic keeps its messages, and until when."""
    if config["cleanup.policy"] == "compact":
        return "messages of a compacted topic end with a message of their key and no value: by its producer, or by --tombstones"
    days = int(config["retention.ms"]) / _DAY_MS
    until = f"for {days:g} days" if days >= 0 else "for ever, by its retention"
    return f"messages as received, which Kafka keeps {until}"
