"""The Delta verbs every room uses: create a table, replace a range of days, replace the whole, read what is there.

A write is one commit that carries its ledger page: a replacement, or an addition that can be made once only. Doing it
again changes nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from stream_assets.engine.failures import is_lost_race
from stream_assets.engine.ledger import Commit
from stream_assets.engine.session import quoted
from stream_assets.errors import LakeError
from stream_assets.settings import Settings

COMMIT_ATTEMPTS = 8
FEW_DAYS = 31


@dataclass(frozen=True)
class Table:
    """A table to be: its place, columns (name → SQL type, comment) and layout."""

    layer: str
    name: str
    path: str
    columns: Mapping[str, tuple[str, str]]
    partition_by: str | None
    stats_columns: tuple[str, ...]
    """The only columns whose minimum and maximum Delta may write into its log: never payloads, never personal data."""

    @property
    def qualified(self) -> str:
        """Name in the catalogue."""
        return f"`{self.layer}`.`{self.name}`"


def table_of(
    settings: Settings,
    layer: str,
    name: str,
    columns: Mapping[str, tuple[str, str]],
    *,
    partition_by: str | None,
    stats: tuple[str, ...],
) -> Table:
    """A table at its place in the lake."""
    return Table(layer, name, settings.table_path(layer, name), columns, partition_by, stats)


def exists(spark: SparkSession, table: Table | str) -> bool:
    """Whether the catalogue knows the table."""
    return spark.catalog.tableExists((table if isinstance(table, str) else table.qualified).replace("`", ""))


def ensure(spark: SparkSession, table: Table) -> None:
    """Create the table, or add the columns it lacks. A changed type is refused: history would have to be rebuilt."""
    if not exists(spark, table):
        retry_conflicts(lambda: _create(spark, table), is_conflict=_is_being_made, attempts=5)
    present = {f.name: f.dataType.simpleString() for f in spark.table(table.qualified).schema.fields}
    missing = {name: kind for name, kind in table.columns.items() if name not in present}
    changed = {
        name: (present[name], kind)
        for name, (kind, _) in table.columns.items()
        if name in present and present[name] != kind
    }
    if changed:
        listing = ", ".join(f"{name}: {old} → {new}" for name, (old, new) in changed.items())
        raise LakeError(
            f"{table.layer}.{table.name} holds other types than the contract ({listing}). Move the old table at {table.path} away and "
            "run the dataset's whole history again: Silver is a function of Bronze."
        )
    if missing:
        spark.sql(f"alter table {table.qualified} add columns ({_column_list(missing)})")


def replace_days(table: Table, rows: DataFrame, *, days: Iterable[date], commit: Commit) -> None:
    """Replace exactly these days by these rows, atomically."""
    _write(table, rows, commit, {"replaceWhere": in_days(str(table.partition_by), days)})


def replace_all(table: Table, rows: DataFrame, *, commit: Commit) -> None:
    """Replace the whole table by these rows, atomically."""
    _write(table, rows, commit, {})


Token = tuple[str, int]
"""A name, and a number that grows: Delta keeps the last number of each name, and makes no commit with one that is not higher.

