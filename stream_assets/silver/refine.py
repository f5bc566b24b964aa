"""Refines a range of days: reads Bronze, conforms, counts, and replaces those days in quarantine and Silver.

The rows are conformed once and kept while they are counted and written, so that each commit can carry its own exact
counts and a gate can refuse a partition before any reader sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.engine.ledger import Commit, read_days
from stream_assets.errors import LakeError
from stream_assets.settings import Settings
from stream_assets.silver.conform import accepted, conform, count_days, count_violations, rejected
from stream_assets.silver.publish import quarantine_table, silver_table, timeline

REFINE_VERSION = 1
"""Raise when refining computes something else from the same Bronze: every partition is then stale."""
ROWS_PER_FILE = 2_000_000


@dataclass(frozen=True)
class Refinement:
    """What refining a range of days did, per ISO day."""

    days: dict[str, dict[str, Any]] = field(default_factory=dict)
    refined: tuple[date, ...] = ()
    """Days written by this run; the others were up to date."""


def refine(spark: SparkSession, settings: Settings, contract: Contract, days: Sequence[date], *, run_id: str, salt: str) -> Refinement:
    """Bring Silver and quarantine of these days up to date with Bronze."""
    silver, quarantine = silver_table(settings, contract), quarantine_table(settings, contract)
    delta.ensure(spark, silver)
    delta.ensure(spark, quarantine)
    if not delta.exists(spark, f"bronze.{contract.name}"):
        return Refinement()
    inputs = _inputs(spark, contract, days)
    before = read_days(spark, silver.qualified, days)
    stale = [day for day in days if before.get(day.isoformat(), {}).get("inputs") != inputs[day.isoformat()]]
    written = _refine_stale(spark, settings, contract, stale, inputs, run_id, salt) if stale else {}
    return Refinement({day.isoformat(): written.get(day.isoformat()) or before[day.isoformat()] for day in days}, tuple(stale))


def _inputs(spark: SparkSession, contract: Contract, days: Sequence[date]) -> dict[str, str]:
    """What each day is computed from: the contract, this code, and the deliveries that may hold records of it."""
    reach = timedelta(days=contract.max_lateness if contract.kind == "event" else 0)
    early = timedelta(days=1 if contract.kind == "event" else 0)
    span = [min(days) - early + timedelta(days=n) for n in range((max(days) + reach - min(days) + early).days + 1)]
    deliveries = read_days(spark, f"`bronze`.`{contract.name}`", span)

    def of(day: date) -> str:
        seen = [f"{d}={deliveries[d.isoformat()]['files']}" for d in span if day - early <= d <= day + reach and d.isoformat() in deliveries]
        return f"{REFINE_VERSION}:{contract.fingerprint}:{','.join(seen)}"

    return {day.isoformat(): of(day) for day in days}


def _refine_stale(spark: SparkSession, settings: Settings, contract: Contract, days: list[date], inputs: dict[str, str], run_id: str, salt: str) -> dict:
    bronze = read_bronze(spark, contract, days)
    headers = _headers(bronze) if contract.format == "csv" else []
    conformed = conform(bronze, contract, headers=headers, salt=salt, files_per_day=_files_per_day(spark, contract, days))
    conformed = conformed.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        entries = _entries(conformed, contract, days, inputs)
        stamped = conformed.withColumns({"_run_id": F.lit(run_id), "_contract_version": F.lit(contract.version)})
        commit = {layer: Commit(run_id, contract.name, layer, contract.version, entries) for layer in ("quarantine", "silver")}
        if any(entry["quarantined"] for entry in entries.values()) or _holds(spark, settings, contract, days):
            aside = rejected(stamped).withColumn("_quarantined_at", F.current_timestamp())
            in_scope = aside.where(delta.in_days("_event_date", days))
            delta.replace_days(spark, quarantine_table(settings, contract), in_scope, days=days, commit=commit["quarantine"])
        _publish(spark, settings, contract, stamped, days, commit["silver"])
        return entries
    finally:
        conformed.unpersist()


def read_bronze(spark: SparkSession, contract: Contract, days: Sequence[date]) -> DataFrame:
    """The Bronze rows from which these days are computed."""
    bronze = spark.table(f"`bronze`.`{contract.name}`").drop("_run_id", "_contract_version")
    if contract.kind == "event":
        reach = [day + timedelta(days=n) for day in days for n in range(-1, contract.max_lateness + 1)]
        return bronze.where(delta.in_days("_delivery_date", reach)).where(delta.in_days("_event_date", days))
    own = bronze.where(delta.in_days("_delivery_date", days))
    if contract.kind == "reference":
        return own
    touched = own.select("_key").union(spark.table(f"`silver`.`{contract.name}`").where(delta.in_days("_delivery_date", days)).select("_key"))
    history = bronze.where(f"not ({delta.in_days('_delivery_date', days)})").join(F.broadcast(touched.distinct()), "_key", "left_semi")
    return own.unionByName(history.select(*own.columns))


def _headers(bronze: DataFrame) -> list[str]:
    return sorted(row["_header"] for row in bronze.select("_header").distinct().collect() if row["_header"] is not None)


def _files_per_day(spark: SparkSession, contract: Contract, days: Sequence[date]) -> int:
    """Enough files that none holds more than a couple of million rows, by what landing counted."""
    landed = read_days(spark, f"`bronze`.`{contract.name}`", days)
    return 1 + max((entry["rows_in"] for entry in landed.values()), default=0) // ROWS_PER_FILE


def _entries(conformed: DataFrame, contract: Contract, days: Sequence[date], inputs: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The ledger entry of each day, counted before anything is written."""
    counted = count_days(conformed, contract)
    broken = count_violations(conformed)
    return {d: _entry(counted.get(d, {}), broken.get(d, {}), inputs[d], contract) for d in (day.isoformat() for day in days)}


