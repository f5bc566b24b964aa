"""Our own Kafka: one KRaft broker, which is its own controller, with small memory and everything of size one."""

from __future__ import annotations

import subprocess
from base64 import urlsafe_b64encode
from pathlib import Path
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from stream_assets.engine.jars import resolve_jars
from stream_assets.engine.java import find_java
from stream_assets.errors import ServiceError
from stream_assets.services.addresses import kafka, ports
from stream_assets.settings import Settings

MAX_MESSAGE_BYTES = 16 << 20
_JVM = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-Duser.timezone=UTC")
_LOG = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")


def java_command(settings: Settings, conf: str, main: str, *arguments: object) -> list[str]:
    """A small JVM that runs a class of the jars of one configuration."""
    classpath = ":".join(map(str, resolve_jars(settings.jars, conf, report=print)))
    return [str(find_java()), *_JVM, *_LOG, "-cp", classpath, main, *map(str, arguments)]


def prepare_broker(settings: Settings, folder: Path) -> None:
    """Write the configuration, and format the storage once."""
    config = folder / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in broker_config(settings, folder).items()))
    if (folder / "data" / "meta.properties").exists():
        return
    storage = java_command(settings, "kafka", "kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", config)
    done = subprocess.run(storage, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServiceError(
            f"Kafka's storage in {folder} cannot be formatted: {done.stderr[-800:] or done.stdout[-800:]}"
        )


def broker_command(settings: Settings, folder: Path) -> list[str]:
    """Runs the broker."""
    return java_command(settings, "kafka", "kafka.Kafka", folder / "server.properties")


def broker_answers(settings: Settings) -> bool:
    """Whether the broker serves metadata."""
    try:
        AdminClient({**kafka(settings).for_clients(), "log_level": "0"}).list_topics(timeout=3)
    except KafkaException:
        return False
    return True


def broker_config(settings: Settings, folder: Path) -> dict[str, object]:
    """Loopback only. Topics are made on purpose, never by a misspelt name."""
    at = ports(settings)
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{at.controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{at.kafka},CONTROLLER://127.0.0.1:{at.controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{at.kafka}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": folder / "data",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "message.max.bytes": MAX_MESSAGE_BYTES,
        "replica.fetch.max.bytes": MAX_MESSAGE_BYTES,
        # Expired segments go within seconds of being due, so that retention can be seen at work.
        "log.retention.check.interval.ms": 5_000,
    }


def _cluster_id() -> str:
    """22 characters of base64, as Kafka writes identifiers. Like Kafka's own, none begins with a dash: its tools would see an option."""
    while (made := urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made
