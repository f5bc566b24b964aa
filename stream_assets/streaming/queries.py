"""Starts the query of a stream: the event log of a dataset, or a view. Each has one table and one checkpoint.

Views whose rows only ever come are appended by Delta's own exactly-once sink. Views whose rows change are merged by key:
the stream gives absolute values, so merging a batch twice changes nothing, and rows that did not change are not written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from pyarrow import fs
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.engine.ledger import Commit
from stream_assets.engine.session import filesystem_of
from stream_assets.errors import LakeError
from stream_assets.settings import Settings
from stream_assets.streaming.batches import MergeRows
from stream_assets.streaming.compute import compute
from stream_assets.streaming.events import append_events, events_table, sound_events, without_repeats
from stream_assets.streaming.lateness import LATE_COLUMNS, LateSql, late_sql
from stream_assets.streaming.load import ViewSet
from stream_assets.streaming.model import Lookup, View

START_ATTEMPTS = 5
NEVER_LATE = timedelta(days=36_500)
NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


@dataclass(frozen=True)
class Streams:
    """Everything needed to start any stream of a lake."""

    settings: Settings
    contracts: Mapping[str, Contract]
    views: ViewSet
    salt: str

    @property
    def names(self) -> tuple[str, ...]:
        """Every stream, event logs first."""
        return (*(f"{name}_events" for name in self.views.datasets), *(view.name for view in self.views.views))

    def view(self, name: str) -> View | None:
        """The view of that name; None for an event log."""
        return next((view for view in self.views.views if view.name == name), None)

    def contract(self, name: str) -> Contract:
        """The contract of an event log or of a view's first dataset."""
        view = self.view(name)
        return self.contracts[view.source if view else name.removesuffix("_events")]

    def checkpoint(self, name: str) -> str:
        """Where a stream keeps its progress and state."""
        return f"{self.settings.checkpoints}/{name}"

    def start(self, spark: SparkSession, name: str, *, suffix: str = "", **trigger: Any) -> StreamingQuery:
        """Start the query of a stream. With a suffix it writes beside the real table.

        The server gives its Python worker ten seconds to start, which a busy machine may not have: it is asked again.
        """
        view = self.view(name)
        quicken(spark)
        # What is appended in a batch is small: planning it anew after every stage costs more than it saves.
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        # The event log sorts what it reads together (see `events.py`), which Spark would refuse.
        spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", str(view is not None).lower())
        # Only sessions and joins have something to say when time alone has moved on.
        spark.conf.set(NO_DATA_BATCHES, str(bool(view and not view.is_merged)).lower())
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "30")
        if not self.settings.spark_remote:
            # As many pieces of state as cores: each has its files to write in every batch. A checkpoint keeps the number it began with.
            spark.conf.set("spark.sql.shuffle.partitions", str(self.settings.spark_cores))
        for attempt in range(1, START_ATTEMPTS + 1):
            writer = self._view(spark, view, suffix) if view else self._events(spark, self.contract(name))
            writer = writer.queryName(name).option("checkpointLocation", self.checkpoint(name) + suffix)
            try:
                return writer.trigger(**trigger).start()
            except PySparkException as error:
                if attempt == START_ATTEMPTS or "failed to connect back" not in str(error):
                    raise
        raise AssertionError("the loop returns or raises")

    def _events(self, spark: SparkSession, contract: Contract) -> DataStreamWriter:
        table, app = (
            events_table(self.settings, contract),
            f"{contract.name}-{self._generation(f'{contract.name}_events')}",
        )
        delta.ensure(spark, table)
        late = {}
        for view in self.views.of(contract.name):
            place, sql = late_table(self.settings, view), late_sql(view, contract)
            self._prepare_late(spark, place, table, contract.name, sql)
            late[place.path] = sql
        waiting = [v.side(contract.name)[1] for v in self.views.of(contract.name) if v.kind != "transform"]
        patience = min(waiting, default=NEVER_LATE)
        bronze = _follow(spark, self.settings, self.settings.table_path("bronze", contract.name))
        events = without_repeats(sound_events(bronze, contract, self.salt), self.settings.dedup_days, _pieces(spark))
        return events.writeStream.foreachBatch(
            append_events(contract, table.path, late, patience=patience, app=app, few=self._few)
        ).outputMode("append")

    def _prepare_late(
        self, spark: SparkSession, late: delta.Table, events: delta.Table, dataset: str, sql: LateSql
    ) -> None:
        """Make the late table of a view. A view that came after its events finds those that are late for it in their log."""
        delta.ensure(spark, late)
        is_late, listed = sql
        found = f"select {', '.join(listed)} from {events.qualified} where {is_late}"  # noqa: S608 names of a checked view
        known = f"select 1 from {late.qualified} where dataset = '{dataset}'"  # noqa: S608 as above
        if spark.sql(known).isEmpty() and not spark.sql(found).isEmpty():
            delta.commit_by_spark(late.path, lambda: spark.sql(f"insert into {late.qualified} {found}"))

    def _view(self, spark: SparkSession, view: View, suffix: str) -> DataStreamWriter:
        rows = self.rows(spark, view, lambda name: _follow(spark, self.settings, self._events_path(name)))
        table = view_table(self.settings, view, rows, suffix)
        delta.ensure(spark, table)
        if view.is_merged:
            values = [c for c in rows.columns if c not in view.key]
            merge = MergeRows(table.path, view.key, values, source=f"changed_{uuid4().hex}", few=self._few)
            return rows.writeStream.foreachBatch(merge).outputMode("update")
        return rows.writeStream.format("delta").option("path", table.path).outputMode("append")

    def rows(self, spark: SparkSession, view: View, read: Callable[[str], DataFrame]) -> DataFrame:
        """The rows of a view made of these events."""
        return compute(view, self.contracts, read, self._looked_up(spark, view))

    def _looked_up(self, spark: SparkSession, view: View) -> DataFrame | None:
        if view.lookup is None:
            return None
        name = view.lookup.table or f"live.{view.name}_lookup"
        if not view.lookup.table and not delta.exists(spark, name):
            self.refresh_lookup(spark, view.name, view.lookup)
        if not delta.exists(spark, name):
            raise LakeError(f"Looks up {name}, which is not there yet: make it with `stream run`.")
        return spark.table(name)

    def refresh_lookup(self, spark: SparkSession, view: str, lookup: Lookup) -> None:
        """Compute the looked-up query again, in one commit."""
        found = spark.sql(str(lookup.sql))
        try:
            found.schema  # noqa: B018 a query is looked at when its columns are asked for
        except AnalysisException as error:
            if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
                raise
            missing = (error.getMessageParameters() or {}).get("relationName", "a table").replace("`", "")
            raise LakeError(f"Looks up {missing}, which is not there yet: make it with `stream run`.") from error
        columns = {f.name: (f.dataType.simpleString(), "") for f in found.schema.fields}
        table = delta.table_of(self.settings, "live", f"{view}_lookup", columns, partition_by=None, stats=lookup.by)
        delta.ensure(spark, table)
        delta.replace_all(table, found, commit=Commit("lookup", view, "live", "", {}))

    @property
    def _few(self) -> int:
        """Up to how many rows of a batch are written by delta-rs. A cluster's Python is not ours, and may not have it."""
        is_ours = self.settings.is_lake_at_hand and not self.settings.spark_remote
        return delta.FEW_ROWS if is_ours else 0

    def _events_path(self, dataset: str) -> str:
        return self.settings.table_path("live", f"{dataset}_events")

    def _generation(self, name: str) -> str:
        """A mark that lives as long as a checkpoint. Batches are counted from 0 again in a new one: Delta must not take them for old ones."""
        filesystem, path = filesystem_of(self.checkpoint(name))
        mark = f"{path}/generation"
        if filesystem.get_file_info(mark).type == fs.FileType.NotFound:
            filesystem.create_dir(path, recursive=True)
            with filesystem.open_output_stream(mark) as file:
                file.write(uuid4().hex.encode())
        with filesystem.open_input_stream(mark) as file:
            return file.read().decode()


