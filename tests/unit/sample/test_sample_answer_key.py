"""The answer key against an independent reading: every line of every file is judged by the contracts alone.

The judge below shares no code with the generator. It reads the files as any consumer would and must come to exactly
the rejections, duplicates, orphans and totals that the manifest announces.
"""

import csv
import gzip
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import stream_assets

SPECS = Path(stream_assets.__file__).parent / "contracts" / "specs"
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
CONSISTENCY = {
    "discount_within_total": lambda row: row["discount_cents"] <= row["total_cents"],
    "ended_after_start": lambda row: row["ended_on"] is None or row["ended_on"] >= row["started_on"],
}


class MalformedError(Exception):
    """Carries the record rule that a line breaks."""


@dataclass(frozen=True)
class Judged:
    """One physical line, as a correct lake sees it."""

    dataset: str
    file: str
    line: int
    delivery_date: str
    event_date: str
    key: str | None
    version: str | None
    raw: Any
    row: dict[str, Any]
    rules: tuple[str, ...]


@pytest.fixture(scope="session")
def judged(sample) -> list[Judged]:
    """Return every line of the imperfect week."""
    return list(judge_landing(sample.landing))


@pytest.fixture(scope="session")
def clean_judged(clean_sample) -> list[Judged]:
    """Return every line of the clean week."""
    return list(judge_landing(clean_sample.landing))


def judge_landing(landing: Path) -> Iterator[Judged]:
    for spec in sorted(SPECS.glob("*.odcs.yaml")):
        contract = yaml.safe_load(spec.read_text(encoding="utf-8"))
        for path in sorted((landing / contract["name"]).rglob("part-*")):
            for line, raw, parse in read_lines(path, contract):
                yield judge(contract, path.relative_to(landing), line, raw, parse)


def settings_of(contract: dict) -> dict[str, Any]:
    return {item["property"]: item["value"] for item in contract["customProperties"]}


def read_lines(path: Path, contract: dict) -> Iterator[tuple[int, Any, Any]]:
    """Yield (line number, raw record, function that parses it)."""
    if path.suffix == ".parquet":
        for number, row in enumerate(pq.read_table(path).to_pylist(), start=1):
            yield number, row, lambda row: row
        return
    lines = read_bytes(path).removesuffix(b"\n").split(b"\n")
    if ".csv" in path.name:
        header = lines[0].decode().split(",")
        for number, raw in enumerate(lines[1:], start=2):
            yield number, raw, lambda raw: parse_csv(raw, header)
        return
    envelope = bool(settings_of(contract).get("envelope"))
    for number, raw in enumerate(lines, start=1):
        yield number, raw, lambda raw: parse_json(raw, envelope=envelope)


def read_bytes(path: Path) -> bytes:
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".zst":
        return pa.input_stream(str(path), compression="zstd").read()
    return path.read_bytes()


def parse_json(raw: bytes, *, envelope: bool) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError("encoding") from error
    if not text.strip():
        raise MalformedError("empty")
    try:
        document = json.loads(text, parse_float=Decimal, object_pairs_hook=refuse_repeats)
    except json.JSONDecodeError as error:
        raise MalformedError("malformed") from error
    if not isinstance(document, dict):
        raise MalformedError("malformed")
    return document["data"] if envelope else document


def refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise MalformedError("repeated_key")
    return dict(pairs)


def parse_csv(raw: bytes, header: list[str]) -> dict[str, Any]:
    try:
        fields = next(csv.reader(io.StringIO(raw.decode("utf-8"))))
    except UnicodeDecodeError as error:
        raise MalformedError("encoding") from error
    if len(fields) != len(header):
        raise MalformedError("malformed")
    return {name: field or None for name, field in zip(header, fields, strict=True)}


def judge(contract: dict, path: Path, line: int, raw: Any, parse: Any) -> Judged:
    table, settings = contract["schema"][0], settings_of(contract)
    delivery = path.parts[1]
    columns = table["properties"]
    key = next(column["name"] for column in columns if column.get("primaryKey"))
    try:
        row = parse(raw)
    except MalformedError as problem:
        return Judged(
            contract["name"],
            str(path),
            line,
            delivery,
            delivery,
            None,
            None,
            raw,
            {},
            (f"validity__record__{problem}",),
        )
    rules = [rule for column in columns for rule in judge_value(column, row)]
    typed = {column["name"]: convert(column, row.get(column["name"])) for column in columns}
    event_date, window = judge_time(settings, typed, delivery)
    rules += window
    for quality in table.get("quality", []):
        if not breaks_type(columns, row) and not CONSISTENCY[quality["id"]](typed):
            rules.append(f"consistency__record__{quality['id']}")
    version = row.get(settings.get("orderBy"))
    return Judged(
        contract["name"], str(path), line, delivery, event_date, row.get(key), version, raw, row, tuple(sorted(rules))
    )


