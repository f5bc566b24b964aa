"""Avro messages as text: bytes in the wire format of schema registries become JSON, by Spark's own reader.

A message is a zero byte, the id of the schema it was written with (four bytes) and the record. Spark forgives what we do
not: a record that cannot be read is a row of nulls, and bytes left over are ignored. So a mark is written behind the record,
and read as a field after it: it is found there only if the record was read exactly.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from stream_assets.contracts.model import AVRO
from stream_assets.sources.avro_schema import Node, expand
from stream_assets.sources.framed import (
    HEADER_BYTES,
    Schema,
    Schemas,
    UnsupportedSchemaError,
    as_received,
    is_framed,
    schema_id,
)
from stream_assets.sources.records import once

_MARK = hashlib.sha256(b"the end of a record").digest()[:16]
_OPTIONS = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}
_OBJECTS = ("record", "array", "map")


def decode(messages: DataFrame, schemas: Schemas) -> DataFrame:
    """Add `_raw` (the record as JSON), `_raw_bytes` (the message as received) and `_decoding` (avro, or why not).

    Each of the two steps is a barrier: the optimizer would otherwise read a record again for every use of it.
    """
    nodes = {id_: node for id_, schema in sorted(schemas.items()) if schema and (node := _node(schema))}
    by_schema = [F.when(schema_id() == id_, _read(node)).alias(f"_schema_{id_}") for id_, node in nodes.items()]
    read = once(messages, F.struct(*by_schema)) if by_schema else messages
    told = once(read, F.struct(_told(nodes, schemas).alias("_told")))
    text, decoding = F.col("_told.text"), F.col("_told.decoding")
    is_altered = _replaced(text) > _replaced(F.col("value").cast("string"))
    return told.select(*as_received(messages, text, F.when(is_altered, "encoding").otherwise(decoding)))


def _node(schema: Schema) -> Node | None:
    try:
        return expand(schema)
    except UnsupportedSchemaError:
        return None


def _read(node: Node) -> Expr:
    """The record, and the mark behind it."""
    end = {"type": "fixed", "name": "end_of_record", "size": len(_MARK)}
    fields = [{"name": "record", "type": node.avro}, {"name": "end", "type": end}]
    framed = {"type": "record", "name": "framed", "fields": fields}
    payload = F.concat(F.expr(f"substring(value, {HEADER_BYTES + 1})"), F.lit(_MARK))
    return from_avro(payload, json.dumps(framed), _OPTIONS)


def _told(nodes: Mapping[int, Node], schemas: Schemas) -> Expr:
    """Text and decoding of a message: of the schema it names, if that is known and can be read."""
    others = [id_ for id_ in schemas if id_ not in nodes and schemas[id_]]
    cases = [(schema_id() == id_, _outcome(F.col(f"_schema_{id_}"), node)) for id_, node in nodes.items()]
    cases += [(schema_id() == id_, _refused("unsupported_schema")) for id_ in others]
    of_nothing = F.when(F.col("value").isNull(), F.lit(None)).when(~is_framed(), _refused("unframed"))
    known = reduce(lambda so_far, case: so_far.when(*case), cases, of_nothing)
    return known.otherwise(_refused("unknown_schema"))


def _outcome(read: Expr, node: Node) -> Expr:
    text = _as_json(_plain(read["record"], node), node)
    return F.when(read["end"] == F.lit(_MARK), _pair(text, AVRO)).otherwise(_refused("undecodable"))


def _refused(rule: str) -> Expr:
    return _pair(F.lit(None).cast("string"), rule)


def _pair(text: Expr, decoding: str) -> Expr:
    return F.struct(text.alias("text"), F.lit(decoding).alias("decoding"))


def _replaced(text: Expr) -> Expr:
    """Bytes of replacement characters: text that is no UTF-8 has more of them as JSON than it had when it was received."""
    return F.octet_length(text) - F.octet_length(F.replace(text, F.lit("\ufffd"), F.lit("")))


def _as_json(value: Expr, node: Node) -> Expr:
    """Any value as JSON, of which Spark writes only objects and lists."""
    if node.kind in _OBJECTS:
        return F.to_json(value, {"ignoreNullFields": "false"})
    listed = F.to_json(F.array(value), {"ignoreNullFields": "false"})
    return F.substr(listed, F.lit(2), F.length(listed) - 2)


def _plain(value: Expr, node: Node) -> Expr:
    """A value whose JSON loses nothing: exact numbers and moments are text, a choice of types is the one that was written."""
    match node.kind:
        case "decimal" | "date":
            return value.cast("string")
        case "timestamp":
            return F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")
        case "local-timestamp":
            return F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
        case "bytes":
            return F.base64(value)
        case "optional":
            return _plain(value, node.part)
        case "array":
            return F.transform(value, lambda item: _plain(item, node.part))
        case "map":
            return F.transform_values(value, lambda _, item: _plain(item, node.part))
        case "record":
            fields = [_plain(value[f"f{n}"], part).alias(name) for n, (name, part) in enumerate(node.parts.items())]
            return F.when(value.isNotNull(), F.struct(*fields))
        case "union":
            return F.coalesce(*[_member(value[f"member{n}"], part) for n, part in enumerate(node.parts.values())])
        case _:
            return value


def _member(wrapped: Expr, node: Node) -> Expr:
    """One of several types, as a value that may be of any."""
    text = _as_json(_plain(wrapped["f0"], node.part), node.part)
    return F.when(wrapped.isNotNull(), F.parse_json(text))
