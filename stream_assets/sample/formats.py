"""File formats: a batch becomes records, records become a file.

A record is a line of bytes (JSON lines, CSV) or a row (Parquet). A format also decodes and encodes a single record,
which is how faults edit one without slowing down the others.
"""

import csv
import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stream_assets.sample.text import Part, iso_timestamps, join_lines, pick, uuids

# Columns whose text may hold a comma or a quote; all others are written bare.
FREE_TEXT = frozenset({"product_name"})

Row = dict[str, Any]
Record = Any


class Format(Protocol):
    """How the records of one delivery look."""

    @property
    def header_lines(self) -> int:
        """Return how many lines of a file come before its records."""
        ...

    def render(self, table: pa.Table) -> list[Record]:
        """Return the rows of a table as records."""
        ...

    def decode(self, record: Record) -> Row:
        """Return the contract columns of a record."""
        ...

    def encode(self, record: Record, row: Row) -> Record:
        """Return the record with its contract columns replaced."""
        ...

    def to_bytes(self, records: list[Record]) -> bytes:
        """Return the content of a file, not yet compressed."""
        ...


@dataclass(frozen=True)
class Envelope:
    """What wraps an event: its kind and moment per row, and a source of identifiers."""

    is_update: np.ndarray
    moment: str
    rng: np.random.Generator


@dataclass(frozen=True)
class JsonLines:
    """One JSON object to a line, in an envelope or bare."""

    envelope: Envelope | None = None
    header_lines: int = 0

    def render(self, table: pa.Table) -> list[bytes]:
        """Return the rows as lines; only the parts between the values are shared."""
        data = _json_object({name: _flat(table, name) for name in table.column_names})
        return _to_lines(data if self.envelope is None else _wrap(self.envelope, table, data))

    def decode(self, record: bytes) -> Row:
        """Return the contract columns of a line."""
        document = json.loads(record)
        return document if self.envelope is None else document["data"]

    def encode(self, record: bytes, row: Row) -> bytes:
        """Return the line with its contract columns replaced."""
        document = row if self.envelope is None else json.loads(record) | {"data": row}
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()

    def to_bytes(self, records: list[bytes]) -> bytes:
        """Return the lines, each with its end."""
        return b"\n".join(records) + b"\n"


@dataclass(frozen=True)
class Csv:
    """Comma separated values with a header; an empty field is a null, a quote inside a quoted field is doubled."""

    columns: list[str]
    header_lines: int = 1

    def render(self, table: pa.Table) -> list[bytes]:
        """Return the rows as lines, without the header."""
        parts: list[Part] = []
        for name in self.columns:
            text = _to_text(_flat(table, name)).fill_null("")
            parts += [",", _quote(text) if name in FREE_TEXT else text]
        return _to_lines(parts[1:])

    def decode(self, record: bytes) -> Row:
        """Return the fields of a line."""
        return dict(zip(self.columns, next(csv.reader([record.decode()])), strict=True))

    def encode(self, record: bytes, row: Row) -> bytes:
        """Return a line with the given fields."""
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([row[name] for name in self.columns])
        return line.getvalue().encode()

    def to_bytes(self, records: list[bytes]) -> bytes:
        """Return the header and the lines, each with its end."""
        return b"\n".join([",".join(self.columns).encode(), *records]) + b"\n"


@dataclass(frozen=True)
class ParquetRows:
    """Rows of a Parquet file with typed columns."""

    schema: pa.Schema
    header_lines: int = 0

    def render(self, table: pa.Table) -> list[Row]:
        """Return the rows."""
        return table.to_pylist()

    def decode(self, record: Row) -> Row:
        """Return a copy of the row."""
        return dict(record)

    def encode(self, record: Row, row: Row) -> Row:
        """Return the row."""
        return row

    def to_bytes(self, records: list[Row]) -> bytes:
        """Return a Parquet file."""
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(records, self.schema), sink)
        return sink.getvalue().to_pybytes()


def write_file(path: Path, content: bytes) -> None:
    """Compress as the name says and put the file in place at once, so that no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Hidden as well as named .tmp, because engines that list a folder skip names that begin with a dot.
    unfinished = path.with_name(f".{path.name}.tmp")
    if path.suffix == ".gz":
        unfinished.write_bytes(gzip.compress(content, compresslevel=1, mtime=0))
    elif path.suffix == ".zst":
        with pa.output_stream(str(unfinished), compression="zstd") as stream:
            stream.write(content)
    else:
        unfinished.write_bytes(content)
    unfinished.replace(path)


def _wrap(envelope: Envelope, table: pa.Table, data: list[Part]) -> list[Part]:
    head = {
        "event_id": uuids(envelope.rng, table.num_rows),
        "event_type": pick(("created", "updated"), envelope.is_update.astype(np.int64)),
        "timestamp": _flat(table, envelope.moment),
        "version": pa.repeat(1, table.num_rows),
        "source": pa.repeat("shop", table.num_rows),
        "correlation_id": uuids(envelope.rng, table.num_rows),
    }
    return [*_json_object(head)[:-1], ',"data":', *data, "}"]


def _json_object(columns: dict[str, pa.Array]) -> list[Part]:
    parts: list[Part] = ["{"]
    for name, column in columns.items():
        comma = "," if len(parts) > 1 else ""
        parts += [f'{comma}"{name}":', *_json_value(_escape(column) if name in FREE_TEXT else column)]
    return [*parts, "}"]


def _json_value(column: pa.Array) -> list[Part]:
    """Return the parts that make a JSON value; text that may need escaping is escaped already."""
    text = _to_text(column)
    if not (pa.types.is_string(column.type) or pa.types.is_temporal(column.type)):
        return [text]
    return ['"', text, '"'] if not text.null_count else [join_lines(['"', text, '"']).fill_null("null")]


def _quote(column: pa.Array) -> pa.Array:
    return _change_each(column, lambda text: '"' + text.replace('"', '""') + '"')


def _escape(column: pa.Array) -> pa.Array:
    return _change_each(column, lambda text: json.dumps(text, ensure_ascii=False)[1:-1])


def _change_each(column: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Change each distinct text once; there are few of them."""
    encoded = column.dictionary_encode()
    return pa.array([change(text) for text in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _to_text(column: pa.Array) -> pa.Array:
    return iso_timestamps(column) if pa.types.is_timestamp(column.type) else column.cast(pa.string())


def _flat(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _to_lines(parts: list[Part]) -> list[bytes]:
    return join_lines(parts).cast(pa.binary()).to_pylist()
