"""The Delta verbs every room uses: create a table, replace a range of days, replace the whole, read what is there.

A write is one commit that carries its ledger page: a replacement, or an addition that can be made once only. Doing it
again changes nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from stream_assets.engine.failures import is_lost_race
from stream_assets.engine.files import count_by, files_in
from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import newest_version
from stream_assets.engine.session import configured, quoted
from stream_assets.engine.turns import turn_of_ours, turn_of_spark
from stream_assets.errors import LakeError, MovedError
from stream_assets.settings import Settings

Result = TypeVar("Result")
Mode = Literal["append", "overwrite"]
Token = tuple[str, int]
"""A name, and a number that grows: Delta keeps the last number of each name, and makes no commit with one that is not higher.

There should be few names: every checkpoint of a table carries all of them.
"""
COMMIT_ATTEMPTS = 8
MOST_LISTED_DAYS = 400
FEW_ROWS, FEW_BYTES = 50_000, 64 << 20
UNPACKED = 10
"""How much larger rows are in memory than in the files of a table, at a guess on the safe side."""


@dataclass(frozen=True)
class Size:
    """How much there is to write, at most. A little is fetched and committed here, where Spark would take jobs to prepare it."""

    rows: int
    bytes: int

    def __add__(self, other: Size) -> Size:
        return Size(self.rows + other.rows, self.bytes + other.bytes)

    @property
    def is_small(self) -> bool:
        """Whether it can be held in this process."""
        return self.rows <= FEW_ROWS and self.bytes <= FEW_BYTES


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
    is_at_hand: bool = True
    """Whether this process may write it too, and not Spark alone."""
    varied: tuple[str, ...] = ()
    """Columns whose values hardly repeat: a dictionary of them would be made for nothing."""

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
    varied: tuple[str, ...] = (),
) -> Table:
    """A table at its place in the lake."""
    path, is_at_hand = settings.table_path(layer, name), settings.is_lake_at_hand
    return Table(layer, name, path, columns, partition_by, stats, is_at_hand, varied)


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
        added = f"alter table {table.qualified} add columns ({_column_list(missing)})"
        commit_by_spark(table.path, lambda: spark.sql(added))


def replace_days(
    table: Table,
    rows: DataFrame,
    *,
    days: Iterable[date],
    commit: Commit,
    token: Token | None = None,
    size: Size | None = None,
    at_hand: Callable[[], DataFrame] | None = None,
) -> None:
    """Replace exactly these days by these rows, atomically, unless a commit with this token was made before.

    `at_hand` gives the same rows in a quicker way if they are few. It may look at what they replace: if that changes, it is asked again.
    """
    options = {"replaceWhere": in_days(str(table.partition_by), days), **(_once(token) if token else {})}
    _write(table, rows, commit, options, size=size, at_hand=at_hand)


def replace_all(
    table: Table, rows: DataFrame, *, commit: Commit, size: Size | None = None, since: int | None = None
) -> None:
    """Replace the whole table by these rows, atomically, if it still has the version `since` which they were computed."""
    _write(table, rows, commit, {}, size=size, since=since)


def append_once(
    table: Table, rows: DataFrame, *, commit: Commit, token: Token | None, size: Size | None = None
) -> None:
    """Add these rows, unless a commit with this token was made before: then, silently, nothing. No token: add anyway.

    Delta looks the token up in the transaction itself, so of two writers with one token only one can commit.
    """
    _write(table, rows, commit, _once(token) if token else {}, mode="append", size=size)


def next_token(path: str, name: str) -> Token:
    """The token of the next commit of this name. Looked up before what the commit depends on, it is used up when that has changed."""
    last = DeltaTable(path).transaction_version(name)
    return name, 0 if last is None else last + 1


def replace_where(table: Table, rows: DataFrame, *, where: str, commit: Commit, token: Token) -> None:
    """Replace what the predicate holds on by these rows, atomically, unless this was done before."""
    _write(table, rows, commit, {"replaceWhere": where, **_once(token)})


def _once(token: Token) -> dict[str, str]:
    name, number = token
    return {"txnAppId": name, "txnVersion": str(number)}


def size_of(table: Table, days: Iterable[date] | None = None) -> Size:
    """How much a table holds, or some days of it, as its log says."""
    wanted = None if days is None else {day.isoformat() for day in days}
    files = [file for file in files_in(table.path) if wanted is None or file.day in wanted]
    return Size(sum(file.rows for file in files), UNPACKED * sum(file.bytes for file in files))


def count_by_day(
    path: str,
    columns: Sequence[str],
    *,
    of: str,
    days: Sequence[date],
    but: pc.Expression | None = None,
    version: int | None = None,
) -> dict[tuple[Any, ...], int]:
    """Rows of these days by the values of some small columns, except some, counted in the files of a table."""
    if not days:
        return {}
    wanted = pc.field(of).isin(pa.array(days, pa.date32()))
    where = wanted if but is None else wanted & ~but
    return count_by(path, columns, where, within=in_days(of, days), version=version)


def in_days(column: str, days: Iterable[date]) -> str:
    """SQL predicate that holds on exactly these days: Delta prunes partitions by it.

    Days are a set, so that the code Spark generates is the same for others of them, and very many are ranges.
    """
    days = sorted(set(days))
    if 1 < len(days) <= MOST_LISTED_DAYS:
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
    table: Table,
    rows: DataFrame,
    commit: Commit,
    options: Mapping[str, str],
    *,
    mode: Mode = "overwrite",
    size: Size | None = None,
    since: int | None = None,
    at_hand: Callable[[], DataFrame] | None = None,
) -> None:
    def fetch() -> pa.Table:
        return (at_hand() if at_hand else rows).select(*table.columns).toArrow()

    is_little = table.is_at_hand and size is not None and size.is_small
    if is_little and write_here(table.path, fetch, commit, options, mode, since):
        return
    writer = (
        rows.select(*table.columns)
        .write.format("delta")
        .mode(mode)
        .option("userMetadata", commit.to_json())
        .options(**options)
    )

    def write() -> None:
        _refuse_moved(table.path, newest_version(table.path), since)
        writer.save(table.path)

    # Delta passes no such option on to Parquet's writer.
    no_dictionaries = {f"parquet.enable.dictionary#{column}": "false" for column in table.varied}
    with configured(rows.sparkSession, no_dictionaries):
        commit_by_spark(table.path, write)


def _refuse_moved(path: str, version: int | None, since: int | None) -> None:
    if since is not None and version != since:
        raise MovedError(
            f"{path} was changed again and again while it was computed anew. Run it when less is going on."
        )


def write_here(
    path: str,
    fetch: Callable[[], pa.Table],
    commit: Commit,
    options: Mapping[str, str],
    mode: Mode,
    since: int | None = None,
) -> bool:
    """Write rows by delta-rs, with the options that Spark's writer would get; False if it is not our turn to commit.

    What came since we looked is a conflict if it concerns the same days, and anything is if the whole table is replaced. We look
    before the rows are computed, for they may be computed from what they replace.
    """
    where, token = options.get("replaceWhere"), (options.get("txnAppId", ""), int(options.get("txnVersion", 0)))
    page = CommitProperties(
        {"userMetadata": commit.to_json()},
        max_commit_retries=None if where or mode == "append" else 0,
        app_transactions=[Transaction(*token)] if token[0] else None,
    )

    def write() -> bool:
        place = DeltaTable(path)
        _refuse_moved(path, place.version(), since)
        if token[0] and _is_used(place, token):
            return True
        rows = fetch()
        with turn_of_ours(path) as is_ours:
            if is_ours:
                # Its overloads tell the modes apart.
                write_deltalake(place, rows, mode=mode, predicate=where, commit_properties=page)  # pyright: ignore[reportArgumentType]
        return is_ours

    try:
        return retry_conflicts(write)
    except DeltaError as error:
        if is_lost_race(str(error)):
            raise
        raise LakeError(f"{path} could not be written, and is as it was: {error}") from error


def _is_used(place: DeltaTable, token: Token) -> bool:
    name, number = token
    done = place.transaction_version(name)
    return done is not None and done >= number


def commit_by_spark(path: str, write: Callable[[], object]) -> None:
    """Let Spark commit something to the table that lies there, again if another commit came first."""
    with turn_of_spark(path):
        retry_conflicts(write)


def retry_conflicts(
    write: Callable[[], Result], *, is_conflict: Callable[[str], bool] = is_lost_race, attempts: int = COMMIT_ATTEMPTS
) -> Result:
    """Run a write again when another commit came first. Replacements are pure, so trying again is always right."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return write()
        except (PySparkException, CommitFailedError) as error:
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
