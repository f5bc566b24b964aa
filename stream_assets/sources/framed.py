"""Messages in the wire format of schema registries: a zero byte, the id of a schema in four bytes, and what was written by it.

Which schema a message names is told here, and how Bronze holds what was read of it. The reading is that of `avro.py` and
`protobuf.py`, the schemas come from `registry.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_assets.errors import ServiceError

HEADER_BYTES = 5


class UnsupportedSchemaError(ServiceError):
    """A schema that cannot be read here: it is too large, of another kind, or makes no sense."""


@dataclass(frozen=True)
class Schema:
    """A schema as its registry tells it."""

    text: str
    references: tuple[tuple[str, str], ...] = ()
    """Names and texts of the schemas whose types it uses, each after those that it uses itself."""
    kind: str = "AVRO"

    def to_json(self) -> str:
        """To be kept."""
        return json.dumps({"text": self.text, "references": self.references, "kind": self.kind})

    @classmethod
    def from_json(cls, kept: str) -> Schema:
        """As it was kept."""
        read = json.loads(kept)
        return cls(read["text"], tuple((name, text) for name, text in read["references"]), read["kind"])


Schemas = Mapping[int, Schema | None]
"""Schemas by id; None if the registry has no such schema."""


def schema_ids(messages: DataFrame) -> set[int]:
    """The ids of the schemas that these messages say they were written with."""
    found = messages.where(is_framed()).select(schema_id().alias("id")).distinct().collect()
    return {row["id"] for row in found}


def is_framed() -> Expr:
    """Whether a message has such a header."""
    value = F.col("value")
    return (F.octet_length(value) >= HEADER_BYTES) & (F.substring(value, 1, 1) == F.lit(b"\x00"))


def schema_id() -> Expr:
    """The id in it, or null."""
    return F.when(is_framed(), F.conv(F.hex(F.substring(F.col("value"), 2, 4)), 16, 10).cast("bigint"))


def as_received(messages: DataFrame, text: Expr, decoding: Expr) -> tuple[Expr, ...]:
    """The columns of Bronze: `_raw` (the record as JSON), `_raw_bytes` (the message) and `_decoding` (what it was, or why it cannot be read)."""
    received = F.call_function("make_valid_utf8", F.col("value").cast("string"))
    return (
        *map(F.col, messages.columns),
        F.coalesce(text, received).alias("_raw"),
        F.col("value").alias("_raw_bytes"),
        decoding.alias("_decoding"),
    )
