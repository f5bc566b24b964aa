"""Runs a proposed contract over the history in Bronze beside the contract in force, and compares row by row.

Nothing is written: no table and no ledger. Both contracts judge the same rows with the same `conform`, so what is told
here is what refining would do. Adding up is `effects.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from stream_assets.contracts.change import show
from stream_assets.contracts.load import load_contract, load_contracts
from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.engine.log import read_ledger, read_log
from stream_assets.errors import StreamError
from stream_assets.secrets import pii_salt
from stream_assets.settings import Settings
from stream_assets.silver.conform import conform
from stream_assets.silver.effects import DayEffects, Group, Simulation, add_up, add_up_days, schema_changes
from stream_assets.silver.publish import silver_table
from stream_assets.silver.refine import distinct_headers, read_bronze, read_corrections
from stream_assets.sources.corrections import split_superseded

DEFAULT_DAYS = 30
"""Days looked at when nobody says which."""
PLACE = ("_event_date", "_source", "_position")
"""What a record is known by, whatever a contract makes of it."""
STAMPED = {
    "kind": "each kind keeps other rows",
    "key": "other records count as the same one",
    "event_time": "Bronze has dated its records by the old one",
    "format": "Bronze holds records of the old format",
}
"""What the history in Bronze depends on, with the reason why it cannot be simulated from there."""


@dataclass(frozen=True)
class Trial:
    """A proposed contract, the one in force, and the days to try it on."""

    current: Contract
    proposed: Contract
    first: date | None = None
    last: date | None = None

    @property
    def widest(self) -> Contract:
        """The contract that reads more of Bronze: a record that is too late for the other is judged by both."""
        return max(self.current, self.proposed, key=lambda contract: contract.max_lateness)

    @property
    def columns(self) -> dict[str, bool]:
        """The columns that Silver has under both contracts, and whether they can only be compared as text."""
        after = {column.name: column.silver_type for column in self.proposed.silver}
        both = {c.name: {c.silver_type, after[c.name]} for c in self.current.silver if c.name in after}
        return {name: len(types) > 1 and bool(types & {"string", "boolean"}) for name, types in both.items()}


def prepare_trial(settings: Settings, file: Path, *, first: date | None = None, last: date | None = None) -> Trial:
    """The trial of a contract file against the contract of its dataset. Refuses what cannot be told, before any engine starts."""
    proposed = load_contract(file)
    current = load_contracts(settings.contracts).get(proposed.name)
    if current is None:
        raise StreamError(
            f"{settings.contracts} has no sound contract called {proposed.name}, so nothing is in force to compare with. "
            "See `stream contracts lint`."
        )
    require_comparable(current, proposed)
    if first and last and first > last:
        raise StreamError(f"--from {first} is after --to {last}.")
    for layer in ("bronze", "silver"):
        if not read_log(settings.table_path(layer, current.name)):
            raise StreamError(
                f"{current.name} has no {layer.capitalize()} yet, so there is no history to try the contract on. "
                f"Run `stream run --select {current.name}` first."
            )
    return Trial(current, proposed, first, last)


def require_comparable(current: Contract, proposed: Contract) -> None:
    """Refuse a contract whose rows cannot be paired with those of the contract in force."""
    for name, reason in STAMPED.items():
        before, after = getattr(current, name), getattr(proposed, name)
        if before != after:
            raise StreamError(
                f"{proposed.file.name} has another {name} ({show(before)} → {show(after)}): {reason}. Such a change makes "
                "another dataset: give it another name and land its history."
            )


def simulate(spark: SparkSession, settings: Settings, trial: Trial) -> Simulation:
    """What the proposed contract would have done, day by day and rule by rule."""
    held = _bronze_days(spark, trial.current)
    days = choose_days(held, trial.first, trial.last)
    if not days:
        asked = f"from {trial.first or 'the first day'} to {trial.last or 'the last'}"
        raise StreamError(f"Bronze holds no record of {trial.current.name} {asked}.")
    bronze, _ = split_superseded(read_bronze(spark, trial.widest, days), read_corrections(spark, trial.widest, days))
    headers = distinct_headers(bronze) if "csv" in trial.current.formats else []
    before, after = (
        conform(bronze, contract, headers=headers, salt=pii_salt(settings)).where(delta.in_days("_event_date", days))
        for contract in (trial.current, trial.proposed)
    )
    groups = [_to_group(row, trial.columns) for row in compare(before, after, trial.columns).collect()]
    ledger = read_ledger(silver_table(settings, trial.current).path)
    by_day = add_up_days(groups, [day.isoformat() for day in days], ledger)
    left_out = 0 if trial.first or trial.last else len(held) - len(days)
    return Simulation(
        dataset=trial.current.name,
        version_before=trial.current.version,
        version_after=trial.proposed.version,
        days=by_day,
        total=add_up(groups),
        schema=schema_changes(*(_silver_types(settings, c) for c in (trial.current, trial.proposed))),
        notes=tuple(_notes(trial, by_day, left_out)),
    )


def choose_days(held: Iterable[date], first: date | None, last: date | None) -> list[date]:
    """The days of a range that Bronze has; the last ones, if no range is given."""
    days = sorted(day for day in held if (not first or day >= first) and (not last or day <= last))
    return days if first or last else days[-DEFAULT_DAYS:]


def compare(before: DataFrame, after: DataFrame, columns: Mapping[str, bool]) -> DataFrame:
    """Pair each record's two verdicts and count the pairs by day, verdicts and broken rules.

    `columns` are compared for records that stay in Silver; the value says whether as text. As many rows come back as
    there are combinations of rules that records break, whatever the size of the history.
    """
    paired = _side(before, "before", columns).join(_side(after, "after", columns), list(PLACE))
    old, new = F.col("before"), F.col("after")
    stays = (old["_verdict"] == "accepted") & (new["_verdict"] == "accepted")
    differs = {name: stays & ~old[name].eqNullSafe(new[name]) for name in columns}
    marked = paired.withColumn("_changed", F.array_compact(F.array(*[F.when(d, F.lit(n)) for n, d in differs.items()])))
    return marked.groupBy(
        F.col("_event_date").cast("string").alias("day"),
        old["_verdict"].alias("before"),
        new["_verdict"].alias("after"),
        old["_violations"].alias("broken_before"),
        new["_violations"].alias("broken_after"),
        old["_warnings"].alias("warned_before"),
        new["_warnings"].alias("warned_after"),
    ).agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.size("_changed") > 0).alias("changed"),
        *[F.count_if(F.array_contains("_changed", name)).alias(f"changed:{name}") for name in columns],
    )


def _side(conformed: DataFrame, name: str, columns: Mapping[str, bool]) -> DataFrame:
    values = [F.col(c).cast("string").alias(c) if as_text else F.col(c) for c, as_text in columns.items()]
    facts = F.struct(_verdict().alias("_verdict"), "_violations", "_warnings", *values)
    return conformed.select(*PLACE, facts.alias(name))


def _verdict() -> Expr:
    return (
        F.when(F.col("_violations").isNotNull(), "quarantined")
        .when(F.col("_is_duplicate"), "duplicates")
        .otherwise("accepted")
    )


def _to_group(row: Row, columns: Iterable[str]) -> Group:
    rules = ("broken_before", "broken_after", "warned_before", "warned_after")
    facts: dict[str, Any] = {name: row[name] for name in ("day", "before", "after", "rows", "changed")}
    facts |= {name: tuple(row[name] or ()) for name in rules}
    return Group(**facts, columns={name: row[f"changed:{name}"] for name in columns})


def _bronze_days(spark: SparkSession, contract: Contract) -> list[date]:
    rows = spark.table(f"`bronze`.`{contract.name}`").select("_event_date").distinct().collect()
    return [row["_event_date"] for row in rows]


def _silver_types(settings: Settings, contract: Contract) -> dict[str, str]:
    return {name: kind for name, (kind, _) in silver_table(settings, contract).columns.items()}


def _notes(trial: Trial, days: Sequence[DayEffects], left_out: int) -> Iterator[str]:
    if left_out:
        yield f"The last {len(days)} days of {len(days) + left_out}; give --from and --to for others."
    if stale := [day.day for day in days if day.is_stale]:
        yield (
            f"On {len(stale)} days the ledger says something else than the contract in force makes of Bronze now "
            f"(first {stale[0]}): Silver is not up to date there. The comparison is with the contract."
        )
    if trial.proposed.max_lateness > trial.current.max_lateness:
        yield "A record that is no longer too late counts on the day it was delivered: Bronze has dated it so."