def judge_value(column: dict, row: dict[str, Any]) -> list[str]:
    name, value = column["name"], row.get(column["name"])
    if value is None:
        return [f"completeness__{name}__required"] if column.get("required") else []
    typed = convert(column, value)
    if typed is None:
        return [f"validity__{name}__type"]
    options = column.get("logicalTypeOptions", {})
    allowed = [rule["arguments"]["validValues"] for rule in column.get("quality", [])]
    broken = {
        "range": typed < options["minimum"] if "minimum" in options else False,
        "allowed": any(typed not in values for values in allowed),
        "length": len(typed) > options["maxLength"] if "maxLength" in options else False,
        "pattern": not re.search(options["pattern"], typed) if "pattern" in options else False,
        "format": not EMAIL.fullmatch(typed) if options.get("format") == "email" else False,
    }
    broken["range"] |= typed > options["maximum"] if "maximum" in options else False
    return [f"validity__{name}__{rule}" for rule, is_broken in broken.items() if is_broken]


def convert(column: dict, value: Any) -> Any:
    """Return the value as the contract types it, or None when it cannot be had exactly."""
    try:
        return CONVERSIONS[column["logicalType"]](value)
    except (ValueError, TypeError, InvalidOperation):
        return None


def to_integer(value: Any) -> int | None:
    number = Decimal(value)
    return int(number) if number == int(number) else None


def to_amount(value: Any) -> Decimal | None:
    number = Decimal(value)
    return number if number == round(number, 2) else None


def to_boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def to_date(value: Any) -> date:
    return value if isinstance(value, date) else date.fromisoformat(value)


CONVERSIONS = {
    "string": lambda value: value,
    "integer": to_integer,
    "number": to_amount,
    "boolean": to_boolean,
    "date": to_date,
    "timestamp": datetime.fromisoformat,
}


def breaks_type(columns: list[dict], row: dict[str, Any]) -> bool:
    """Tell whether a required value is missing or unreadable, so that comparing columns says nothing."""
    return any(convert(c, row.get(c["name"])) is None for c in columns if c.get("required"))


def judge_time(settings: dict, typed: dict[str, Any], delivery: str) -> tuple[str, list[str]]:
    name = settings.get("eventTime")
    moment = typed[name] if name else None
    if moment is None:
        return delivery, []
    arrived = date.fromisoformat(delivery)
    earliest = arrived - timedelta(days=settings["maxLateness"])
    if earliest <= moment.date() <= arrived + timedelta(days=1):
        return moment.date().isoformat(), []
    return delivery, [f"validity__{name}__window"]


def test_every_rejection_is_announced(sample, judged) -> None:
    """The lines that break rules are those of the manifest, with exactly the rules it names, and no others."""
    announced = {(f.file, f.line): f.expect["quarantine"] for f in sample.manifest.faults if "quarantine" in f.expect}
    assert {(j.file, j.line): list(j.rules) for j in judged if j.rules} == announced


def test_faults_point_at_their_line(sample, judged) -> None:
    """Key, delivery day and event day of a fault are those of the line it names; a record holds at most one fault."""
    by_place = {(j.file, j.line): j for j in judged}
    faults = [fault for fault in sample.manifest.faults if fault.line is not None]
    assert len({(fault.file, fault.line) for fault in faults}) == len(faults)
    for fault in faults:
        found = by_place[fault.file, fault.line]
        readable = [fault.key] if fault.key is not None or fault.column is None else [None, fault.key]
        assert found.key in readable, fault
        assert (found.dataset, found.delivery_date, found.event_date) == (
            fault.dataset,
            fault.delivery_date,
            fault.event_date,
        ), fault


def test_totals_reconcile(sample, judged) -> None:
    """Counting by key gives the totals of the manifest: rows in = accepted + quarantined + duplicates."""
    assert count_totals(judged) == {name: dict(days) for name, days in totals_of(sample.manifest).items()}
    for days in totals_of(sample.manifest).values():
        for day in days.values():
            assert day["rows_in"] == day["accepted"] + day["quarantined"] + day["duplicates"]
    assert sum(day["rows_in"] for days in totals_of(sample.manifest).values() for day in days.values()) == len(judged)


def totals_of(manifest) -> dict[str, dict[str, dict[str, int]]]:
    return {name: {day: asdict(totals) for day, totals in days.items()} for name, days in manifest.totals.items()}


