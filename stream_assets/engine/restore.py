"""Puts rows of older versions of a table back, as one new commit with its own ledger page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from functools import reduce
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from stream_assets.engine import delta
from stream_assets.engine.history import WHOLE, History, read_history
from stream_assets.engine.ledger import Commit
from stream_assets.errors import LakeError


def restore(spark: SparkSession, history: History, targets: Mapping[str, int], commit: Commit) -> None:
    """Make each partition what it was in its version, all in one commit. A table without partitions goes back whole.

    Raises:
        LakeError: Afterwards there are not as many rows as there were: somebody else wrote at the same time.
    """
    replace(history, _rows(spark, history, targets), targets, commit)
    versions: dict[int, list[str]] = {}
    for part, version in targets.items():
        versions.setdefault(version, []).append(part)
    expected = sum(history.holding(version, parts).rows for version, parts in versions.items())
    now = read_history(history.path)
    found = now.holding(now.version, targets).rows if now else 0
    if found != expected:
        raise LakeError(
            f"{history.path} has {found:,} rows after going back to {expected:,}: it was changed at the same time. "
            f"Look at its history; `stream rollback --run {commit.run_id}` undoes this."
        )


def replace(history: History, rows: DataFrame, partitions: Iterable[str], commit: Commit) -> None:
    """Replace these partitions, or the whole of a table that has none, by these rows."""
    writer = rows.write.format("delta").mode("overwrite").option("userMetadata", commit.to_json())
    if history.partition_by is None:
        writer = writer.option("overwriteSchema", "true")
    else:
        days = [date.fromisoformat(day) for day in partitions]
        writer = writer.option("replaceWhere", delta.in_days(history.partition_by, days))
    delta.commit_by_spark(history.path, lambda: writer.save(history.path))


def note(spark: SparkSession, path: str, commit: Commit) -> None:
    """A commit that changes no row and only says something."""
    nothing = spark.read.format("delta").load(path).limit(0)
    writer = nothing.write.format("delta").mode("append").option("userMetadata", commit.to_json())
    # Delta makes no commit of nothing at all; a transaction identifier is something.
    writer = writer.option("txnAppId", f"note-{uuid4()}").option("txnVersion", 1)
    delta.commit_by_spark(path, lambda: writer.save(path))


def _rows(spark: SparkSession, history: History, targets: Mapping[str, int]) -> DataFrame:
    """The older rows. Those of some days have the columns of today: what a version did not have yet is null."""
    versions: dict[int, list[date]] = {}
    if history.partition_by is None:
        return _at(spark, history.path, targets[WHOLE])
    for day, version in targets.items():
        versions.setdefault(version, []).append(date.fromisoformat(day))
    frames = [
        _at(spark, history.path, version).where(delta.in_days(history.partition_by, days))
        for version, days in versions.items()
    ]
    today = spark.read.format("delta").load(history.path).limit(0)
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames, today)


def _at(spark: SparkSession, path: str, version: int) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", version).load(path)
