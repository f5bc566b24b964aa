"""Topics in Protobuf, on a real broker and a real schema registry: written by Confluent's own serializer, and by schemas as text."""

from decimal import Decimal
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from stream_assets.bronze.follow import catch_up, follower
from stream_assets.settings import Settings
from tests.brokers import live_contract, send, topic_of
from tests.lakes import refine_days, rows
from tests.protos import LATER, PLACE, READING, compiled, framed, type_of
from tests.registries import NOW, as_sent, days_since_now, landed


def reading(number: int, **more: Any) -> dict[str, Any]:
    place = {"place": {"city": "Ulm", "street": {"value": "Weg"}}}
    return {"reading_id": f"r{number}", "taken_at": NOW, "amount": str(Decimal(number) / 100)} | place | more


def test_messages_of_changing_schemas_reach_silver(
    spark: SparkSession, live: Settings, registry: Settings, tmp_path: Path
) -> None:
    """Bytes as sent in Bronze, exact values in Silver, poison set aside with its rule."""
    law = live_contract(tmp_path / "contracts", message_format="protobuf")
    topic = topic_of(law)
    follower(spark, live, law, run_id="made")
    client = SchemaRegistryClient({"url": live.live.registry_url})
    old = type_of(compiled(tmp_path / "old", lab__place=PLACE, lab__reading=READING), "lab.Reading")
    new = type_of(compiled(tmp_path / "new", lab__place=PLACE, lab__reading=LATER), "lab.Reading")
    serialize = ProtobufSerializer(old, client, {"use.deprecated.format": False})
    where = SerializationContext(topic, MessageField.VALUE)
    written = [serialize(old(**reading(n, pieces=n)), where) for n in range(20)]
    place = Schema(PLACE, "PROTOBUF")
    client.register_schema("places", place)
    reference = SchemaReference("lab/place.proto", "places", client.lookup_schema("places", place).version)
    id_ = client.register_schema("readings-as-text", Schema(LATER, "PROTOBUF", [reference]))
    more = {"is_final": True, "text": 1, "detail": {"a": 1}}
    written += [framed(id_, new(**reading(n, **more)), (1,)) for n in range(20, 40)]
    sent = send(live, topic, [(f"k{n}", value) for n, value in enumerate(written)])
    poison = {
        "empty": None,
        "unframed": b'{"reading_id": "r1"}',
        "unknown_schema": b"\x00\x7f\x00\x00\x01" + written[0][5:],
        "undecodable": written[1][:-1],
    }
    bad = {rule: send(live, topic, [("k", value)])[0] for rule, value in poison.items()}
    catch_up(spark, live, law, run_id="test")
    assert landed(live) == as_sent([*sent, *bad.values()])
    refine_days(spark, live, law, *days_since_now())
    silver = {row["reading_id"]: row for row in rows(live, "silver", "readings")}
    columns = ("taken_at", "amount", "pieces", "is_final", "text", "detail")
    for n in range(40):
        own = (n, None, None, None) if n < 20 else (None, True, "HIGH", '{"a":"1"}')
        assert tuple(silver[f"r{n}"][column] for column in columns) == (NOW, Decimal(n) / 100, *own)
    aside = {(r["_source"], r["_position"]): (r["_violations"], r["_raw_bytes"]) for r in rows(live, "quarantine", "readings")}  # fmt: skip
    assert aside == {(s.source, s.offset): ([f"validity__record__{rule}"], s.value) for rule, s in bad.items()}
