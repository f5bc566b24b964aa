"""Reads quarantine without Spark, and shows a record without its personal data.

A field is shown if the contract has it and does not call it personal. Everything else is a mask: what the contract does
not know may be anybody's. An export keeps the masks, and an edited one gets the hidden values back from the original.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from stream_assets.contracts.model import Contract
from stream_assets.settings import Settings
from stream_assets.sources.files import header_names

MASK = "***"
_COLUMNS = ("_raw", "_violations", "_source", "_position", "_delivery_date", "_event_date", "_quarantined_at",
            "_contract_version", "_run_id", "_resolved_at", "_resolution")  # fmt: skip


@dataclass(frozen=True)
class Rejected:
    """One row of quarantine."""

    dataset: str
    source: str
    position: int
    delivery_date: date
    event_date: date
    violations: tuple[str, ...]
    contract_version: str
    quarantined_at: datetime | None
    resolved_at: datetime | None
    resolution: str | None
    raw: str | None


@dataclass(frozen=True)
class Filter:
    """Which rows to look at."""

    rule: str | None = None
    first: date | None = None
    last: date | None = None
    with_resolved: bool = False

    def takes(self, row: Rejected) -> bool:
        """Whether a row is wanted."""
        return (
            (not self.rule or self.rule in row.violations)
            and (not self.first or row.event_date >= self.first)
            and (not self.last or row.event_date <= self.last)
            and (self.with_resolved or row.resolved_at is None)
        )


def read_rejected(settings: Settings, dataset: str, wanted: Filter, *, payload: bool = True) -> Iterator[Rejected]:
    """The wanted rows of quarantine, in the order they were delivered."""
    try:
        table = DeltaTable(settings.table_path("quarantine", dataset))
    except TableNotFoundError:
        return
    names = {field.name for field in table.schema().fields}
    columns = [name for name in _COLUMNS if name in names and (payload or name != "_raw")]
    found = table.to_pyarrow_dataset().to_table(columns=columns, filter=_days(wanted)).to_pylist()
    for row in sorted(found, key=lambda r: (r["_event_date"], r["_source"], r["_position"])):
        rejected = Rejected(
            dataset,
            row["_source"],
            row["_position"],
            row["_delivery_date"],
            row["_event_date"],
            tuple(row["_violations"] or ()),
            row["_contract_version"],
            row.get("_quarantined_at"),
            row.get("_resolved_at"),
            row.get("_resolution"),
            row.get("_raw"),
        )
        if wanted.takes(rejected):
            yield rejected


def _days(wanted: Filter) -> pc.Expression | None:
    parts = []
    if wanted.first:
        parts.append(pc.field("_event_date") >= pc.scalar(wanted.first))
    if wanted.last:
        parts.append(pc.field("_event_date") <= pc.scalar(wanted.last))
    return parts[0] & parts[1] if len(parts) == 2 else parts[0] if parts else None


def read_headers(settings: Settings, contract: Contract) -> dict[str, str]:
    """The header of each CSV file that Bronze holds, by source."""
    if "csv" not in contract.formats:
        return {}
    table = DeltaTable(settings.table_path("bronze", contract.name)).to_pyarrow_dataset()
    rows = table.to_table(columns=["_source", "_header"]).group_by(["_source", "_header"]).aggregate([]).to_pylist()
    return {row["_source"]: row["_header"] for row in rows if row["_header"]}


def parse(raw: str | None, header: str | None = None) -> dict[str, Any] | None:
    """A record as its fields, a line of CSV if its file has a header; None if it cannot be read."""
    if header:
        names, values = header_names(header), next(csv.reader([raw or ""]), [])
        return dict(zip(names, values, strict=True)) if len(names) == len(values) else None
    try:
        record = json.loads((raw or "").removeprefix("\ufeff"))
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def render(record: Mapping[str, Any], header: str | None) -> str:
    """Fields as a record of the format it came in."""
    if not header:
        return json.dumps(record, ensure_ascii=False)
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([record.get(name, "") for name in header_names(header)])
    return line.getvalue()


def mask(record: Mapping[str, Any], contract: Contract) -> dict[str, Any]:
    """A record that can be shown."""
    own = _shown(contract, inside=True)
    if not contract.envelope:
        return _masked(record, own)
    outer = _masked({k: v for k, v in record.items() if k != "data"}, _shown(contract, inside=False))
    data = record.get("data")
    return {**outer, "data": _masked(data, own) if isinstance(data, Mapping) else _hide(data)}


def unmask(edited: Mapping[str, Any], original: Mapping[str, Any] | None) -> dict[str, Any]:
    """An edited record with its masks replaced by what they hide."""
    before = original or {}
    return {
        key: unmask(value, before.get(key) if isinstance(before.get(key), Mapping) else None)
        if isinstance(value, Mapping)
        else before.get(key)
        if value == MASK
        else value
        for key, value in edited.items()
    }


def _shown(contract: Contract, *, inside: bool) -> set[str]:
    columns = contract.columns if inside else [c for c in contract.record if c not in contract.columns]
    return {column.source for column in columns if not column.pii}


def _masked(record: Mapping[str, Any], shown: set[str]) -> dict[str, Any]:
    return {key: value if key in shown else _hide(value) for key, value in record.items()}


def _hide(value: Any) -> Any:
    return None if value is None else MASK
