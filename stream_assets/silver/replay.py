"""What refining again would do to rejected records: recovered, still rejected (and why), newly rejected. Writes nothing.

Every record of the days in question is judged under the contract in force, with the same `conform` as refining, and
compared with what quarantine holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.secrets import pii_salt
from stream_assets.settings import Settings
from stream_assets.silver.conform import conform
from stream_assets.silver.publish import quarantine_table
from stream_assets.silver.refine import distinct_headers, read_bronze, read_corrections
from stream_assets.silver.resolve import OPEN
from stream_assets.sources.corrections import split_superseded

PLACE = ["_event_date", "_source", "_position"]


@dataclass
class DayReplay:
    """What would become of one day."""

    day: str
    recovered: int = 0
    still_rejected: int = 0
    newly_rejected: int = 0


@dataclass
class Replay:
    """What refining some days again would do."""

    dataset: str
    contract_version: str
    days: list[DayReplay] = field(default_factory=list)
    recovered: Counter[str] = field(default_factory=Counter)
    """Per rule that records used to break."""
    still_rejected: Counter[str] = field(default_factory=Counter)
    """Per rule that they break now."""
    newly_rejected: Counter[str] = field(default_factory=Counter)

    @property
    def changes(self) -> list[date]:
        """The days on which something would change."""
        return [date.fromisoformat(d.day) for d in self.days if d.recovered or d.newly_rejected]

    def total(self, name: str) -> int:
        """Records of one fate."""
        return sum(getattr(day, name) for day in self.days)


def preview(spark: SparkSession, settings: Settings, contract: Contract, days: Sequence[date]) -> Replay:
    """Judge the records of these days again and compare with quarantine."""
    bronze, _ = split_superseded(read_bronze(spark, contract, days), read_corrections(spark, contract, days))
    headers = distinct_headers(bronze) if "csv" in contract.formats else []
    now = conform(bronze, contract, headers=headers, salt=pii_salt(settings)).where(delta.in_days("_event_date", days))
    table = quarantine_table(settings, contract)
    delta.ensure(spark, table)
    before = spark.table(table.qualified).where(delta.in_days("_event_date", days)).where(OPEN)
    return _add_up(contract, days, _compare(now, before).collect())


def preview_records(settings: Settings, contract: Contract, records: DataFrame) -> Replay:
    """What would become of corrected records, each of which stands in for a rejected one."""
    headers = distinct_headers(records) if "csv" in contract.formats else []
    now = conform(records, contract, headers=headers, salt=pii_salt(settings))
    before = now.select(*PLACE, F.array(F.lit("corrected")).alias("_violations"))
    groups = _compare(now, before).collect()
    return _add_up(contract, {date.fromisoformat(group["day"]) for group in groups}, groups)


def _compare(now: DataFrame, before: DataFrame) -> DataFrame:
    """Rows by day, by the rules they broke and by those they break now: as many as there are combinations."""
    was = before.select(*PLACE, F.col("_violations").alias("was"))
    pairs = now.select(*PLACE, F.col("_violations").alias("now")).join(was, PLACE, "full_outer")
    touched = pairs.where("was is not null or now is not null")
    return touched.groupBy(F.col("_event_date").cast("string").alias("day"), "was", "now").count()


def _add_up(contract: Contract, days: Iterable[date], groups: Iterable) -> Replay:
    replay = Replay(contract.name, contract.version)
    by_day = {day.isoformat(): DayReplay(day.isoformat()) for day in sorted(days)}
    for group in groups:
        rows, day = group["count"], by_day[group["day"]]
        fate = "newly_rejected" if not group["was"] else "still_rejected" if group["now"] else "recovered"
        setattr(day, fate, getattr(day, fate) + rows)
        for rule in group["was"] if fate == "recovered" else group["now"]:
            getattr(replay, fate)[rule] += rows
    replay.days = list(by_day.values())
    return replay
