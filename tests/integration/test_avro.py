"""Avro into text, against fastavro: any schema, any record, and not a byte more or less than was written."""

import base64
import json
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from itertools import count
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from pyspark.sql import SparkSession

from stream_assets.sources.avro import decode
from stream_assets.sources.framed import Schema, schema_ids
from stream_assets.sources.records import with_record
from tests.documents import contract

SCHEMAS, RECORDS = 24, 30
TEXTS = ("", "plain", 'a "quoted": {text}', "é\n\t\u0001", "\ufffd", "𝄞", "null", "a" * 3_000)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Chance(random.Random):
    """Random schemas and records."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.names: Iterator[int] = count()

    def schema(self, depth: int = 3) -> Any:
        simple = [
            "boolean", "int", "long", "float", "double", "string", "bytes", "decimal", "fixed decimal", "date", "enum",
            "timestamp-millis", "timestamp-micros", "local-timestamp-micros", "fixed", "optional",
        ]  # fmt: skip
        kind = self.choice(simple + (["record", "array", "map", "union"] * 2 if depth else []))
        name = f"N{next(self.names)}"
        match kind:
            case "decimal":
                precision = self.randint(1, 38)
                return {
                    "type": "bytes",
                    "logicalType": kind,
                    "precision": precision,
                    "scale": self.randint(0, precision),
                }
            case "fixed decimal":
                return {"type": "fixed", "name": name, "size": 8, "logicalType": "decimal", "precision": 18, "scale": 4}
            case "date":
                return {"type": "int", "logicalType": kind}
            case "timestamp-millis" | "timestamp-micros" | "local-timestamp-micros":
                return {"type": "long", "logicalType": kind}
            case "enum":
                return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}
            case "fixed":
                return {"type": "fixed", "name": name, "size": self.randint(0, 9)}
            case "optional":
                return self.sample(["null", self.schema(0) if depth else "string"], 2) if depth else ["null", "long"]
            case "record":
                return self.record(depth - 1)
            case "array" | "map":
                return {"type": kind, "items" if kind == "array" else "values": self.schema(depth - 1)}
            case "union":
                return self.sample(["null", "string", "long", "boolean", self.record(depth - 1)], self.randint(3, 5))
            case _:
                return kind

    def record(self, depth: int) -> dict[str, Any]:
        fields = [{"name": f"field_{n}", "type": self.schema(depth)} for n in range(self.randint(1, 4))]
        return {
            "type": "record",
            "name": f"N{next(self.names)}",
            "namespace": self.choice(("", "a.b")),
            "fields": fields,
        }

    def value(self, schema: Any) -> Any:  # noqa: PLR0912 an arm for each type
        if isinstance(schema, list):
            return self.value(self.choice(schema))
        kind = schema["type"] if isinstance(schema, dict) else schema
        match schema.get("logicalType") or kind if isinstance(schema, dict) else kind:
            case "decimal":
                digits = self.randrange(10 ** self.randint(0, schema["precision"]))
                return Decimal(digits * self.choice((1, -1))).scaleb(-schema["scale"], None)
            case "date":
                return date(1970, 1, 1) + timedelta(days=self.randint(-400_000, 400_000))
            case "timestamp-millis":
                return EPOCH + timedelta(milliseconds=self.randint(-(10**13), 10**14))
            case "timestamp-micros":
                return EPOCH + timedelta(microseconds=self.randint(-(10**16), 10**17))
            case "local-timestamp-micros":
                return (EPOCH + timedelta(microseconds=self.randint(-(10**16), 10**17))).replace(tzinfo=None)
            case "boolean":
                return self.random() < 0.5
            case "int":
                return self.choice((0, -1, 2**31 - 1, -(2**31), self.randint(-999, 999)))
            case "long":
                return self.choice((0, -1, 2**63 - 1, -(2**63), self.randint(-(10**18), 10**18)))
            case "float" | "double":
                return self.choice((0.0, -1.5, 0.1, 1e-30, 3e38, self.uniform(-1e6, 1e6)))
            case "string":
                return self.choice(TEXTS)
            case "bytes" | "fixed":
                return self.randbytes(schema["size"] if kind == "fixed" else self.randint(0, 20))
            case "enum":
                return self.choice(schema["symbols"])
            case "array":
                return [self.value(schema["items"]) for _ in range(self.randint(0, 3))]
            case "map":
                return {f"k{n}": self.value(schema["values"]) for n in range(self.randint(0, 3))}
            case "record":
                return {f["name"]: self.value(f["type"]) for f in schema["fields"]}
            case "null":
                return None
            case other:
                raise AssertionError(other)


def written(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    schemaless_writer(out, parse_schema(schema), value)
    return out.getvalue()


def framed(id_: int, payload: bytes) -> bytes:
    return b"\x00" + id_.to_bytes(4, "big") + payload


def as_told(value: Any, schema: Any) -> Any:
    """What fastavro reads, as JSON should say it. Floats stay, to be compared as numbers."""
    match value:
        case dict():
            return {key: as_told(inner, schema) for key, inner in value.items()}
        case list():
            return [as_told(inner, schema) for inner in value]
        case Decimal():
            return f"{value:f}"
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return value.replace(tzinfo=None).isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
        case date():
            return value.isoformat()
        case _:
            return value


def is_equal(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return isinstance(found, dict) and found.keys() == expected.keys() and all(
            is_equal(found[key], expected[key]) for key in expected
        )  # fmt: skip
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(is_equal, found, expected))
    if isinstance(expected, float):
        # A float has 24 binary digits: fastavro shows them as a double, Java as the shortest text that means them.
        return abs(found - expected) <= 6e-8 * abs(expected)
    return type(found) is type(expected) and found == expected


def test_any_record_of_any_schema_is_read_exactly(spark: SparkSession) -> None:
    """Decimals, moments, choices, nested records: as fastavro reads them. A byte less or more is no record."""
    chance = Chance(20)
    schemas = {id_: chance.record(3) for id_ in range(1, SCHEMAS)} | {SCHEMAS: "string"}
    payloads = [(id_, written(s, chance.value(s))) for id_, s in schemas.items() for _ in range(RECORDS)]
    sound = [framed(*one) for one in payloads]
    short = [framed(id_, payload[: chance.randrange(len(payload))]) for id_, payload in payloads if payload]
    longer = [framed(id_, payload + chance.randbytes(chance.randint(1, 40))) for id_, payload in payloads]
    values = [*sound, *short, *longer]
    messages = spark.createDataFrame([(value, n) for n, value in enumerate(values)], "value binary, n bigint")
    assert schema_ids(messages) == set(schemas)
    known = {id_: Schema(json.dumps(schema)) for id_, schema in schemas.items()}
    found = {row["n"]: row for row in decode(messages, known).collect()}
    assert all(bytes(found[n]["_raw_bytes"]) == value for n, value in enumerate(values))
    for n, (id_, payload) in enumerate(payloads):
        expected = as_told(schemaless_reader(BytesIO(payload), parse_schema(schemas[id_]), None), schemas[id_])
        told = json.loads(found[n]["_raw"])
        assert found[n]["_decoding"] == "avro"
        assert is_equal(told, expected), (schemas[id_], told, expected)
    assert {found[n]["_decoding"] for n in range(len(sound), len(values))} == {"undecodable"}


READING = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "reading_id", "type": "string"},
        {"name": "taken_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
TREE = {"type": "record", "name": "Tree", "fields": [{"name": "branch", "type": ["null", "Tree"]}]}
GOOD = written(READING, {"reading_id": "r1", "taken_at": datetime(2026, 11, 16, tzinfo=UTC)})
JUDGED = {
    "sound": (framed(1, GOOD), None),
    "no value": (None, "empty"),
    "nothing in it": (b"", "unframed"),
    "JSON": (b'{"reading_id": "r1"}', "unframed"),
    "another magic byte": (b"\x01" + framed(1, GOOD)[1:], "unframed"),
    "only a header": (framed(1, b""), "undecodable"),
    "cut": (framed(1, GOOD[:-1]), "undecodable"),
    "too long": (framed(1, GOOD + b"\x00"), "undecodable"),
    "a text of a gigabyte": (framed(1, b"\x80\x80\x80\x80\x08"), "undecodable"),
    "not UTF-8": (framed(1, GOOD.replace(b"r1", b"\xff\xfe")), "encoding"),
    "a schema nobody knows": (framed(2, GOOD), "unknown_schema"),
    "a schema that contains itself": (framed(3, b"\x00"), "unsupported_schema"),
    "no object": (framed(4, b"\x04r1"), "malformed"),
}


def test_what_cannot_be_read_breaks_one_rule(spark: SparkSession, tmp_path) -> None:
    """Each its own; text of before, which says nothing of how it was read, is judged as ever."""
    names = list(JUDGED)
    rows = [(JUDGED[name][0], name) for name in names]
    known = {1: Schema(json.dumps(READING)), 2: None, 3: Schema(json.dumps(TREE)), 4: Schema('"string"')}
    read = decode(spark.createDataFrame(rows, "value binary, name string"), known)
    judged = with_record(read, contract(tmp_path)).collect()
    expected = {name: rule and f"validity__record__{rule}" for name, (_, rule) in JUDGED.items()}
    assert {row["name"]: row["_problem"] for row in judged} == expected
    sound = next(row for row in judged if row["name"] == "sound")
    assert sound["_record"]["reading_id"] == "r1"
    assert sound["_record"]["taken_at"] == "2026-11-16T00:00:00.000000Z"
