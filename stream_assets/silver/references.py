"""Rows that point at nothing: the values of a column that the dataset it refers to has never had.

Orphans stay in Silver, for what they point at may come later. A day is compared with what is near it first: an order line
seldom belongs to an old order, so all of history is looked at only for the few values that are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, timedelta

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from stream_assets.contracts.model import Column, Contract
from stream_assets.engine import delta
from stream_assets.quality.evidence import MOST
from stream_assets.quality.outcomes import Orphans
from stream_assets.quality.samples import name_of

NEAR = timedelta(days=7)
FEW = 1_000
"""So many values are looked up one by one in all of history, where statistics of files and pages spare most reading."""


def find_orphans(
    spark: SparkSession, contract: Contract, column: Column, target: Contract | None, days: Sequence[date]
) -> Orphans | None:
    """Orphans of these days; None while the dataset they point at has no table, or no sound contract."""
    if target is None or not delta.exists(spark, f"silver.{target.name}"):
        return None
    if not days:
        return Orphans({}, ())
    _, key = column.references or ("", "")
    known = spark.table(f"`silver`.`{target.name}`").select("_event_date", F.col(key).alias("value"))
    is_daily = target.kind == "event"
    near = known.where(F.col("_event_date").between(min(days) - NEAR, max(days) + NEAR)) if is_daily else known
    missing = _values(spark, contract, column, days).join(near.select("value"), "value", "left_anti")
    # In order, so that all tasks look at once; and a row each, for there are few: to group all values first costs a shuffle of them.
    left = missing.orderBy("day", "value", "name").limit(FEW + 1).collect()
    if len(left) > FEW:
        return _count(missing.join(known.select("value"), "value", "left_anti"))
    found = _lookup(known, left) if is_daily and left else set()
    orphans = [row for row in left if row["value"] not in found]
    return Orphans(Counter(row["day"].isoformat() for row in orphans), _some(row["name"] for row in orphans))


def _values(spark: SparkSession, contract: Contract, column: Column, days: Sequence[date]) -> DataFrame:
    """What each row of these days points at, with its name."""
    day = "_event_date" if contract.kind == "event" else "_delivery_date"
    rows = spark.table(f"`silver`.`{contract.name}`").where(delta.in_days(day, days))
    named = rows.where(F.col(column.name).isNotNull())
    return named.select(F.col(day).alias("day"), F.col(column.name).alias("value"), name_of(contract).alias("name"))


def _lookup(known: DataFrame, left: Iterable[Row]) -> set[object]:
    values = {row["value"] for row in left}
    return {row["value"] for row in known.where(F.col("value").isin(*values)).select("value").distinct().collect()}


def _count(orphans: DataFrame) -> Orphans:
    told = (F.count(F.lit(1)).alias("rows"), F.min("name").alias("first"), F.max("name").alias("last"))
    days = orphans.groupBy("day").agg(*told).collect()
    names = (name for row in days for name in (row["first"], row["last"]))
    return Orphans({row["day"].isoformat(): row["rows"] for row in days}, _some(names))


def _some(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names))[:MOST])
