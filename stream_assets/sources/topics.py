"""Kafka topics from contracts: their names, sizes and promises. Made or verified, never silently altered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # its documentation imports them so
    AdminClient,
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from stream_assets.contracts.model import CHANGES, Contract, Server
from stream_assets.errors import AwayError, ServiceError
from stream_assets.services.addresses import KafkaAddress
from stream_assets.settings import Settings

PARTITIONS_PER_MB_S = 10
MIN_PARTITIONS, MAX_PARTITIONS = 3, 100
RETENTION_DAYS = 7
MAX_MESSAGE_BYTES = 16 << 20
TIMEOUT_S = 30
_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True)
class Topic:
    """A topic as a contract wants it."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str] = field(hash=False)


def topic_of(settings: Settings, contract: Contract, server: Server) -> Topic:
    """The topic of a contract's Kafka server."""
    return Topic(
        name=topic_name(contract, server),
        partitions=partitions_for(float(server.options.get("peakThroughput", 0))),
        replication=settings.live.replication,
        config=_config(contract, server, settings.live.replication),
    )


def topic_name(contract: Contract, server: Server) -> str:
    """`{domain}.{entity}.{event_type}`, such as sales.orders.events.

    One topic holds every type of event of a dataset (the envelope tells created, updated and deleted apart): only within
    a partition does Kafka keep order, and an update must not overtake the creation of its order.
    """
    kind = "events" if contract.kind == "event" else "changes"
    return str(server.options.get("topic") or f"{contract.domain}.{contract.name}.{kind}")


def partitions_for(peak_mb_s: float) -> int:
    """Ten for each megabyte a second at peak, at least 3 and at most 100."""
    return min(max(math.ceil(PARTITIONS_PER_MB_S * peak_mb_s), MIN_PARTITIONS), MAX_PARTITIONS)


def consumer_group(contract: Contract, purpose: str = "bronze") -> str:
    """`{service}-{purpose}`: who reads a topic and what for."""
    return f"stream-{purpose}.{contract.name}"


def _config(contract: Contract, server: Server, replication: int) -> dict[str, str]:
    """Arrival is timed by the broker: a delivery day must not depend on the clocks of producers."""
    days = server.options.get("retentionDays", RETENTION_DAYS)
    kept = "-1" if days == -1 else str(int(days * _DAY_MS))
    # State is compacted, but not before we have surely read every change of it. A change log holds truncations, which have no key.
    keeping = (
        {"cleanup.policy": "delete", "retention.ms": kept}
        if contract.kind == "event" or server.format == CHANGES
        else {"cleanup.policy": "compact", "min.compaction.lag.ms": str(RETENTION_DAYS * _DAY_MS)}
    )
    return keeping | {
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
        "min.insync.replicas": str(max(1, replication - 1)),
    }


@dataclass(frozen=True)
class TopicState:
    """What was found, or done, about a topic."""

    topic: Topic
    is_new: bool
    differences: Mapping[str, tuple[str, str]] = field(default_factory=dict, hash=False)
    """Property → (wanted, found). Nothing is altered by itself."""


def ensure_topic(address: KafkaAddress, topic: Topic) -> TopicState:
    """Make the topic if it is not there; else say where it differs. One that dates records itself is refused."""
    if topic.name not in topic_names(address) and _create(admin_client(address), topic):
        return TopicState(topic, is_new=True)
    state = compare_topic(address, topic)
    if "message.timestamp.type" in state.differences:
        raise ServiceError(
            f"The topic {topic.name} takes the time of its messages from their producers, so nobody can tell when they arrived. "
            f"Set message.timestamp.type=LogAppendTime on it: `kafka-configs.sh --alter --topic {topic.name} "
            "--add-config message.timestamp.type=LogAppendTime`."
        )
    return state


def compare_topic(address: KafkaAddress, topic: Topic) -> TopicState:
    """Where a topic that is there differs from what is wanted."""
    return TopicState(topic, is_new=False, differences=_differences(admin_client(address), topic))


@cache
def admin_client(address: KafkaAddress) -> AdminClient:
    """A client that asks and arranges, one for each cluster: making one takes longer than asking. What goes wrong is raised, not logged."""
    patience = {"socket.timeout.ms": "10000", "reconnect.backoff.max.ms": "1000"}
    return AdminClient({**address.for_clients(), **patience, "log_level": "0"})


def unreachable(address: KafkaAddress, error: KafkaException) -> AwayError:
    """What to tell when the cluster does not answer."""
    return AwayError(
        f"Kafka at {address.bootstrap} does not answer ({error.args[0].str()}). Start our own with `stream services up`, or correct "
        "STREAM_KAFKA_BOOTSTRAP and the settings beside it."
    )


def topic_names(address: KafkaAddress, timeout_s: float = TIMEOUT_S) -> set[str]:
    """The topics there are."""
    try:
        return set(admin_client(address).list_topics(timeout=timeout_s).topics)
    except KafkaException as error:
        raise unreachable(address, error) from error


def _create(admin: AdminClient, topic: Topic) -> bool:
    """True if we made it; another may have been quicker."""
    new = NewTopic(topic.name, topic.partitions, topic.replication, config=dict(topic.config))
    try:
        admin.create_topics([new], operation_timeout=TIMEOUT_S)[topic.name].result(TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].name() == "TOPIC_ALREADY_EXISTS":
            return False
        raise ServiceError(f"The topic {topic.name} cannot be made: {error.args[0].str()}") from error
    return True


def read_config(address: KafkaAddress, name: str) -> dict[str, str]:
    """How a topic is configured, by the cluster's word."""
    try:
        return _config_of(admin_client(address), name)
    except KafkaException as error:
        raise unreachable(address, error) from error


def _config_of(admin: AdminClient, name: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    found = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {name: str(entry.value) for name, entry in found.items()}


def _differences(admin: AdminClient, topic: Topic) -> dict[str, tuple[str, str]]:
    config = _config_of(admin, topic.name)
    partitions = admin.list_topics(topic.name, timeout=TIMEOUT_S).topics[topic.name].partitions
    replicas = min((len(partition.replicas) for partition in partitions.values()), default=0)
    pairs = {
        "partitions": (str(topic.partitions), str(len(partitions))),
        "replication": (str(topic.replication), str(replicas)),
        **{name: (wanted, config[name]) for name, wanted in topic.config.items()},
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
