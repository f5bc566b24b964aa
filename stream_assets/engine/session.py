"""A Spark session over Connect, and the catalogue that mirrors the lake."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyarrow import fs
from pyspark import StorageLevel
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_assets.engine.failures import is_gone  # noqa: F401 whoever opens a session asks here
from stream_assets.engine.server import Connection, connect
from stream_assets.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

LAYERS = ("bronze", "silver", "quarantine", "audit", "gold", "live")
REGISTERED = "stream_registered"
"""An empty database that says that every table is registered: without it, somebody is still at it or has died over it."""
ROWS_PER_SHUFFLED_TASK, MOST_SHUFFLED_TASKS = 500_000, 16
_WHOLE_FILE = str(1 << 40)


def open_session(settings: Settings) -> SparkSession:
    """A new session on the engine, started if need be, with every table of the lake in the catalogue."""
    connection = connect(settings)
    use_token(connection)
    spark = SparkSession.builder.remote(connection.url).create()
    give_up_early(spark, connection)
    # What must hold of the rows of a plan, deduced for filters it could add: of the rules of a contract that takes seconds, and finds none.
    spark.conf.set("spark.sql.constraintPropagation.enabled", "false")
    # Rows are kept for seconds: to look for the best compression of each column costs more than what it saves.
    spark.conf.set("spark.sql.inMemoryColumnarStorage.compressed", "false")
    register_lake(spark, settings)
    return spark


def give_up_early(spark: SparkSession | ConnectSession, connection: Connection) -> None:
    """Do not wait ten minutes, as the client would by default, for our own server to come back: it will not.

    The client's log repeats every error, with its stack, that is raised anyway. The client brings pandas along: whoever only loads
    the definitions has no need of it.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy

    keep_shared_threads()
    logging.getLogger("pyspark.sql.connect.logging").setLevel(logging.CRITICAL + 1)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    if connection.token:
        patience = DefaultPolicy(max_retries=8, backoff_multiplier=4, initial_backoff=50, max_backoff=2_000)
        spark.client.set_retry_policies([patience])  # pyright: ignore[reportAttributeAccessIssue]


def keep_shared_threads() -> None:
    """Let the threads that the client's sessions share live as long as the process.

    The first session to close would stop them under the queries of the others ("cannot schedule new futures after shutdown").
    """
    from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator

    ExecutePlanResponseReattachableIterator.shutdown = classmethod(lambda _: None)  # type: ignore[method-assign]


def use_token(connection: Connection) -> None:
    """Hand the token to the client library, which reads it from the environment."""
    if connection.token:
        os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = connection.token


def register_lake(spark: SparkSession, settings: Settings) -> None:
    """Make the catalogue say what the lake holds.

    Our server keeps its catalogue in memory: the lake's layout is the truth, and a restart loses nothing. The catalogue
    is filled once per server; a cluster with a metastore already knows its tables.
    """
    known = {row.namespace for row in spark.sql("show databases").collect()}
    if REGISTERED in known:
        return
    found = lake_tables(settings)
    for layer in LAYERS:
        if layer not in known:
            spark.sql(f"create database if not exists `{layer}`")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda table: register(spark, settings, *table.split("/")), found))
    spark.sql(f"create database if not exists `{REGISTERED}`")


def register(spark: SparkSession, settings: Settings, layer: str, name: str) -> None:
    """Name an existing table of the lake in the catalogue."""
    spark.sql(
        f"create table if not exists `{layer}`.`{name}` using delta location '{quoted(settings.table_path(layer, name))}'"
    )


def quoted(text: str) -> str:
    """Text for the inside of a SQL string literal."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def lake_tables(settings: Settings) -> list[str]:
    """Every table that the lake holds (`silver/orders`), in the order data flows."""
    return [f"{layer}/{name}" for layer in LAYERS for name in tables_in(settings, layer)]


def tables_in(settings: Settings, layer: str) -> list[str]:
    """The names of the tables that one layer holds."""
    filesystem, path = filesystem_of(f"{settings.lake}/{layer}")
    folders = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    names = sorted(f.base_name for f in folders if f.type == fs.FileType.Directory)
    logs = filesystem.get_file_info([f"{path}/{name}/_delta_log" for name in names]) if names else []
    return [name for name, log in zip(names, logs, strict=True) if log.type == fs.FileType.Directory]


def filesystem_of(place: str) -> tuple[fs.FileSystem, str]:
    """The file system of a folder or an object-store URI, and the path in it."""
    return fs.FileSystem.from_uri(place) if "://" in place else (fs.LocalFileSystem(), place)


@contextmanager
def kept(rows: DataFrame, *, few: bool = False) -> Iterator[DataFrame]:
    """The rows, computed once and kept while inside.

    Spark knows kept rows by their plan, which names the tables they come from and not their versions, and gives them to every
    session: to another run, to the next one if this one is killed. A filter that nobody else has makes the plan ours alone.

    A `few` are taken out of their plan instead: to analyse a long plan again for each question takes longer than to answer it. Their
    memory is given back later, when the JVM next collects garbage, so that it must be little.
    """
    if few:
        taken: Any = rows.localCheckpoint()
        # The client takes them for those of the session that this thread, or the process, opened last.
        taken._session = taken._plan._spark_session = rows.sparkSession
        yield taken
        return
    ours = rows.where(F.lit(uuid4().hex).isNotNull()).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield ours
    finally:
        ours.unpersist()


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """While inside, this session has these settings."""
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)


def plan_settings(rows: int) -> dict[str, str]:
    """How a session is to plan queries that read so many rows: a few, once, with as many tasks as they are worth.

    Spark would plan every query anew after each of its shuffles, by how much went through it, which for a little takes longer than to
    do it. Of many rows it should know.
    """
    tasks = 1 + rows // ROWS_PER_SHUFFLED_TASK
    if tasks > MOST_SHUFFLED_TASKS:
        return {}
    return {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": str(tasks)}


def one_task_per_file(spark: SparkSession) -> AbstractContextManager[None]:
    """While inside, every input file is read by one task, from its first line to its last.

    A row's number within its task is then its line number, with no shuffle and no second pass. And all its rows are of one day, which
    are written as they come: Delta would sort them by day.
    """
    return configured(
        spark,
        {
            "spark.sql.files.maxPartitionBytes": _WHOLE_FILE,
            "spark.sql.files.openCostInBytes": _WHOLE_FILE,
            "spark.sql.maxConcurrentOutputFileWriters": "4",
        },
    )