def quicken(spark: SparkSession) -> None:
    """Plan without deriving constraints: with the rules of a contract below a filter, it takes Spark minutes per batch."""
    spark.conf.set("spark.sql.constraintPropagation.enabled", "false")


def view_table(settings: Settings, view: View, rows: DataFrame, suffix: str = "") -> delta.Table:
    """The served table of a view; its columns follow from its expressions."""
    columns = {f.name: (f.dataType.simpleString(), "") for f in rows.schema.fields}
    if view.is_merged:
        columns["_updated_at"] = ("timestamp", "When this row last changed.")
    stats = tuple(name for name in ("window_start", "window_end", "_updated_at") if name in columns) or ("_event_key",)
    stats = tuple(name for name in stats if name in columns) or tuple(columns)[:1]
    return delta.table_of(settings, "live", f"{view.name}{suffix}", columns, partition_by=None, stats=stats)


def late_table(settings: Settings, view: View) -> delta.Table:
    """Events that came too late for a view."""
    stats = ("event_time", "watermark", "_delivery_date")
    return delta.table_of(settings, "live", f"{view.name}_late", LATE_COLUMNS, partition_by=None, stats=stats)


def _pieces(spark: SparkSession) -> int:
    """In how many pieces state is kept."""
    return int(str(spark.conf.get("spark.sql.shuffle.partitions")))


def _follow(spark: SparkSession, settings: Settings, path: str) -> DataFrame:
    """A table as a stream of what is appended to it. Days that were replaced are the cold path's business."""
    # A bound on bytes too: what few events are is counted in rows, and they are held in memory.
    limits = {"maxFilesPerTrigger": str(settings.max_files_per_trigger), "maxBytesPerTrigger": "64m"}
    options = {"skipChangeCommits": "true", **limits}
    return spark.readStream.format("delta").options(**options).load(path)
