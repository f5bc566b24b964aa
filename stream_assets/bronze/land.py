"""Lands deliveries: the files of a day become the Bronze partition of that day, in one commit, malformed records included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.engine.held import is_held, is_let_go
from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import is_made, read_ledger
from stream_assets.engine.session import one_task_per_file
from stream_assets.errors import LakeError
from stream_assets.quality.evaluate import in_window, typed
from stream_assets.settings import Settings
from stream_assets.sources.changes import ALL_KEYS, TRUNCATE, peek
from stream_assets.sources.corrections import PREFIX, is_correction
from stream_assets.sources.erasures import split_erased
from stream_assets.sources.files import Delivery, LandedFile, inspect_deliveries, read_files

LANDING_VERSION = 3
"""Raise when landing computes something else from the same files: every delivery is then landed anew."""
CHANGED = "deliveries"
"""Name of the tokens of commits that change days that were landed before: who began before another such commit begins again."""
OF_MESSAGES = ("_decoding", "_message_key", "_message_headers")
"""Columns that only records of a topic have."""


@dataclass(frozen=True)
class Landing:
    """What landing a range of days did."""

    rows: dict[date, int] = field(default_factory=dict)
    """Records in Bronze per delivery day asked for."""
    expected: dict[date, int] = field(default_factory=dict)
    """Records the files hold, counted without Spark."""
    landed: tuple[date, ...] = ()
    """Days written by this run; the others were unchanged, missing or incomplete."""
    records: int = 0
    """Topics: how many messages this run landed."""
    touched: tuple[date, ...] = ()
    """Event days that the landed records belong to."""
    problems: tuple[LandedFile, ...] = ()
    """Files set aside, with the reason."""
    incomplete: tuple[date, ...] = ()
    """Days whose producer is still writing."""
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The ledger of the days asked for, by ISO day."""
    history: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Everything the ledger said before."""
    positions: dict[str, int] = field(default_factory=dict)
    """Topics: the next offset of each partition."""
    lag: dict[str, int] = field(default_factory=dict)
    """Topics: offsets not yet landed, by topic and partition."""
    held: tuple[date, ...] = ()
    """Days that were rolled back and stay as they are until their delivery changes."""


def bronze_table(settings: Settings, contract: Contract) -> delta.Table:
    """Bronze has the same columns for every dataset."""
    columns = {
        "_raw": ("string", "The record as received."),
        "_raw_bytes": ("binary", "Its bytes, only when they are not valid UTF-8, or Avro or Protobuf."),
        "_header": ("string", "The header of its CSV file."),
        "_source": ("string", "File it came in, relative to the landing zone; or topic/partition."),
        "_position": ("bigint", "Line (or row) in that file, from 1; or offset."),
        "_delivery_date": ("date", "Day it was delivered."),
        "_event_date": ("date", "Day it happened; the delivery day when unknown or unbelievable."),
        "_key": ("bigint", "Hash of its key, for entities."),
        "_ends_snapshot": ("boolean", "Whether a snapshot of a database's table ends with it."),
        "_ingested_at": ("timestamp", "When the file, or the message, arrived."),
        "_decoding": (
            "string",
            "`avro` or `protobuf` if `_raw` was read from its bytes, else why it could not be; null for text.",
        ),
        "_message_key": ("binary", "Key of its message."),
        "_message_headers": ("array<struct<key:string,value:binary>>", "Headers of its message."),
        "_run_id": ("string", "Run that landed it."),
        "_contract_version": ("string", "Contract in force when it landed."),
    }
    stats = ("_event_date", "_position", "_key", "_ingested_at")
    return delta.table_of(
        settings,
        "bronze",
        contract.name,
        columns,
        partition_by="_delivery_date",
        stats=stats,
        varied=("_raw", "_position"),
    )


def land(
    spark: SparkSession,
    settings: Settings,
    contract: Contract,
    days: Sequence[date],
    *,
    run_id: str,
    again: bool = False,
) -> Landing:
    """Land the deliveries of these days that are new or changed, in one commit; with `again`, all that are there.

    A day whose files are gone keeps what was landed: the landing zone is not the archive, Bronze is.
    """
    table = bronze_table(settings, contract)
    delta.ensure(spark, table)
    found = inspect_deliveries(settings, contract, days)
    deliveries = [d for d in found if d.is_complete]
    token = delta.next_token(table.path, CHANGED)
    before = read_ledger(table.path, days)
    last = {d.day: before.get(d.day.isoformat(), {}) for d in deliveries}
    new = {d.day for d in deliveries if not is_landed(d, last[d.day])}
    wanted = [d for d in deliveries if again or d.day in new]
    let_go = {d.day for d in deliveries if is_let_go(last[d.day])}
    held = let_go | {d.day for d in wanted if is_held(last[d.day], landing_fingerprint(d))}
    changed = [d for d in wanted if d.day not in held]
    _refuse_mixture(contract, [d.day for d in changed if last[d.day].get("from_topic")])
    # Event days that lose a record are touched as much as those that get one.
    replaced = [d.day for d in changed if d.day in new and last[d.day]]
    lost = {event for _, event in count_records(table, replaced)} if replaced else set()
    written = {d.day.isoformat(): _ledger_entry(d) | _corrections(before, d) for d in changed}
    if changed:
        received, headers, erased = _receive(spark, settings, contract, changed)
        written = {day: entry | ({"erased": erased[day]} if day in erased else {}) for day, entry in written.items()}
        commit = Commit(run_id, contract.name, "bronze", contract.version, written)
        size = delta.Size(sum(d.rows for d in changed), sum(d.bytes for d in changed))
        rows = as_landed(stamp(received, contract, headers), table, contract, run_id)
        if not _write(spark, table, rows, commit, size, token if any(last[d.day] for d in changed) else None):
            return land(spark, settings, contract, days, run_id=run_id, again=again)
    known = {**before, **written}
    landed = tuple(d.day for d in changed)
    counts = count_records(table, days)
    return Landing(
        rows={day: sum(n for (d, _), n in counts.items() if d == day) for day in days},
        expected={
            d.day: d.rows - known.get(d.day.isoformat(), {}).get("erased", 0) for d in deliveries if d.day not in held
        },
        landed=landed,
        touched=tuple(sorted(lost | {event for delivered, event in counts if delivered in landed})),
        problems=tuple(f for d in deliveries for f in d.files if f.problem),
        incomplete=tuple(d.day for d in found if not d.is_complete),
        entries={d: known[d] for d in (day.isoformat() for day in days) if d in known},
        history=before,
        held=tuple(sorted(held)),
    )


def _receive(
    spark: SparkSession, settings: Settings, contract: Contract, deliveries: Sequence[Delivery]
) -> tuple[DataFrame, list[str], dict[str, int]]:
    """The records of these deliveries, the headers of their CSV files, and how many per day are of people who were erased."""
    files = [file for delivery in deliveries for file in delivery.readable]
    headers = sorted({f.header for f in files if f.header})
    with one_task_per_file(spark):
        received, gone = split_erased(read_files(spark, files), contract, settings, headers)
        counted = gone.groupBy("_delivery_date").count().collect() if gone else []
    return received, headers, {row["_delivery_date"].isoformat(): row["count"] for row in counted}


def as_landed(stamped: DataFrame, table: delta.Table, contract: Contract, run_id: str) -> DataFrame:
    """The rows of Bronze of records that came in no message."""
    return stamped.select(
        "*",
        *[F.lit(None).cast(table.columns[name][0]).alias(name) for name in OF_MESSAGES],
        F.lit(run_id).alias("_run_id"),
        F.lit(contract.version).alias("_contract_version"),
    )


def _write(
    spark: SparkSession,
    table: delta.Table,
    rows: DataFrame,
    commit: Commit,
    size: delta.Size,
    token: delta.Token | None,
) -> bool:
    """Replace the days of a commit; False if somebody else changed days since the token was looked up."""
    days = [date.fromisoformat(day) for day in commit.days]
    if any("corrections" in entry for entry in commit.days.values()):
        # What people corrected is a delivery of its own: the producer's coming again does not take it away.
        corrected = spark.table(table.qualified).where(delta.in_days("_delivery_date", days)).where(is_correction())
        rows = rows.unionByName(corrected, allowMissingColumns=True)
        size += delta.size_of(table, days)
    with one_task_per_file(spark):
        delta.replace_days(table, rows, days=days, commit=commit, token=token, size=size)
    return token is None or is_made(table.path, commit)


def _corrections(before: dict[str, dict[str, Any]], delivery: Delivery) -> dict[str, str]:
    known = before.get(delivery.day.isoformat(), {})
    return {"corrections": known["corrections"]} if "corrections" in known else {}


def _ledger_entry(delivery: Delivery) -> dict:
    return {
        "rows_in": delivery.rows,
        "bytes_in": delivery.bytes,
        "arrived": max(f.modified for f in delivery.files).isoformat() if delivery.files else None,
        "files": landing_fingerprint(delivery),
        "sources": {f.source: f.rows for f in delivery.readable},
        "unreadable": {f.source: f.problem for f in delivery.files if f.problem},
    }


def lasting(before: Mapping[str, Any]) -> dict[str, Any]:
    """What a day keeps in its entry when more of it comes: what people corrected, and whom it has forgotten."""
    return {name: before[name] for name in ("corrections", "erased") if name in before}


def counted_bytes(before: Mapping[str, Any], more: int) -> dict[str, int]:
    """The bytes of a day that got more of them; none if part of it was landed before anybody counted: unknown stays unknown."""
    is_known = not before or "bytes_in" in before
    return {"bytes_in": before.get("bytes_in", 0) + more} if is_known else {}


def is_landed(delivery: Delivery, entry: Mapping[str, Any]) -> bool:
    """Whether these files were landed on their day, and by this code.

    On a day that holds records of a topic too it does not matter by which: its files could not be landed anew.
    """
    known = entry.get("delivered", entry.get("files")) or ""
    if entry.get("from_topic"):
        return known.rpartition(":")[2] == delivery.fingerprint
    return known == landing_fingerprint(delivery)


def _refuse_mixture(contract: Contract, days: Sequence[date]) -> None:
    """Files replace their whole day: what came from a topic on that day would be gone."""
    if days:
        raise LakeError(
            f"{contract.name}: {', '.join(map(str, days))} holds records that came from a topic, which new files of that day would replace. "
            "Deliver these files under another day."
        )


def landing_fingerprint(delivery: Delivery) -> str:
    """What a delivery was landed from: equal for unchanged files and unchanged code."""
    return f"{LANDING_VERSION}:{delivery.fingerprint}"


def stamp(received: DataFrame, contract: Contract, headers: Sequence[str]) -> DataFrame:
    """Add the event day and, for entities, the hash of the key and whether a snapshot ends with it."""
    names = {"event": (str(contract.event_time),), "entity": contract.key, "reference": ()}[contract.kind]
    rows = peek(received, contract, names, headers) if names else received
    ends = F.col("_ends_snapshot") if names else F.lit(None).cast("boolean")
    keyed = rows.select(
        *received.columns,
        _day_told(contract).alias("_day"),
        _key(contract).alias("_key"),
        ends.alias("_ends_snapshot"),
    )
    day = F.when(in_window(F.col("_day"), contract.max_lateness), F.col("_day")).otherwise(F.col("_delivery_date"))
    return keyed.withColumn("_event_date", day).drop("_day")


def _day_told(contract: Contract) -> Expr:
    """The day a record says it happened. Entities and reference data have no lateness: they belong to their delivery."""
    if contract.kind != "event":
        return F.col("_delivery_date")
    column = contract.column(str(contract.event_time))
    return F.to_date(typed(column, F.col("_record")[column.name]))


def _key(contract: Contract) -> Expr:
    if contract.kind != "entity":
        return F.lit(None).cast("bigint")
    parts = [F.col("_record")[name] for name in contract.key]
    # A record without any key has a null here, not the hash of nothing: it belongs to no entity.
    of_one = F.when(F.coalesce(*parts).isNotNull(), F.xxhash64(*parts))
    return F.when(F.col("_op") == TRUNCATE, F.lit(ALL_KEYS).cast("bigint")).otherwise(of_one)


def count_records(
    table: delta.Table, days: Sequence[date], *, version: int | None = None
) -> dict[tuple[date, date], int]:
    """Records per delivery day and event day, as of a version if one is given."""
    is_corrected = pc.starts_with(pc.field("_source"), PREFIX)  # pyright: ignore[reportAttributeAccessIssue] made at run time
    columns = ("_delivery_date", "_event_date")
    return delta.count_by_day(table.path, columns, of=columns[0], days=days, but=is_corrected, version=version)
