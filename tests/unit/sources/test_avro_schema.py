"""Avro schemas as trees: every name stands for its definition, wherever it was defined."""

import json
from typing import Any

import pytest
from fastavro import parse_schema

from stream_assets.sources.avro_schema import Node, expand
from stream_assets.sources.framed import Schema, UnsupportedSchemaError


def record(name: str, *types: Any, **more: Any) -> dict[str, Any]:
    """A record with fields a, b, c … of these types."""
    fields = [{"name": chr(97 + n), "type": kind} for n, kind in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields, **more}


def tree(schema: Any, *references: Any) -> Node:
    return expand(Schema(json.dumps(schema), tuple(("any name", json.dumps(one)) for one in references)))


def kinds(node: Node) -> Any:
    """A tree as its kinds alone."""
    return (node.kind, [kinds(part) for part in node.parts.values()]) if node.parts else node.kind


PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("string", "string"),
        ({"type": {"type": "long", "logicalType": "timestamp-millis"}}, "timestamp"),
        ({"type": "long", "logicalType": "time-micros"}, "long"),
        ({"type": "int", "logicalType": "date"}, "date"),
        (PRICE, "decimal"),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, "bytes"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        (["null", PRICE], ("optional", ["decimal"])),
        (["int", "null", "string"], ("union", [("record", ["int"]), ("record", ["string"])])),
        ({"type": "map", "values": {"type": "array", "items": "bytes"}}, ("map", [("array", ["bytes"])])),
        (record("R", record("S", "int"), "S"), ("record", [("record", ["int"]), ("record", ["int"])])),
        (record("R", record("S", "int"), "x.S", namespace="x"), ("record", [("record", ["int"])] * 2)),
        (record("x.R", record("y.S", "int"), {"type": "array", "items": "y.S"}), ("record", [("record", ["int"]), ("array", [("record", ["int"])])])),
    ],
)  # fmt: skip
def test_a_schema_is_what_its_types_are(schema: Any, expected: Any) -> None:
    node = tree(schema)
    assert kinds(node) == expected
    parse_schema(node.avro)


def test_types_of_other_schemas_are_found_by_their_names() -> None:
    """Also those that have no namespace, and those that use others themselves."""
    city, address = record("City", "string"), record("lab.Address", "City")
    node = tree(record("lab.Person", "Address", ["null", "lab.Address"]), city, address)
    place = ("record", [("record", ["string"])])
    assert kinds(node) == ("record", [place, ("optional", [place])])
    parse_schema(node.avro)


@pytest.mark.parametrize(
    "schema",
    [
        record("R", ["null", "R"]),
        record("R", "Missing"),
        {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2},
        {"type": "fixed", "name": "F", "size": 1 << 30},
        ["null"],
        {"type": "record", "name": "R"},
        {"type": "array"},
        7,
    ],
)
def test_what_cannot_be_read_is_said_to_be_so(schema: Any) -> None:
    with pytest.raises(UnsupportedSchemaError):
        tree(schema)


def test_a_schema_that_grows_without_end_is_refused() -> None:
    """Each type holds the one before it twice: thirty lines stand for a billion types."""
    doubled = [record("T0", "int"), *(record(f"T{n}", f"T{n - 1}", f"T{n - 1}") for n in range(1, 30))]
    with pytest.raises(UnsupportedSchemaError, match="more than"):
        tree("T29", *doubled)


def test_no_schema_at_all_is_refused() -> None:
    with pytest.raises(UnsupportedSchemaError):
        expand(Schema("{"))
    with pytest.raises(UnsupportedSchemaError, match="PROTOBUF, not Avro"):
        expand(Schema('"string"', kind="PROTOBUF"))
