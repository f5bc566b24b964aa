"""Protobuf messages as text: bytes in the wire format of schema registries become JSON, by Google's own library.

A worker of Spark parses each message by the schema it names and writes it in the JSON of Protobuf's own specification.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_assets.sources.framed import Schema, Schemas, UnsupportedSchemaError, as_received
from stream_assets.sources.protobuf_reader import Readable, Reader
from stream_assets.sources.protobuf_schema import describe
from stream_assets.sources.records import once


def decode(messages: DataFrame, schemas: Schemas) -> DataFrame:
    """Add `_raw` (the message as JSON), `_raw_bytes` (as received) and `_decoding` (protobuf, or why not)."""
    reader = Reader({id_: _readable(schema) for id_, schema in schemas.items()})
    told = F.udf(reader.read, "text string, decoding string", useArrow=True)(F.col("value"))
    read_once = once(messages, F.struct(told.alias("_told")))
    return read_once.select(*as_received(messages, F.col("_told.text"), F.col("_told.decoding")))


def _readable(schema: Schema | None) -> Readable:
    if schema is None:
        return "unknown_schema"
    try:
        return describe(schema)
    except UnsupportedSchemaError:
        return "unsupported_schema"
