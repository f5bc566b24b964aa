"""Avro schemas made plain: every name replaced by what it stands for, so that a reader can walk them.

Bytes know types and their order, no names. So types get names of our own here, which lets a type stand in several places,
and a choice of several types is a choice of records with one field each, which are written the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from stream_assets.sources.framed import Schema, UnsupportedSchemaError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "string", "bytes")
MAX_TYPES = 5_000
MAX_FIXED = 16 << 20
MAX_PRECISION = 38
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "local-timestamp",
    ("long", "local-timestamp-micros"): "local-timestamp",
}


@dataclass(frozen=True)
class Node:
    """A type: what Spark reads it by, and what it is to us."""

    avro: Any
    kind: str
    parts: Mapping[str, Node] = field(default_factory=dict, hash=False)
    """Fields of a record by name, members of a union by number; of others the one thing they hold."""

    @property
    def part(self) -> Node:
        """Items of an array or map, what an optional value is, what a member of a union holds."""
        return next(iter(self.parts.values()))


def expand(schema: Schema) -> Node:
    """A schema as a tree, every name replaced by its definition."""
    if schema.kind != "AVRO":
        raise UnsupportedSchemaError(f"A schema is {schema.kind}, not Avro.")
    walk = _Expansion()
    texts = (*(text for _, text in schema.references), schema.text)
    try:
        *_, node = [walk.node(json.loads(text), "", ()) for text in texts]
        return node
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnsupportedSchemaError(f"A schema makes no sense: {type(error).__name__} {error}.") from error


class _Expansion:
    """Walks a schema once, in the order in which names are defined."""

    def __init__(self) -> None:
        self.named: dict[str, tuple[Any, str]] = {}
        self.numbers: Iterator[int] = count()

    def node(self, schema: Any, space: str, path: tuple[str, ...]) -> Node:
        if isinstance(schema, list):
            return self.union(schema, space, path)
        if isinstance(schema, str):
            schema = {"type": schema}
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.node(kind, space, path)
        match kind:
            case "record" | "error" | "enum" | "fixed":
                return self.definition(schema, space, path)
            case "array" | "map":
                items = "items" if kind == "array" else "values"
                part = self.node(schema[items], space, path)
                return Node({"type": kind, items: part.avro}, kind, {"items": part})
            case _ if kind in PRIMITIVES:
                return _primitive(schema)
            case _:
                return self.by_name(kind, space, path)

    def by_name(self, name: str, space: str, path: tuple[str, ...]) -> Node:
        """What was defined under a name before, made anew."""
        known = next((n for n in (_full(name, space), name) if n in self.named), None)
        if known is None:
            raise UnsupportedSchemaError(f"A schema has a type {name!r} that it does not define.")
        return self.definition(*self.named[known], path)

    def definition(self, schema: Mapping[str, Any], space: str, path: tuple[str, ...]) -> Node:
        name = _full(schema["name"], schema.get("namespace", space))
        number = next(self.numbers)
        if name in path or number > MAX_TYPES:
            raise UnsupportedSchemaError(f"The type {name} contains itself, or more than {MAX_TYPES:,} others.")
        self.named[name] = (schema, space)
        own = {"type": schema["type"], "name": f"t{number}"}
        if schema["type"] == "enum":
            return Node(own | {"symbols": schema["symbols"]}, "string")
        if schema["type"] == "fixed":
            return _fixed(schema, own)
        inside = name.rpartition(".")[0]
        parts = {f["name"]: self.node(f["type"], inside, (*path, name)) for f in schema["fields"]}
        return _record(own["name"], parts)

    def union(self, members: list[Any], space: str, path: tuple[str, ...]) -> Node:
        nodes = [self.node(member, space, path) for member in members]
        others = [node for node in nodes if node.kind != "null"]
        if not others:
            raise UnsupportedSchemaError("A schema has a choice of nothing.")
        if len(others) == 1:
            return Node([node.avro for node in nodes], "optional", {"value": others[0]})
        wrapped = [n if n.kind == "null" else _record(f"t{next(self.numbers)}", {"value": n}) for n in nodes]
        parts = {str(n): node for n, node in enumerate(w for w in wrapped if w.kind != "null")}
        return Node([node.avro for node in wrapped], "union", parts)


def _record(name: str, parts: Mapping[str, Node]) -> Node:
    fields = [{"name": f"f{n}", "type": part.avro} for n, part in enumerate(parts.values())]
    return Node({"type": "record", "name": name, "fields": fields}, "record", parts)


def _primitive(schema: Mapping[str, Any]) -> Node:
    kind, logical = schema["type"], schema.get("logicalType")
    if kind == "bytes":
        return _decimal(schema, {"type": "bytes"}) or Node("bytes", "bytes")
    if meaning := _LOGICAL.get((kind, str(logical))):
        return Node({"type": kind, "logicalType": logical}, meaning)
    return Node(kind, kind)


def _fixed(schema: Mapping[str, Any], own: Mapping[str, Any]) -> Node:
    avro = {**own, "size": schema["size"]}
    if not 0 <= schema["size"] <= MAX_FIXED:
        raise UnsupportedSchemaError(f"A schema has values of {schema['size']:,} bytes.")
    return _decimal(schema, avro) or Node(avro, "bytes")


def _decimal(schema: Mapping[str, Any], avro: Mapping[str, Any]) -> Node | None:
    if schema.get("logicalType") != "decimal":
        return None
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    if not 0 <= scale <= precision <= MAX_PRECISION:
        raise UnsupportedSchemaError(f"A schema has numbers of {precision} digits, {scale} of them decimals.")
    return Node({**avro, "logicalType": "decimal", "precision": precision, "scale": scale}, "decimal")


def _full(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"