There should be few names: every checkpoint of a table carries all of them.
"""


def append_once(table: Table, rows: DataFrame, *, commit: Commit, token: Token | None) -> None:
    """Add these rows, unless a commit with this token was made before: then, silently, nothing. No token: add anyway.

    Delta looks the token up in the transaction itself, so of two writers with one token only one can commit.
    """
    _write(table, rows, commit, _once(token) if token else {}, mode="append")


def append_few(table: Table, rows: pa.Table, *, commit: Commit, token: Token | None) -> None:
    """The same for rows that are here already, by delta-rs: to look a token up, Spark computes the state of the whole table."""
    place = DeltaTable(table.path)
    if token and _is_used(place, token):
        return
    page = CommitProperties(
        custom_metadata={"userMetadata": commit.to_json()},
        app_transactions=[Transaction(*token)] if token else None,
    )
    try:
        write_deltalake(place, rows.select(list(table.columns)), mode="append", commit_properties=page)
    except CommitFailedError:
        # Another may have used the token since we looked: then there is nothing to do, as above.
        if not (token and _is_used(DeltaTable(table.path), token)):
            raise


def _is_used(place: DeltaTable, token: Token) -> bool:
    name, number = token
    done = place.transaction_version(name)
    return done is not None and done >= number


def replace_where(table: Table, rows: DataFrame, *, where: str, commit: Commit, token: Token) -> None:
    """Replace what the predicate holds on by these rows, atomically, unless this was done before."""
    _write(table, rows, commit, {"replaceWhere": where, **_once(token)})


def _once(token: Token) -> dict[str, str]:
    name, number = token
    return {"txnAppId": name, "txnVersion": str(number)}


def in_days(column: str, days: Iterable[date]) -> str:
    """SQL predicate that holds on exactly these days: Delta prunes partitions by it.

    A few days are a set, so that the code Spark generates for a daily run is the same every day, and many are ranges.
    """
    days = sorted(set(days))
    if 1 < len(days) <= FEW_DAYS:
        listed = ", ".join(f"date'{day}'" for day in days)
        return f"{column} in ({listed})"
    return (
        " or ".join(f"({column} >= date'{first}' and {column} <= date'{last}')" for first, last in day_ranges(days))
        or "false"
    )


def day_ranges(days: Iterable[date]) -> list[tuple[date, date]]:
    """Days as contiguous ranges, in order."""
    ranges: list[tuple[date, date]] = []
    for day in sorted(set(days)):
        if ranges and day - ranges[-1][1] == timedelta(days=1):
            ranges[-1] = (ranges[-1][0], day)
        else:
            ranges.append((day, day))
    return ranges


def _write(
    table: Table, rows: DataFrame, commit: Commit, options: Mapping[str, str], *, mode: str = "overwrite"
) -> None:
    def write() -> None:
        writer = rows.select(*table.columns).write.format("delta").mode(mode).option("userMetadata", commit.to_json())
        writer.options(**options).save(table.path)

    retry_conflicts(write)


def retry_conflicts(
    write: Callable[[], None], *, is_conflict: Callable[[str], bool] = is_lost_race, attempts: int = COMMIT_ATTEMPTS
) -> None:
    """Run a write again when another commit came first. Replacements are pure, so trying again is always right."""
    for attempt in range(1, attempts + 1):
        try:
            write()
            return
        except PySparkException as error:
            if attempt == attempts or not is_conflict(str(error)):
                raise
            time.sleep(random.uniform(0.1, 0.5) * 2**attempt)  # noqa: S311 spreads competing writers, no secret


def _is_being_made(text: str) -> bool:
    """Whether another session came first, or has made the folder and not yet the table in it."""
    return is_lost_race(text) or "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION" in text


def _create(spark: SparkSession, table: Table) -> None:
    partition = f"partitioned by ({table.partition_by})" if table.partition_by else ""
    properties = {
        "delta.dataSkippingStatsColumns": ",".join(table.stats_columns),
        "delta.logRetentionDuration": "interval 3650 days",
        "delta.deletedFileRetentionDuration": "interval 30 days",
    }
    if table.layer == "live":
        # A commit every second or two: by default every tenth would wait for a checkpoint.
        properties["delta.checkpointInterval"] = "50"
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql(
        f"create table if not exists {table.qualified} ({_column_list(table.columns)}) using delta {partition} "
        f"location '{quoted(table.path)}' tblproperties ({listed})"
    )


def _column_list(columns: Mapping[str, tuple[str, str]]) -> str:
    return ", ".join(f"`{name}` {kind} comment '{quoted(comment)}'" for name, (kind, comment) in columns.items())
