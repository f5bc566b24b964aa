"""What the values of a day look like: how many of each category, how many of each magnitude.

Counts of fixed buckets add up: the profile of a month is the sum of its days, and no history is ever read again. They are
taken from rows that are being written anyway, in one pass for all columns, and kept in the ledger.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from stream_assets.contracts.model import Column, Contract

MAX_BUCKETS = 100
"""Buckets kept per column and day; the rest are counted together."""
MAX_TEXT = 60
STEPS_PER_DOUBLING = 4
NUMERIC = ("bigint", "double", "decimal")


def profiled(contract: Contract) -> tuple[Column, ...]:
    """The columns worth a profile: numbers, flags and categories, never personal data and never the key."""
    return tuple(c for c in contract.silver if c.name not in contract.key and c.pii is None and _is_wanted(c))


def is_numeric(column: Column) -> bool:
    """Whether a column is profiled by magnitude rather than by value."""
    return column.type.startswith(NUMERIC)


def _is_wanted(column: Column) -> bool:
    if column.profile is not None:
        return column.profile
    return is_numeric(column) or column.type == "boolean" or bool(column.allowed)


def profile_days(accepted: DataFrame, contract: Contract) -> dict[str, dict[str, dict[str, Any]]]:
    """Per event day and column: `counts` per bucket, `others` beyond the most frequent ones, `nulls`."""
    columns = profiled(contract)
    if not columns:
        return {}
    # A row per column and value, not a row per column with room for all of them: the keys that are counted stay short.
    values = (part for position, column in enumerate(columns) for part in (F.lit(position), _bucket(column)))
    buckets = accepted.select("_event_date", F.stack(F.lit(len(columns)), *values).alias("column", "bucket"))
    found = buckets.groupBy("_event_date", "column", "bucket").agg(F.count(F.lit(1)).alias("rows"))
    of_column = Window.partitionBy("_event_date", "column")
    ranked = found.withColumns(
        {
            "rank": F.row_number().over(of_column.orderBy(F.col("rows").desc(), "bucket")),
            "total": F.sum("rows").over(of_column),
        }
    )
    days: dict[str, dict[str, dict[str, Any]]] = {}
    for row in ranked.where(F.col("rank") <= MAX_BUCKETS).collect():
        profile = days.setdefault(row["_event_date"].isoformat(), {}).setdefault(
            columns[row["column"]].name, {"counts": {}, "nulls": 0, "others": row["total"]}
        )
        profile["others"] -= row["rows"]
        if row["bucket"] is None:
            profile["nulls"] = row["rows"]
        else:
            profile["counts"][row["bucket"]] = row["rows"]
    return days


def _bucket(column: Column) -> Expr:
    value = F.col(column.name)
    if is_numeric(column):
        size = F.floor(F.log2(F.abs(value.cast("double")) + 1) * STEPS_PER_DOUBLING)
        return (F.signum(value.cast("double")) * size).cast("int").cast("string")
    return F.left(value.cast("string"), F.lit(MAX_TEXT))


def magnitude(bucket: str) -> float:
    """The smallest value, by size, of a numeric bucket: for people."""
    steps = int(bucket)
    return (2 ** (abs(steps) / STEPS_PER_DOUBLING) - 1) * (-1 if steps < 0 else 1)
