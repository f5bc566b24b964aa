"""Silver by other means: plain Python reads the landing files, Polars removes duplicates and dates versions.

Nothing of the product is used but the contracts, and these as plain YAML. Where both agree row by row, an error would
have to be made twice, in two languages.
"""

import csv
import gzip
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

Row = dict[str, Any]

ENVELOPE = [
    {"name": "event_id", "logicalType": "string", "required": True},
    {"name": "event_type", "logicalType": "string", "required": True},
    {"name": "event_timestamp", "logicalType": "timestamp", "required": True, "physicalName": "timestamp"},
    {"name": "event_version", "logicalType": "integer", "required": True, "physicalName": "version"},
    {"name": "event_source", "logicalType": "string", "required": True, "physicalName": "source"},
    {"name": "correlation_id", "logicalType": "string"},
]
EXPRESSIONS: dict[str, Callable[[Row], bool]] = {
    "discount_within_total": lambda row: row["discount_cents"] <= row["total_cents"],
    "ended_after_start": lambda row: row["ended_on"] is None or row["ended_on"] >= row["started_on"],
}
EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+")


class UnreadableError(Exception):
    """A line that is no record."""


@dataclass(frozen=True)
class Law:
    """What a contract file says, as far as Silver is concerned."""

    name: str
    version: str
    columns: list[Row]
    expressions: list[str]
    custom: Row

    @property
    def record(self) -> list[Row]:
        return (ENVELOPE if self.custom.get("envelope") else []) + self.columns

    @property
    def key(self) -> str:
        return next(column["name"] for column in self.columns if column.get("primaryKey"))


def read_law(file: Path) -> Law:
    made = yaml.safe_load(file.read_text(encoding="utf-8"))
    custom = {item["property"]: item["value"] for item in made["customProperties"]}
    table = made["schema"][0]
    return Law(made["name"], made["version"], table["properties"], [q["id"] for q in table.get("quality", [])], custom)


def silver(law: Law, landing: Path, salt: str) -> list[Row]:
    """The rows Silver must hold."""
    accepted = [row for row in _typed_rows(law, landing) if row is not None]
    kept = {"event": _latest, "entity": _timeline, "reference": _last_delivery}[law.custom["datasetKind"]](
        law, accepted
    )
    return [_protect(law, row, salt) for row in kept]


def _typed_rows(law: Law, landing: Path) -> Iterator[Row | None]:
    for file in sorted((landing / law.name).rglob("part-*")):
        delivered = date.fromisoformat(file.parent.name)
        for position, read in _lines(law, file):
            trace = {
                "_source": str(file.relative_to(landing)),
                "_position": position,
                "_delivery_date": delivered,
                "_contract_version": law.version,
            }
            try:
                row = _typed(law, read(), delivered)
            except (UnreadableError, ValueError, InvalidOperation):
                yield None
            else:
                yield row and row | trace


def _lines(law: Law, file: Path) -> Iterator[tuple[int, Callable[[], Row]]]:
    """(position, function that reads the record)."""
    if file.suffix == ".parquet":
        for position, row in enumerate(pq.read_table(file).to_pylist(), start=1):
            yield position, lambda row=row: row
        return
    lines = _content(file).removesuffix(b"\n").split(b"\n")
    if ".csv" in file.name:
        header = lines[0].decode().split(",")
        yield from ((n, lambda line=line: _csv_record(line, header)) for n, line in enumerate(lines[1:], start=2))
    else:
        wrapped = bool(law.custom.get("envelope"))
        yield from ((n, lambda line=line: _json_record(line, wrapped)) for n, line in enumerate(lines, start=1))


def _content(file: Path) -> bytes:
    if file.suffix == ".gz":
        return gzip.decompress(file.read_bytes())
    return pa.input_stream(str(file), compression="zstd" if file.suffix == ".zst" else None).read()


def _csv_record(line: bytes, header: list[str]) -> Row:
    values = next(csv.reader(io.StringIO(line.decode())), [])
    if len(values) != len(header):
        raise UnreadableError
    return {name: value or None for name, value in zip(header, values, strict=True)}


def _json_record(line: bytes, wrapped: bool) -> Row:
    document = json.loads(line.decode(), parse_float=Decimal, object_pairs_hook=_without_repeats)
    if not isinstance(document, dict):
        raise UnreadableError
    return document | document.pop("data") if wrapped else document


def _without_repeats(pairs: list[tuple[str, Any]]) -> Row:
    if len(dict(pairs)) < len(pairs):
        raise UnreadableError
    return dict(pairs)


