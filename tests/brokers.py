"""Topics for tests: a contract that is read from one, messages put into it, and what Kafka said of each."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer

from stream_assets.contracts.model import Contract
from stream_assets.services.addresses import connect_url, kafka, postgres_dsn, schema_registry
from stream_assets.services.connect import password_reference
from stream_assets.settings import Settings
from tests.documents import bend, contract, document


@dataclass(frozen=True)
class Sent:
    """A message as Kafka took it."""

    source: str
    offset: int
    value: bytes | None
    key: bytes | None


def live_lake(lake: Settings, servers: Settings) -> Settings:
    """The lake, fed by the servers of another STREAM_HOME."""
    live = replace(
        lake.live,
        kafka_bootstrap=kafka(servers).bootstrap,
        postgres_dsn=postgres_dsn(servers),
        connect_url=connect_url(servers),
        connect_password=password_reference(servers),
        registry_url=schema_registry(servers).url,
    )
    return replace(lake, server="live", live=live)


def live_contract(
    folder: Path, made: dict[str, Any] | None = None, *, message_format: str = "json", **custom: Any
) -> Contract:
    """A contract that is read from a topic of its own."""
    custom = {"topic": f"lab.readings.{uuid4().hex[:8]}", **custom}
    properties = [{"property": name, "value": value} for name, value in custom.items()]
    server = {"server": "live", "type": "kafka", "host": "broker", "format": message_format}
    server |= {"customProperties": properties}
    return contract(folder, bend(made or document(), "servers.1", server))


def topic_of(law: Contract) -> str:
    """The topic of such a contract."""
    return law.server("live").options["topic"]


def send(lake: Settings, topic: str, messages: Iterable[tuple[Any, Any]], **headers: bytes) -> list[Sent]:
    """Publish (key, value) messages and return where each one went."""
    sent: list[Sent] = []
    producer = Producer(
        {**kafka(lake).for_clients(), "acks": "all", "enable.idempotence": "true", "message.max.bytes": str(16 << 20)}
    )

    def note(error: Any, message: Any) -> None:
        assert error is None, error
        place = f"{message.topic()}/{message.partition()}"
        sent.append(Sent(place, message.offset(), message.value(), message.key()))

    for key, value in messages:
        producer.produce(topic, key=key, value=value, headers=dict(headers), on_delivery=note)
        producer.poll(0)
    assert producer.flush(60) == 0
    return sent
