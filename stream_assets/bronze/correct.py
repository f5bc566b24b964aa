"""Lands corrected records: rows beside the originals, in one commit that says so in the ledger of their delivery days."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from pyspark.sql import DataFrame, SparkSession

from stream_assets.bronze.land import CHANGED, as_landed, bronze_table, stamp
from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import is_made, read_ledger
from stream_assets.settings import Settings
from stream_assets.sources.corrections import is_correction

_RECEIVED = (
    "_raw string, _raw_bytes binary, _header string, _source string, _position bigint, _delivery_date date, "
    "_ingested_at timestamp"
)


@dataclass(frozen=True)
class Correction:
    """One corrected record, as it is to be read instead of the original."""

    raw: str
    header: str | None
    source: str
    position: int
    delivery_date: date
    event_date: date
    """Day the original belongs to. The correction may be of another one."""


def as_received(spark: SparkSession, corrections: Sequence[Correction]) -> DataFrame:
    """Corrections as a delivery that arrives now."""
    now = datetime.now(UTC)
    rows = [(c.raw, None, c.header, c.source, c.position, c.delivery_date, now) for c in corrections]
    return spark.createDataFrame(rows, _RECEIVED)


def land_corrections(
    spark: SparkSession, settings: Settings, contract: Contract, corrections: Sequence[Correction], *, run_id: str
) -> set[date]:
    """Add corrections that are not there yet. Returns the event days that get or lose a record; none the second time."""
    table = bronze_table(settings, contract)
    token = delta.next_token(table.path, CHANGED)
    present = spark.table(table.qualified).where(is_correction()).select("_source", "_position", "_raw")
    received = as_received(spark, corrections).join(present, ["_source", "_position", "_raw"], "left_anti")
    headers = sorted({c.header for c in corrections if c.header})
    rows = as_landed(stamp(received, contract, headers), table, contract, run_id)
    fresh = rows.select("_delivery_date", "_event_date", "_source", "_position", "_raw").collect()
    if fresh:
        days = sorted({row["_delivery_date"] for row in fresh})
        before = read_ledger(table.path, days)
        entries = {
            day.isoformat(): _entry(before[day.isoformat()], [r for r in fresh if r["_delivery_date"] == day])
            for day in days
        }
        commit = Commit(run_id, contract.name, "bronze", contract.version, entries)
        delta.append_once(table, rows, commit=commit, token=token)
        if not is_made(table.path, commit):  # one of these days was changed meanwhile
            return land_corrections(spark, settings, contract, corrections, run_id=run_id)
    places = {(row["_source"], row["_position"]) for row in fresh}
    originals = {c.event_date for c in corrections if (c.source, c.position) in places}
    return originals | {row["_event_date"] for row in fresh}


def _entry(before: dict, fresh: Sequence) -> dict:
    """The entry of a delivery that got corrections: a mark of all it ever got, so that Silver knows it is stale."""
    told = "\n".join(sorted(f"{r['_source']}:{r['_position']}:{r['_raw']}" for r in fresh))
    mark = hashlib.sha256((before.get("corrections", "") + told).encode()).hexdigest()[:16]
    kept = {key: value for key, value in before.items() if key not in ("run_id", "version")}
    return {**kept, "corrections": mark}