def count_totals(judged: list[Judged]) -> dict[str, dict[str, dict[str, int]]]:
    rows: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for found in judged:
        rows[found.dataset, found.event_date].append(found)
    totals: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for (dataset, day), group in rows.items():
        good = [found for found in group if not found.rules]
        # Each change of a customer is kept; of an event only the last version is.
        kept = {(found.key, found.version if dataset == "customers" else None) for found in good}
        counts = {"rows_in": len(group), "accepted": len(kept), "quarantined": len(group) - len(good)}
        totals[dataset][day] = counts | {"duplicates": len(good) - len(kept)}
    return dict(totals)


def test_repeats_are_exact(sample, judged) -> None:
    """A duplicate of the manifest is byte for byte a record that is also delivered elsewhere."""
    copies = Counter((j.dataset, j.raw) for j in judged if isinstance(j.raw, bytes))
    by_place = {(j.file, j.line): j for j in judged}
    repeats = [fault for fault in sample.manifest.faults if "duplicate" in fault.expect]
    assert {fault.fault for fault in repeats} == {"repeated_in_delivery", "repeated_in_next_delivery"}
    for fault in repeats:
        assert copies[fault.dataset, by_place[fault.file, fault.line].raw] == 2, fault


def test_orphans_are_announced(sample, judged) -> None:
    """Keys that lead nowhere, judged by what was accepted up to that delivery, are those of the manifest."""
    announced = {(f.file, f.line) for f in sample.manifest.faults if f.expect == {"check": "orphan"}}
    first_seen: dict[tuple[str, str | None], str] = {}
    for found in sorted(judged, key=lambda found: found.delivery_date):
        if not found.rules:
            first_seen.setdefault((found.dataset, found.key), found.delivery_date)
    links = {
        (spec.name.removesuffix(".odcs.yaml"), column["name"]): link["to"].split(".")[0]
        for spec in SPECS.glob("*.odcs.yaml")
        for column in yaml.safe_load(spec.read_text(encoding="utf-8"))["schema"][0]["properties"]
        for link in column.get("relationships", [])
    }
    orphans = {
        (found.file, found.line)
        for found in judged
        for (dataset, column), target in links.items()
        if found.dataset == dataset and not found.rules and found.row.get(column) is not None
        if first_seen.get((target, found.row[column]), "9999") > found.delivery_date
    }
    assert orphans == announced


def test_drift_is_where_the_manifest_says(sample, judged) -> None:
    """On one day all orders carry a new column, on another none carries the note."""
    drift = {f.expect["drift"]: f for f in sample.manifest.faults if "drift" in f.expect}
    rows = defaultdict(list)
    for found in judged:
        if found.dataset == "orders" and found.row:
            rows[found.delivery_date].append(found.row)
    with_tier = {day for day, found in rows.items() if any("loyalty_tier" in row for row in found)}
    without_note = {day for day, found in rows.items() if not any("note" in row for row in found)}
    assert with_tier == {drift["new_column"].delivery_date}
    assert without_note == {drift["missing_column"].delivery_date}
    assert all("loyalty_tier" in row for row in rows[drift["new_column"].delivery_date])


def test_every_fault_of_the_catalogue_occurs(sample) -> None:
    """A week shows everything that can go wrong, so that a small sample tests as much as a large one."""
    kinds = Counter((fault.dataset, fault.fault) for fault in sample.manifest.faults)
    per_dataset = Counter(dataset for dataset, _ in kinds)
    assert per_dataset == {
        "orders": 35,
        "order_items": 17,
        "payments": 22,
        "web_events": 19,
        "customers": 18,
        "stores": 9,
        "campaigns": 4,
    }


def test_nothing_is_late_by_more_than_three_days(judged, arguments) -> None:
    """Readable event times lie up to three days before the delivery, never after it nor before the first day."""
    first = (arguments["end"] - timedelta(days=arguments["days"] - 1)).isoformat()
    good = [found for found in judged if not found.rules]
    delays = Counter(
        (date.fromisoformat(found.delivery_date) - date.fromisoformat(found.event_date)).days for found in good
    )
    assert set(delays) == {0, 1, 2, 3}
    assert min(found.event_date for found in good) == first


def test_without_faults_nothing_is_rejected(clean_sample, clean_judged) -> None:
    """A clean sample breaks no rule; its only duplicates are superseded versions."""
    assert clean_sample.manifest.faults == ()
    assert [found for found in clean_judged if found.rules] == []
    assert count_totals(clean_judged) == totals_of(clean_sample.manifest)
    assert sum(day["duplicates"] for day in totals_of(clean_sample.manifest)["orders"].values()) > 0


def test_canaries_are_in_the_data(sample) -> None:
    """Every canary occurs in some file, so that finding none elsewhere means something."""
    everything = b"".join(read_bytes(path) for path in sample.landing.rglob("part-*") if path.suffix != ".parquet")
    canaries = sample.manifest.pii_canaries
    assert len(canaries) == len(set(canaries)) > 20
    assert [canary for canary in canaries if canary.encode() not in everything] == []
