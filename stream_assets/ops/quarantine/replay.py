"""Takes rejected records out to be edited, and brings edited ones back as corrections."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from stream_assets.bronze.correct import Correction
from stream_assets.contracts.model import Contract
from stream_assets.errors import StreamError
from stream_assets.ops.quarantine.records import MASK, Rejected, mask, parse, render, unmask
from stream_assets.sources.corrections import correction_source


def export_lines(
    rows: Iterable[Rejected], contract: Contract, headers: Mapping[str, str], *, reveal: bool
) -> Iterable[str]:
    """One JSON line per rejected record: where it is, what it broke, and its fields to be edited under `record`."""
    export = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid4().hex[:6]}"
    for row in rows:
        record = parse(row.raw, headers.get(row.source))
        shown = record if reveal or record is None else mask(record, contract)
        line = {
            "export": export,
            "dataset": row.dataset,
            "source": row.source,
            "position": row.position,
            "delivery_date": row.delivery_date.isoformat(),
            "event_date": row.event_date.isoformat(),
            "violations": list(row.violations),
            "record": shown,
        }
        # A record that cannot be read can only be shown whole, with whatever personal data is in it.
        yield json.dumps(line | ({"raw": row.raw} if reveal and record is None else {}), ensure_ascii=False)


def read_corrections(
    file: Path, contract: Contract, rows: Iterable[Rejected], headers: Mapping[str, str]
) -> list[Correction]:
    """The records of an edited export that differ from what was received, each in place of its original."""
    originals = {(row.source, row.position): row for row in rows}
    found = (_read_line(text, file, number) for number, text in enumerate(file.read_text("utf-8").splitlines(), 1))
    corrections = (_correction(line, contract, originals, headers) for line in found if line)
    return [correction for correction in corrections if correction]


def _read_line(text: str, file: Path, number: int) -> dict[str, Any] | None:
    if not text.strip():
        return None
    try:
        line = json.loads(text)
        date.fromisoformat(line["delivery_date"])
        return line if {"export", "source", "position", "record"} <= line.keys() else _refuse(file, number)
    except (ValueError, KeyError, TypeError):
        return _refuse(file, number)


def _refuse(file: Path, number: int) -> None:
    raise StreamError(
        f"Line {number} of {file} is not one of an export. Edit only what is under `record`: see `stream quarantine export`."
    )


def _correction(
    line: Mapping[str, Any],
    contract: Contract,
    originals: Mapping[tuple[str, int], Rejected],
    headers: Mapping[str, str],
) -> Correction | None:
    place = line["source"], line["position"]
    if line["record"] is None:
        return None
    if place not in originals:
        raise StreamError(f"Quarantine of {contract.name} has no record at {place[0]}:{place[1]}. Export it again.")
    original = originals[place]
    header = headers.get(original.source)
    received = parse(original.raw, header)
    record = unmask(line["record"], received)
    if record == received:
        return None
    if received is None and MASK in json.dumps(line["record"]):
        raise StreamError(f"{place[0]}:{place[1]} could not be read, so nothing can stand behind a mask in it.")
    source = correction_source(line["export"], original.source, original.raw or "")
    text = render(record, header)
    return Correction(text, header, source, original.position, original.delivery_date, original.event_date)