def _typed(law: Law, record: Row, delivered: date) -> Row | None:
    """The record with its values typed and its event day, or None if it breaks a promise."""
    row = {
        column["name"]: _value(column, record.get(column.get("physicalName", column["name"]))) for column in law.record
    }
    if any(not EXPRESSIONS[name](row) for name in law.expressions):
        return None
    time = law.custom.get("eventTime")
    day = row[time].astimezone(UTC).date() if time else delivered
    if time and not delivered - timedelta(days=law.custom["maxLateness"]) <= day <= delivered + timedelta(days=1):
        return None
    return row | {"_event_date": day if law.custom["datasetKind"] == "event" else delivered}


def _value(column: Row, value: Any) -> Any:
    if value is None:
        if column.get("required") or column.get("primaryKey"):
            raise UnreadableError
        return None
    typed = TYPES[column["logicalType"]](value)
    options = column.get("logicalTypeOptions", {})
    allowed = [rule["arguments"]["validValues"] for rule in column.get("quality", [])]
    sound = (
        all(typed in values for values in allowed)
        and ("minimum" not in options or typed >= options["minimum"])
        and ("maximum" not in options or typed <= options["maximum"])
        and ("maxLength" not in options or len(typed) <= options["maxLength"])
        and ("pattern" not in options or re.search(options["pattern"], typed))
        and (options.get("format") != "email" or EMAIL.fullmatch(typed))
    )
    if not sound:
        raise UnreadableError
    return typed


def _integer(value: Any) -> int:
    number = Decimal(value)
    if number != int(number):
        raise UnreadableError
    return int(number)


def _amount(value: Any) -> Decimal:
    number = Decimal(value)
    if number != round(number, 2):
        raise UnreadableError
    return round(number, 2)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UnreadableError
    return value


TYPES: dict[str, Callable[[Any], Any]] = {
    "string": str,
    "integer": _integer,
    "number": _amount,
    "boolean": _boolean,
    "date": lambda value: value if isinstance(value, date) else date.fromisoformat(value),
    "timestamp": lambda value: datetime.fromisoformat(value).astimezone(UTC),
}


def _frame(rows: list[Row]) -> pl.DataFrame:
    """Only what decides, and the place of the row in the list."""
    return pl.DataFrame(rows, infer_schema_length=None).with_row_index("place")


LAST = ["_delivery_date", "_source", "_position"]


def _latest(law: Law, rows: list[Row]) -> list[Row]:
    """The last version of each key on each event day."""
    order = [law.custom["orderBy"], *LAST]
    decisive = [{name: row[name] for name in {law.key, "_event_date", *order}} for row in rows]
    kept = _frame(decisive).sort(order).unique([law.key, "_event_date"], keep="last", maintain_order=True)
    return [rows[place] for place in kept["place"]]


def _timeline(law: Law, rows: list[Row]) -> list[Row]:
    """Every version of each key once, each valid until the next."""
    moment = law.custom["orderBy"]
    decisive = [{name: row[name] for name in {law.key, moment, *LAST}} for row in rows]
    versions = _frame(decisive).sort([moment, *LAST]).unique([law.key, moment], keep="last", maintain_order=True)
    dated = versions.with_columns(pl.col(moment).shift(-1).over(law.key, order_by=moment).alias("next"))
    return [
        rows[place] | {"valid_from": start, "valid_to": end, "is_current": end is None}
        for place, start, end in dated.select("place", moment, "next").iter_rows()
    ]


def _last_delivery(law: Law, rows: list[Row]) -> list[Row]:
    """What the newest delivery says, each key once."""
    newest = max(row["_delivery_date"] for row in rows)
    return list({row[law.key]: row for row in rows if row["_delivery_date"] == newest}.values())


def _protect(law: Law, row: Row, salt: str) -> Row:
    """Personal data as the contract wants it."""
    made = dict(row)
    for column in law.record:
        name = column["name"]
        strategy = next(
            (i["value"]["strategy"] for i in column.get("customProperties", []) if i["property"] == "pii"), None
        )
        if strategy == "drop":
            del made[name]
        elif strategy == "hash" and row[name] is not None:
            made[name] = hashlib.sha256((salt + row[name]).encode()).hexdigest()
        elif strategy == "mask" and row[name] is not None:
            made[name] = " ".join(word[:1] + "*" * (len(word) - 1) for word in row[name].split(" "))
    return made
