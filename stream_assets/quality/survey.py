"""Looks at Silver's history for habits: one aggregation over all columns, then closer looks at the few that need one.

Pure functions on DataFrames, and one that reads the lake. What to conclude is up to `contracts/suggest.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import takewhile
from typing import Any

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_assets.contracts.evidence import (
    MAX_VALUES,
    SHAPES,
    STRUCTURED,
    ColumnFacts,
    OrderFacts,
    ReferenceFacts,
    Shape,
    Survey,
    Target,
    is_number,
    is_open,
    order_pairs,
    possible_references,
    surveyed,
)
from stream_assets.contracts.model import Column, Contract
from stream_assets.engine import delta
from stream_assets.engine.log import newest_entries, read_log
from stream_assets.errors import StreamError
from stream_assets.quality.evaluate import violations
from stream_assets.quality.rules import Rule
from stream_assets.settings import Settings

ABOUT = 1.5
"""Distinct values are first counted approximately: so much may a count be off before a closer look is spared."""
FORMS = (*SHAPES, STRUCTURED)
MAX_PREFIX = 20


def recent_days(settings: Settings, contract: Contract, count: int) -> list[date]:
    """The last days of which Silver's ledger says that records were accepted. No engine is needed to know."""
    entries = newest_entries(read_log(settings.table_path("silver", contract.name)))
    days = sorted(date.fromisoformat(day) for day, entry in entries.items() if entry.get("accepted"))
    if not days:
        raise StreamError(
            f"{contract.name} has no records in Silver yet, so there is nothing to learn from. "
            f"Run `stream run --select {contract.name}` first."
        )
    return days[-count:]


def survey_silver(
    spark: SparkSession, contract: Contract, days: Sequence[date], *, others: Mapping[str, Contract]
) -> Survey:
    """What these days of Silver, and the keys of other datasets, tell."""
    day = "_event_date" if contract.kind == "event" else "_delivery_date"
    silver = spark.table(f"`silver`.`{contract.name}`").where(delta.in_days(day, days)).withColumn("_day", F.col(day))
    targets = [
        (name, target)
        for name, target in possible_references(contract, others)
        if delta.exists(spark, f"`silver`.`{target.dataset}`")
    ]
    keys = {t: spark.table(f"`silver`.`{t.dataset}`").select(t.column) for _, t in targets}
    return survey(silver, contract, references=[(name, target, keys[target]) for name, target in targets])


def survey(
    silver: DataFrame, contract: Contract, *, references: Iterable[tuple[str, Target, DataFrame]] = ()
) -> Survey:
    """What the rows tell of every column, of pairs of columns and of references. Their day is `_day`."""
    found = _measure(silver, contract)
    open_columns = [column for column in surveyed(contract) if is_open(column)]
    values = _few_values(silver, [c.name for c in open_columns if _has_few(c, found)])
    unique = _unique(silver, [c.name for c in open_columns if _has_many(c, found)], found)
    return Survey(
        rows=found["rows"],
        days=tuple(sorted(found["days"])),
        columns={
            c.name: _to_facts(c, found, is_unique=c.name in unique, values=values.get(c.name, {}))
            for c in surveyed(contract)
        },
        orders={pair: _order_facts(found, n) for n, pair in enumerate(order_pairs(contract))},
        references={(name, target): _reference(silver, name, keys) for name, target, keys in references},
    )


def _measure(silver: DataFrame, contract: Contract) -> dict[str, Any]:
    """Every count and extreme, in one pass."""
    measures = {"rows": F.count(F.lit(1)), "days": F.collect_set("_day")}
    for column in surveyed(contract):
        measures |= {f"{name}:{column.name}": made for name, made in _column_measures(column, contract).items()}
    for n, (one, other) in enumerate(order_pairs(contract)):
        low, high = F.col(one), F.col(other)
        measures |= {
            f"both:{n}": F.count_if(low.isNotNull() & high.isNotNull()),
            f"not_above:{n}": F.count_if(low <= high),
            f"not_below:{n}": F.count_if(low >= high),
        }
    (row,) = silver.agg(*[made.alias(name) for name, made in measures.items()]).collect()
    return row.asDict()


