"""Judges records: from Bronze rows to typed rows that know which rules they break and whether a better version exists.

Pure functions on DataFrames. What is then done with accepted and rejected rows is `publish.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.quality.judge import judge, protect
from stream_assets.quality.profile import is_numeric, profiled
from stream_assets.quality.samples import sample_columns, samples_of
from stream_assets.sources.changes import PLACE, TOMBSTONE, with_record

LAST = ("_delivery_date", "_source", "_position")
"""Of two versions that nothing else tells apart, the one that arrived later is the latest."""
MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


@dataclass(frozen=True)
class Spread:
    """How rows are spread over tasks and files."""

    files_per_day: int = 1
    tasks: int | None = None
    """How many tasks, or None where Spark is to choose: it would take 16 for a day that one has done sooner."""


def conform(
    bronze: DataFrame,
    contract: Contract,
    *,
    headers: Sequence[str | None],
    salt: str,
    spread: Spread | None = None,
) -> DataFrame:
    """Type, validate, protect and rank the records of Bronze.

    Returns Silver's columns plus `_violations` (null if sound), `_new_columns`, `_is_duplicate`, and for rejected rows
    only `_raw` and `_raw_bytes`.
    """
    judged = judge(with_record(bronze, contract, headers), contract)
    return _mark_duplicates(protect(judged, contract, salt), contract, spread or Spread())


def _mark_duplicates(rows: DataFrame, contract: Contract, spread: Spread) -> DataFrame:
    """Mark all but the latest sound version of each key within its day (of each key and moment, for entities).

    One shuffle by day serves deduplication and the write: each task holds whole days, or a share of one when days are big.
    """
    key = [F.col(name) for name in contract.key]
    latest = [F.col(contract.order_by).desc_nulls_last()] if contract.order_by else []
    tie_break = [F.col(name).desc() for name in LAST]
    share = F.pmod(F.hash(*key), F.lit(spread.files_per_day))
    is_sound = F.col("_violations").isNull()
    days = ["_event_date", "_share"]
    shared = rows.withColumn("_share", share)
    shared = shared.repartition(spread.tasks, *days) if spread.tasks else shared.repartition(*days)
    if contract.kind == "entity":
        dated, order = _dated(shared, contract, is_sound)
        rank = Window.partitionBy(*key, "_moment", is_sound).orderBy(*[F.col(name).desc() for name in order])
    else:
        dated = shared
        rank = Window.partitionBy("_event_date", "_share", *key, is_sound).orderBy(*latest, *tie_break)
    is_duplicate = is_sound & (F.row_number().over(rank) > 1)
    if contract.is_change_log:
        is_duplicate |= F.coalesce(F.col("_change.op") == TOMBSTONE, F.lit(False))
    return dated.withColumn("_is_duplicate", is_duplicate).drop("_share")


def _dated(rows: DataFrame, contract: Contract, is_sound: Expr) -> tuple[DataFrame, Sequence[str]]:
    """Add `_moment`, from when each version of an entity holds; and the columns that order its versions.

    In a log the position decides, and the clocks that dated the commits may disagree with it by a little: a change holds from
    the latest date so far. What a transaction did to a row before its last word was never seen outside.
    """
    given = F.col(str(contract.order_by)).cast("timestamp")
    if not contract.is_change_log:
        return rows.withColumn("_moment", given), LAST
    order = (*PLACE, "_at", *LAST)
    so_far = Window.partitionBy(*contract.key, is_sound).orderBy(*order)
    dated = rows.withColumn("_at", F.coalesce("_change.at", given))
    moment = F.max("_at").over(so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    return dated.withColumn("_moment", moment), order


def _lag() -> Expr:
    return F.datediff("_delivery_date", "_event_date")


def prompt(conformed: DataFrame, lag: int) -> DataFrame:
    """The sound rows that came as promptly as usual, in the state they had then."""
    return conformed.where(F.col("_violations").isNull() & (_lag() == lag))


def accepted(conformed: DataFrame) -> DataFrame:
    """The rows that belong in Silver."""
    return conformed.where("_violations is null and not _is_duplicate")


def rejected(conformed: DataFrame) -> DataFrame:
    """The rows that belong in quarantine."""
    return conformed.where("_violations is not null")


@dataclass(frozen=True)
class Counts:
    """What some days are made of."""

    days: dict[str, dict[str, Any]]
    """Their ledger entries."""
    lag: int
    """How many days after the event its records usually come."""
    rejected_bytes: int
    """How large the records are that belong in quarantine."""


def count_days(conformed: DataFrame, contract: Contract) -> Counts:
    """What the ledger says of each event day, in one pass: counts, rows per broken rule, columns that are new or absent.

    Rows are counted by the rules they break together, so that no rule needs a pass of its own.
    """
    sound = F.col("_violations").isNull()
    optional = [c.name for c in contract.silver if not c.required]
    numbers = [c.name for c in profiled(contract) if is_numeric(c)]
    given = F.col(contract.event_time) if contract.event_time else F.col("_delivery_date").cast("timestamp")
    moment = F.col("_moment") if contract.is_change_log else given
    groups = conformed.groupBy("_event_date", _lag().alias("lag"), "_violations", "_warnings").agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("_is_duplicate")).alias("duplicates"),
        F.sum(_carried_bytes()).alias("bytes"),
        F.max("_new_columns").alias("new_columns"),
        F.date_format(F.max(F.when(sound, moment)), MOMENT).alias("newest_event"),
        *[F.count(name).alias(f"present:{name}") for name in optional],
        *[F.sum(F.col(name).cast("double")).alias(f"sum:{name}") for name in numbers],
        *sample_columns(contract),
    )
    found = groups.collect()
    lag = _usual_lag(found)
    days: dict[str, list[Row]] = {}
    for row in found:
        days.setdefault(row["_event_date"].isoformat(), []).append(row)
    entries = {day: _add_up(rows, lag, optional, numbers) for day, rows in days.items()}
    return Counts(entries, lag, sum(row["bytes"] for row in found))


def _carried_bytes() -> Expr:
    """The size of a record as received, which only rejected ones still carry."""
    return reduce(add, [F.coalesce(F.octet_length(name), F.lit(0)) for name in ("_raw", "_raw_bytes")])


def _usual_lag(groups: Sequence[Row]) -> int:
    """How many days after they happened most of these records were delivered."""
    rows: dict[int, int] = {}
    for row in groups:
        rows[row["lag"]] = rows.get(row["lag"], 0) + row["rows"]
    return max(sorted(rows), key=lambda lag: rows[lag], default=0)


def _add_up(
    groups: Sequence[Row], lag: int = 0, optional: Sequence[str] = (), numbers: Sequence[str] = ()
) -> dict[str, Any]:
    """The entry of one day, from its rows by the rules they break.

    What is compared between days, or looked for in all records of one, is taken from those that came as promptly as usual:
    later ones come from other deliveries, and the last days still lack them.
    """
    sound = [row for row in groups if row["_violations"] is None]
    prompt = [row for row in sound if row["lag"] == lag]
    duplicates = sum(row["duplicates"] for row in sound)
    return {
        "rows_in": sum(row["rows"] for row in groups),
        "accepted": sum(row["rows"] for row in sound) - duplicates,
        "quarantined": sum(row["rows"] for row in groups if row["_violations"] is not None),
        "duplicates": duplicates,
        "prompt": sum(row["rows"] for row in groups if row["lag"] == lag),
        "violations": _per_rule(groups, "_violations"),
        "warnings": _per_rule(groups, "_warnings"),
        "samples": samples_of(groups),
        "new_columns": [n for n in max((row["new_columns"] or "" for row in groups), default="").split(",") if n],
        "missing_columns": [n for n in optional if prompt and not any(row[f"present:{n}"] for row in prompt)],
        "newest_event": max((row["newest_event"] for row in sound if row["newest_event"]), default=None),
        "sums": {n: _total([row[f"sum:{n}"] or 0 for row in prompt]) for n in numbers},
    }


def _total(sums: Sequence[float]) -> float:
    """All of them together, exactly, or infinite if that is too large for a double."""
    try:
        return math.fsum(sums)
    except (OverflowError, ValueError):
        return sum(sums)


def _per_rule(groups: Sequence[Row], column: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in groups:
        for rule in row[column] or ():
            counts[rule] = counts.get(rule, 0) + row["rows"]
    return counts


NOTHING: dict[str, Any] = _add_up([])
"""The entry of a day without any record."""
