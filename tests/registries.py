"""Topics in Avro for tests: readings as a producer with Confluent's own serializer writes them."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from stream_assets.contracts.model import Contract
from stream_assets.settings import Settings
from tests.brokers import Sent, topic_of
from tests.lakes import rows

NOW = datetime.now(UTC).replace(microsecond=123_000)
FIELDS: list[dict[str, Any]] = [
    {"name": "reading_id", "type": "string"},
    {"name": "taken_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "amount", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}]},
    {"name": "pieces", "type": ["null", "long"], "default": None},
]
LATER: list[dict[str, Any]] = [
    {"name": "due_date", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
    {"name": "text", "type": {"type": "enum", "name": "Word", "symbols": ["low", "high"]}, "default": "low"},
    {"name": "is_final", "type": "boolean", "default": False},
    {"name": "detail", "type": {"type": "map", "values": "int"}, "default": {}},
]
"""Fields that a newer schema has too."""
Landed = list[tuple[str, int, bytes | None]]


class Writer:
    """Writes readings by a schema, which it tells the registry."""

    def __init__(self, live: Settings, law: Contract, *more: dict[str, Any]) -> None:
        schema = {"type": "record", "name": "Reading", "namespace": "lab", "fields": [*FIELDS, *more]}
        client = SchemaRegistryClient({"url": live.live.registry_url})
        self.serialize = AvroSerializer(client, json.dumps(schema))
        self.place = SerializationContext(topic_of(law), MessageField.VALUE)

    def __call__(self, number: int, **more: Any) -> bytes:
        record = {"reading_id": f"r{number}", "taken_at": NOW, "amount": Decimal(number) / 100, "pieces": number}
        written = self.serialize(record | more, self.place)
        assert written
        return written


def landed(lake: Settings) -> Landed:
    """Every message of Bronze, as it was received."""
    return sorted((r["_source"], r["_position"], r["_raw_bytes"]) for r in rows(lake, "bronze", "readings"))


def as_sent(sent: Sequence[Sent]) -> Landed:
    """The same, as Kafka took it."""
    return sorted((s.source, s.offset, s.value) for s in sent)


def days_since_now() -> list[date]:
    """Days on which what these tests send may have come: midnight may have passed."""
    return sorted({NOW.date(), datetime.now(UTC).date()})