def _column_measures(column: Column, contract: Contract) -> dict[str, Expr]:
    value = F.col(column.name)
    measures = {"present": F.count(value)}
    if not is_open(column):
        return measures
    measures["distinct"] = F.approx_count_distinct(value)
    if is_number(column):
        measures |= {"smallest": F.min(value), "largest": F.max(value)}
    if column.type == "string":
        measures |= {"shortest": F.min(F.length(value)), "longest": F.max(F.length(value))}
        measures |= {name: F.left(edge(value), F.lit(MAX_PREFIX)) for name, edge in (("first", F.min), ("last", F.max))}
        measures |= {f"shape{n}": _matching(shape, column, contract) for n, shape in enumerate(FORMS)}
    return measures


def _matching(shape: Shape, column: Column, contract: Contract) -> Expr:
    """Rows that would keep the rule, judged as the pipeline would judge them."""
    rule = Rule(f"validity__{column.name}__{shape.option}", shape.option, column.name, shape.argument)
    broken = violations([rule], contract, {column.name: F.col(column.name)})
    return F.count_if(F.col(column.name).isNotNull() & broken.isNull())


def _has_few(column: Column, found: Mapping[str, Any]) -> bool:
    return column.type == "string" and 0 < found[f"distinct:{column.name}"] <= MAX_VALUES * ABOUT


def _has_many(column: Column, found: Mapping[str, Any]) -> bool:
    return 0 < found[f"present:{column.name}"] <= found[f"distinct:{column.name}"] * ABOUT


def _few_values(silver: DataFrame, names: Sequence[str]) -> dict[str, dict[str, date]]:
    """Each value of these columns and the first day it was seen."""
    if not names:
        return {}
    cells = F.array(*[F.struct(F.lit(name).alias("name"), F.col(name).alias("value")) for name in names])
    rows = silver.select("_day", F.inline(cells)).where("value is not null").groupBy("name", "value").agg(F.min("_day"))
    found: dict[str, dict[str, date]] = {}
    for name, value, first_seen in rows.collect():
        found.setdefault(name, {})[value] = first_seen
    return {name: values for name, values in found.items() if len(values) <= MAX_VALUES}


def _unique(silver: DataFrame, names: Sequence[str], found: Mapping[str, Any]) -> set[str]:
    """Those of the columns of which no value occurs twice, counted exactly."""
    if not names:
        return set()
    (row,) = silver.agg(*[F.count_distinct(F.col(name)).alias(name) for name in names]).collect()
    return {name for name in names if row[name] == found[f"present:{name}"]}


def _reference(silver: DataFrame, name: str, keys: DataFrame) -> ReferenceFacts:
    (key,) = keys.columns
    values = silver.select(F.col(name).alias("_value")).where("_value is not null").distinct()
    known = keys.select(F.col(key).alias("_value"), F.lit(True).alias("_known")).distinct()
    (row,) = values.join(known, "_value", "left").agg(F.count("_value"), F.count_if(F.col("_known").isNull())).collect()
    return ReferenceFacts(*row)


def _order_facts(found: Mapping[str, Any], n: int) -> OrderFacts:
    return OrderFacts(found[f"both:{n}"], found[f"not_above:{n}"], found[f"not_below:{n}"])


def _to_facts(column: Column, found: Mapping[str, Any], *, is_unique: bool, values: Mapping[str, date]) -> ColumnFacts:
    def of(measure: str) -> Any:
        return found.get(f"{measure}:{column.name}")

    matching = {shape: of(f"shape{n}") for n, shape in enumerate(FORMS)} if of("shape0") is not None else {}
    return ColumnFacts(
        present=of("present"),
        is_unique=is_unique,
        smallest=_plain(of("smallest")),
        largest=_plain(of("largest")),
        shortest=of("shortest"),
        longest=of("longest"),
        # Every text lies between the first and the last in order, and so begins with what those two have in common.
        prefix=_common_start(of("first") or "", of("last") or ""),
        matching=matching,
        values=values,
    )


def _plain(number: Any) -> Any:
    return float(number) if isinstance(number, Decimal) else number


def _common_start(one: str, other: str) -> str:
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
