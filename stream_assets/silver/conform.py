"""Judges records: from Bronze rows to typed rows that know which rules they break and whether a better version exists.

Pure functions on DataFrames. What is then done with accepted and rejected rows is `publish.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from stream_assets.contracts.model import Column, Contract
from stream_assets.quality.evaluate import typed, violations
from stream_assets.quality.rules import build_rules
from stream_assets.sources.records import with_fields

CARRIED = ("_source", "_position", "_delivery_date", "_event_date", "_ingested_at")
MAX_NAMES, MAX_NAME = 20, 63
LONG_NUMBER = "[0-9][0-9.]{15,}"


def conform(
    bronze: DataFrame, contract: Contract, *, headers: Sequence[str], salt: str, files_per_day: int = 1
) -> DataFrame:
    """Type, validate, protect and rank the records of Bronze.

    Returns Silver's columns plus `_violations` (null if sound), `_new_columns`, `_is_duplicate`, and for rejected rows
    only `_raw` and `_raw_bytes`.
    """
    fields = with_fields(bronze, contract, headers)
    judged = _judge(fields, contract)
    return _mark_duplicates(_protect(judged, contract, salt), contract, files_per_day)


def _judge(fields: DataFrame, contract: Contract) -> DataFrame:
    """Typed columns and the rules they break. A record that could not be read breaks that one rule and no other."""
    text = {c.name: _text(c, contract) for c in contract.record}
    values = [typed(column, text[column.name]).alias(column.name) for column in contract.record]
    kept = [name for name in fields.columns if name not in text]
    rows = fields.select(*kept, *values, _has_long_number(contract).alias("_has_long_number"))
    # A double is what JSON fractions pass through anyway, so it loses nothing there.
    sources = {c.name: c.source for c in contract.record if c.type != "double"}
    errors, warnings = (
        [r for r in build_rules(contract) if r.severity == severity] for severity in ("error", "warning")
    )
    broken = violations(errors, text, sources)
    noted = violations(warnings, text, sources)
    unknown = F.array_except(F.map_keys("_fields"), F.array(*[F.lit(c.source) for c in contract.columns]))
    return rows.select(
        "*",
        F.when(F.col("_problem").isNotNull(), F.array("_problem")).otherwise(broken).alias("_violations"),
        F.when(F.col("_problem").isNull(), noted).alias("_warnings"),
        F.when(
            F.col("_problem").isNull() & (F.size("_fields") > 0),
            F.when(F.size(unknown) > 0, _listed(unknown)),
        ).alias("_new_columns"),
    )


def _listed(names: Expr) -> Expr:
    """Names as text. They come from outside and go into the ledger: a record of 10,000 fields must not fill it."""
    few = F.slice(F.array_sort(names), 1, MAX_NAMES)
    return F.array_join(F.transform(few, lambda name: F.substring(name, 1, MAX_NAME)), ",")


def _text(column: Column, contract: Contract) -> Expr:
    is_envelope = contract.envelope and column not in contract.columns
    text = F.col("_envelope" if is_envelope else "_fields")[column.source]
    return F.when(~text.isin(*contract.null_values), text) if contract.null_values else text


def _has_long_number(contract: Contract) -> Expr:
    return F.lit(False) if contract.format == "csv" else F.col("_raw").rlike(LONG_NUMBER)


def _protect(rows: DataFrame, contract: Contract, salt: str) -> DataFrame:
    """Handle personal data as the contract says, and carry the raw record only for rows that will be quarantined."""
    rejected = F.col("_violations").isNotNull()
    return rows.select(
        *[_protected(column, salt) for column in contract.silver],
        *CARRIED,
        *[F.when(rejected, F.col(name)).alias(name) for name in ("_raw", "_raw_bytes")],
        *[name for name in ("_key",) if name in rows.columns],
        "_violations",
        "_warnings",
        "_new_columns",
    )


def _protected(column: Column, salt: str) -> Expr:
    value = F.col(column.name)
    match column.pii:
        case "hash":
            return F.sha2(F.concat(F.lit(salt), value.cast("string")), 256).alias(column.name)
        case "tokenize":
            return F.concat(
                F.lit("tok_"), F.substring(F.sha2(F.concat(F.lit(salt), value.cast("string")), 256), 1, 24)
            ).alias(column.name)
        case "mask":
            return F.regexp_replace(value.cast("string"), r"(?<=\S)\S", "*").alias(column.name)
        case _:
            return value


def _mark_duplicates(rows: DataFrame, contract: Contract, files_per_day: int) -> DataFrame:
    """Mark all but the latest sound version of each key within its day (of each key and moment, for entities).

    One shuffle by day serves deduplication and the write: each task holds whole days, or a share of one when days are big.
    """
    key = [F.col(name) for name in contract.key]
    order = [F.col(contract.order_by).desc_nulls_last()] if contract.order_by else []
    tie_break = [F.col(name).desc() for name in ("_delivery_date", "_source", "_position")]
    share = F.pmod(F.hash(*key), F.lit(files_per_day))
    is_sound = F.col("_violations").isNull()
    spread = rows.withColumn("_share", share).repartition("_event_date", "_share")
    if contract.kind == "entity":
        group = [*key, F.col(str(contract.order_by)), is_sound]
        rank = Window.partitionBy(*group).orderBy(*tie_break)
    else:
        rank = Window.partitionBy("_event_date", "_share", *key, is_sound).orderBy(*order, *tie_break)
    marked = spread.withColumn("_is_duplicate", is_sound & (F.row_number().over(rank) > 1))
    return marked.drop("_share")


def accepted(conformed: DataFrame) -> DataFrame:
    """The rows that belong in Silver."""
    return conformed.where("_violations is null and not _is_duplicate")


def rejected(conformed: DataFrame) -> DataFrame:
    """The rows that belong in quarantine."""
    return conformed.where("_violations is not null")


def count_days(conformed: DataFrame, contract: Contract) -> dict[str, Mapping]:
    """Per event day: rows in, accepted, quarantined, duplicates, nulls per column, unexpected columns."""
    sound = F.col("_violations").isNull()
    # A column that a delivery lacks is looked for among the rows that came on time: a late row of another delivery has it.
    on_time = sound & (F.col("_delivery_date") == F.col("_event_date"))
    nulls = [
        F.count_if(on_time & F.col(c.name).isNull()).alias(f"null:{c.name}") for c in contract.silver if not c.required
    ]
    rows = conformed.groupBy("_event_date").agg(
        F.count(F.lit(1)).alias("rows_in"),
        F.count_if(sound & ~F.col("_is_duplicate")).alias("accepted"),
        F.count_if(~sound).alias("quarantined"),
        F.count_if(F.col("_is_duplicate")).alias("duplicates"),
        F.count_if(F.col("_new_columns").isNotNull()).alias("rows_with_new_columns"),
        F.max("_new_columns").alias("new_columns"),
        F.count_if(on_time).alias("on_time"),
        *nulls,
    )
    return {row["_event_date"].isoformat(): row.asDict() for row in rows.collect()}


def count_rules(conformed: DataFrame, column: str) -> dict[str, dict[str, int]]:
    """Per event day: how many rows broke each of the rules listed in `_violations` or `_warnings`."""
    broken = conformed.where(F.col(column).isNotNull()).select("_event_date", F.explode(column).alias("rule"))
    counts: dict[str, dict[str, int]] = {}
    for row in broken.groupBy("_event_date", "rule").count().collect():
        counts.setdefault(row["_event_date"].isoformat(), {})[row["rule"]] = row["count"]
    return counts