def _entry(counts: dict[str, Any], broken: dict[str, int], inputs: str, contract: Contract) -> dict[str, Any]:
    sound = counts.get("rows_in", 0) - counts.get("quarantined", 0)
    absent = [name.removeprefix("null:") for name, n in counts.items() if name.startswith("null:") and sound and n == sound]
    return {
        **{name: counts.get(name, 0) for name in ("rows_in", "accepted", "quarantined", "duplicates")},
        "violations": broken,
        "new_columns": (counts.get("new_columns") or "").split(",") if counts.get("new_columns") else [],
        "missing_columns": absent,
        "inputs": inputs,
    }


def _holds(spark: SparkSession, settings: Settings, contract: Contract, days: Sequence[date]) -> bool:
    """Whether quarantine has rows of these days that must go."""
    table = spark.table(quarantine_table(settings, contract).qualified)
    return bool(table.where(delta.in_days("_event_date", days)).limit(1).count())


def _publish(spark: SparkSession, settings: Settings, contract: Contract, conformed: DataFrame, days: Sequence[date], commit: Commit) -> None:
    table, rows = silver_table(settings, contract), accepted(conformed)
    if contract.kind == "event":
        delta.replace_days(spark, table, rows, days=days, commit=commit)
    elif contract.kind == "entity":
        touched = conformed.select("_key").where("_key is not null").distinct()
        others = spark.table(table.qualified).join(F.broadcast(touched), "_key", "left_anti")
        delta.replace_all(spark, table, timeline(rows, contract).select(*table.columns).unionByName(others), commit=commit)
    else:
        _publish_reference(spark, contract, table, rows, commit)


def _publish_reference(spark: SparkSession, contract: Contract, table: delta.Table, rows: DataFrame, commit: Commit) -> None:
    """The latest complete delivery wins, unless it is suspiciously small; an older day never replaces a newer one."""
    latest = max((d for d, entry in commit.days.items() if entry["accepted"]), default=None)
    held = spark.table(table.qualified).agg(F.count(F.lit(1)).alias("rows"), F.max("_delivery_date").alias("day")).first()
    rows_held, day_held = (held["rows"], held["day"]) if held else (0, None)
    if latest is None or (day_held and day_held.isoformat() > latest):
        delta.replace_all(spark, table, spark.table(table.qualified), commit=commit)
        return
    arriving = commit.days[latest]["accepted"]
    if arriving < contract.min_keep * rows_held:
        raise LakeError(
            f"{contract.name}: the delivery of {latest} has {arriving} rows, the last one {rows_held}. The contract accepts no less than "
            f"{contract.min_keep:.0%}. If the shrinkage is right, lower minKeep in {contract.file.name} for this delivery."
        )
    delta.replace_all(spark, table, rows.where(F.col("_event_date") == F.lit(latest)), commit=commit)
