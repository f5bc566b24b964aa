"""Judges records one by one: typed columns, the rules they break, personal data protected.

What needs other records (duplicates, counts, windows) is in the rooms that use this: the same judgement serves batch and stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_assets.contracts.model import Column, Contract
from stream_assets.quality.evaluate import typed, violations
from stream_assets.quality.rules import Rule, build_rules

CARRIED = ("_source", "_position", "_delivery_date", "_event_date", "_ingested_at")
MAX_NAMES, MAX_NAME = 20, 63


def judge(read: DataFrame, contract: Contract) -> DataFrame:
    """Typed columns and the rules they break. A record that could not be read breaks that one rule and no other."""
    text = {c.name: _text(c, contract) for c in contract.record}
    values = [typed(column, text[column.name]).alias(column.name) for column in contract.record]
    kept = [name for name in read.columns if name not in text]
    rows = read.select(*kept, *values)
    errors, warnings = (
        [r for r in build_rules(contract) if r.severity == severity] for severity in ("error", "warning")
    )
    broken, noted = _broken(errors, contract, text), _broken(warnings, contract, text)
    return rows.select(
        "*",
        F.when(F.col("_problem").isNotNull(), F.array("_problem")).otherwise(broken).alias("_violations"),
        F.when(F.col("_problem").isNull(), noted).alias("_warnings"),
        F.when(F.col("_problem").isNull() & F.col("_unknown").isNotNull(), _listed("_unknown")).alias("_new_columns"),
    )


def _broken(rules: Sequence[Rule], contract: Contract, text: Mapping[str, Expr]) -> Expr:
    """The rules a record breaks. Of a deleted row only the key is promised to be there, of a truncation not even that."""
    everything = violations(rules, contract, text)
    if not contract.is_change_log:
        return everything
    of_key = violations([rule for rule in rules if rule.column in contract.key], contract, text)
    holds = F.col("_change.holds")
    return F.when(holds == "key", of_key).when(holds == "nothing", F.lit(None)).otherwise(everything)


def _listed(names: str) -> Expr:
    """Names as text. They come from outside and go into the ledger: a record of 10,000 fields must not fill it."""
    return F.left(F.array_join(F.slice(F.sort_array(names), 1, MAX_NAMES), ","), F.lit(MAX_NAMES * MAX_NAME))


def _text(column: Column, contract: Contract) -> Expr:
    text = F.col("_record")[column.name]
    return F.when(~text.isin(*contract.null_values), text) if contract.null_values else text


def protect(rows: DataFrame, contract: Contract, salt: str) -> DataFrame:
    """Handle personal data as the contract says, and carry the raw record only for rows that will be quarantined."""
    rejected = F.col("_violations").isNotNull()
    return rows.select(
        *[protected(column, salt) for column in contract.silver],
        *CARRIED,
        *[F.when(rejected, F.col(name)).alias(name) for name in ("_raw", "_raw_bytes")],
        *(["_key"] if contract.kind == "entity" else []),
        *(["_change"] if contract.is_change_log else []),
        "_violations",
        "_warnings",
        "_new_columns",
    )


def protected(column: Column, salt: str) -> Expr:
    """A column as its readers may see it."""
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
