"""Erases a person: rows, their past, and proof. The certificate comes first, as a tombstone, so that nothing brings them back."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.engine.history import WHOLE, History, read_history
from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import as_written, read_ledger
from stream_assets.engine.restore import note, replace
from stream_assets.engine.session import tables_in
from stream_assets.errors import StreamError
from stream_assets.ops.erase.find import PLACE, Subject, by_columns, by_text, in_bronze, in_quarantine, personal_values
from stream_assets.ops.erase.purge import purge
from stream_assets.ops.erase.scan import scan
from stream_assets.ops.erase.streams import forget_state, refuse_streams, working_files
from stream_assets.ops.erase.topics import OnTopic, end_messages, find_messages, remaining
from stream_assets.settings import Settings
from stream_assets.silver.resolve import OPEN
from stream_assets.sources.corrections import is_correction
from stream_assets.sources.erasures import holders, subject_hash, write_certificate

COUNTS = ("rows_in", "accepted", "quarantined", "duplicates")


@dataclass(frozen=True)
class Found:
    """Rows of a person in one table."""

    layer: str
    name: str
    history: History
    marked: DataFrame
    """The table with `_is_theirs`."""
    parts: Mapping[str, int]
    """Partition → their rows in it."""

    @property
    def rows(self) -> int:
        """Their rows in all."""
        return sum(self.parts.values())


@dataclass
class Trace:
    """Everything that is known of a person."""

    subject: Subject
    tables: list[Found] = field(default_factory=list)
    values: set[str] = field(default_factory=set)
    """What their records say of them. Never written anywhere."""
    landing: dict[str, int] = field(default_factory=dict)
    topics: list[OnTopic] = field(default_factory=list)


def trace(spark: SparkSession, settings: Settings, contracts: Mapping[str, Contract], subject: Subject) -> Trace:
    """Find a person in every layer. Reads everything, writes nothing."""
    if "://" in settings.lake:
        raise StreamError(
            "Erasure looks through files on disk: it needs a lake on a file system, not in an object store."
        )
    found = Trace(subject)
    names = {c.name for contract in contracts.values() for c in holders(contract, subject.column)} | {subject.column}
    for contract in contracts.values():
        if holders(contract, subject.column):
            found.tables += _trace_dataset(spark, settings, contract, found)
    for layer, make in {"gold": by_columns, "live": by_text}.items():
        for name in tables_in(settings, layer):
            rows = spark.read.format("delta").load(settings.table_path(layer, name))
            found.tables += _found(settings, layer, name, make(rows, names, subject))
    found.landing = scan([Path(settings.landing)], [subject.value])
    return found


def _trace_dataset(spark: SparkSession, settings: Settings, contract: Contract, found: Trace) -> Iterator[Found]:
    if not delta.exists(spark, f"bronze.{contract.name}"):
        return
    subject = found.subject
    bronze = in_bronze(spark, contract, subject)
    theirs = bronze.where("_is_theirs")
    found.values |= personal_values(theirs, contract, subject)
    found.topics += find_messages(settings, contract, bronze)
    places = spark.createDataFrame(
        [tuple(r) for r in theirs.select(*PLACE).collect()], "_source string, _position bigint"
    )
    for layer, make in {
        "quarantine": lambda rows: in_quarantine(rows, places, subject),
        "silver": lambda rows: by_columns(rows, [c.name for c in holders(contract, subject.column)], subject),
    }.items():
        if delta.exists(spark, f"{layer}.{contract.name}"):
            yield from _found(settings, layer, contract.name, make(spark.table(f"`{layer}`.`{contract.name}`")))
    if contract.name in tables_in(settings, "audit"):
        audit = spark.read.format("delta").load(settings.table_path("audit", contract.name))
        yield from _found(settings, "audit", contract.name, in_quarantine(audit, places, subject))
    yield from _found(settings, "bronze", contract.name, bronze.drop("_record"))


def _found(settings: Settings, layer: str, name: str, marked: DataFrame) -> list[Found]:
    history = read_history(settings.table_path(layer, name))
    if history is None:
        return []
    part = F.col(history.partition_by).cast("string") if history.partition_by else F.lit(WHOLE)
    counted = marked.where("_is_theirs").groupBy(part.alias("part")).count().collect()
    parts = {row["part"]: row["count"] for row in counted}
    return [Found(layer, name, history, marked, parts)] if parts else []


def erase(
    spark: SparkSession,
    settings: Settings,
    contracts: Mapping[str, Contract],
    found: Trace,
    *,
    reason: str,
    tombstones: bool = False,
) -> dict[str, Any]:
    """Remove everything found, its past, and prove it. Returns the certificate. Doing it again finishes what was interrupted.

    With `tombstones`, messages without a value end theirs on compacted topics.
    """
    refuse_streams(settings)
    certificate = _begin(settings, found, reason)
    write_certificate(settings, certificate)
    ended = end_messages(settings, found.topics) if tombstones else {}
    certificate["streams_reset"] = forget_state(settings, contracts, found.subject)
    for table in found.tables:
        kept = table.marked.where(~F.col("_is_theirs")).drop("_is_theirs")
        if table.history.partition_by:
            kept = kept.where(F.col(table.history.partition_by).cast("string").isin(*table.parts))
        version = contracts[table.name].version if table.name in contracts else ""
        replace(table.history, kept, table.parts, Commit(certificate["id"], table.name, table.layer, version))
    for contract in contracts.values():
        if holders(contract, found.subject.column):
            settle_ledger(spark, settings, contract, certificate["id"])
    paths = {settings.table_path(layer, name) for layer, name in _places(settings, contracts, found)}
    certificate["old_files_removed"] = sum(purge(path, found.subject.forms) for path in sorted(paths))
    certificate |= _verify(settings, found)
    certificate["remains"] += [*remaining(found.topics, ended), *working_files(settings, certificate["streams_reset"])]
    certificate["finished_at"] = datetime.now(UTC).isoformat(timespec="seconds")
    certificate["place"] = write_certificate(settings, certificate)
    return certificate


def settle_ledger(spark: SparkSession, settings: Settings, contract: Contract, run_id: str) -> None:
    """Make the ledger say what the tables now hold, so that accounts add up. Held days have rows of another time: left alone."""
    name = contract.name
    if not delta.exists(spark, f"silver.{name}"):
        return
    bronze, silver = spark.table(f"`bronze`.`{name}`"), spark.table(f"`silver`.`{name}`")
    landed, by_delivery = _count(bronze, "_event_date"), _count(bronze.where(~is_correction()), "_delivery_date")
    kept, aside = (
        _count(silver, "_event_date"),
        _count(spark.table(f"`quarantine`.`{name}`").where(OPEN), "_event_date"),
    )
    entries = read_ledger(settings.table_path("silver", name))
    changed = {
        day: after
        for day, entry in entries.items()
        if "held" not in entry
        and (after := _settled(entry, contract, landed.get(day, 0), kept.get(day, 0), aside.get(day, 0))) != entry
    }
    if changed:
        note(
            spark,
            settings.table_path("silver", name),
            Commit(run_id, name, "silver", contract.version, as_written(changed)),
        )
    deliveries = read_ledger(settings.table_path("bronze", name))
    erased = {
        day: {**entry, "erased": entry["rows_in"] - by_delivery.get(day, 0)}
        for day, entry in deliveries.items()
        if entry["rows_in"] - by_delivery.get(day, 0) != entry.get("erased", 0)
    }
    if erased:
        note(
            spark,
            settings.table_path("bronze", name),
            Commit(run_id, name, "bronze", contract.version, as_written(erased)),
        )


def _settled(entry: Mapping[str, Any], contract: Contract, landed: int, kept: int, aside: int) -> dict[str, Any]:
    """An entry whose counts are those of the tables. Of reference data Silver holds only the latest delivery."""
    lost = entry["rows_in"] - landed
    if lost <= 0:  # as it was, or more has landed since: the day is refined again anyway
        return dict(entry)
    accepted = landed - aside - entry["duplicates"] if contract.kind == "reference" else kept
    counts = dict(zip(COUNTS, (landed, accepted, aside, landed - accepted - aside), strict=True))
    return {**entry, **counts, "erased": entry.get("erased", 0) + lost}


def _count(rows: DataFrame, by: str) -> dict[str, int]:
    return {str(row[by]): row["count"] for row in rows.groupBy(by).count().collect()}


def _places(settings: Settings, contracts: Mapping[str, Contract], found: Trace) -> Iterable[tuple[str, str]]:
    """Every table that may ever have held the person: also those whose rows an earlier attempt removed."""
    for contract in contracts.values():
        if holders(contract, found.subject.column):
            yield from (
                (n, contract.name)
                for n in ("bronze", "silver", "quarantine", "audit")
                if contract.name in tables_in(settings, n)
            )
    for layer in ("gold", "live"):
        yield from ((layer, name) for name in tables_in(settings, layer))


def _begin(settings: Settings, found: Trace, reason: str) -> dict[str, Any]:
    subject = found.subject
    return {
        "id": f"erasure-{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid4().hex[:6]}",
        "subject": {"column": subject.column, "hash": subject_hash(settings, subject.column, subject.value)},
        "by": getpass.getuser(),
        "reason": reason,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "finished_at": None,
        "removed": removed(found),
        "verified": False,
    }


def removed(found: Trace) -> dict[str, dict[str, Any]]:
    """What there is to remove, per table."""
    return {
        f"{t.layer}/{t.name}": {"rows": t.rows, "days": sorted(day for day in t.parts if day != WHOLE)}
        for t in found.tables
    }


def _verify(settings: Settings, found: Trace) -> dict[str, Any]:
    """Look through every file. The key must be nowhere; other values may be somebody else's as well."""
    landing = Path(settings.landing).resolve()
    roots = [Path(settings.lake), settings.home, Path(settings.checkpoints), landing]
    keys = scan(roots, found.subject.forms)
    shared = scan(roots, sorted(found.values)) if found.values else {}
    in_landing = sorted(f for f in {*keys, *shared} if Path(f).resolve().is_relative_to(landing))
    left = sorted(f for f in keys if f not in in_landing)
    remains = [
        {
            "files": in_landing,
            "reason": "deliveries as received, kept by the landing zone's own retention; landing drops these records",
        },
        {"files": left, "reason": "the key is still there: look at these files"},
        {
            "files": sorted(f for f in shared if f not in in_landing and f not in left),
            "reason": "a value other records share",
        },
    ]
    return {"verified": not left, "remains": [part for part in remains if part["files"]]}
