"""What becomes of a micro-batch: events are appended to their log, changed rows are merged into their view.

This runs in a process of the server, which may be elsewhere: it is sent there as it is, with the one thing of ours it uses. What
seconds bring is written by delta-rs. Spark takes a job or more to find out what a table holds before it adds to it, and
six to merge, whatever the size; it is there for what has waited, and for a rebuild. Moments are microseconds.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_assets.engine import turns

for module in (sys.modules[__name__], turns):
    cloudpickle.register_pickle_by_value(module)

FEW_SECONDS = 100
"""Of arrival, in a batch: their clocks are then a map rather than a table to join with."""
Place = tuple[int, int]
"""The day of delivery and the second of arrival."""
Arrival = tuple[int, int | None, int | None]
"""Of the events of a second: how many are early, the newest time of the others, the oldest time."""


@dataclass
class AppendEvents:
    """Gives each event its clock, puts late ones aside, appends the rest.

    A batch done twice changes nothing: every write is marked with the batch, and one that was made before is not made again. Late rows
    go first, and the clock is read from the log. So if we die before the log is written, the clock is the same the next time; if
    we die after it, the batch is in the log, its late rows are too, and it is left alone: to a clock that has seen it, its own
    events would look late.
    """

    path: str
    time: str
    """The column that says when an event happened."""
    columns: list[str]
    early: str
    """SQL: an event dated after its arrival, by more than `ahead`."""
    ahead: int
    late: Mapping[str, tuple[str, tuple[str, ...]]]
    """By late table: SQL for who is late, and what is told of them."""
    patience: int
    """An event that is behind the clock by less is late for no view."""
    app: str
    """Marks our writes."""
    few: int
    clock: list[int | None] = field(default_factory=list)
    """How far time has moved; nothing until it was looked up."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch."""
        # Never `spark.sql("… {batch}", batch=batch)` here: it drops its temporary view afterwards, which un-persists what is below,
        # and every use would parse, judge and deduplicate the batch again.
        batch = batch.selectExpr(
            "*", "unix_date(_delivery_date) as _day", "unix_seconds(_ingested_at) as _second"
        ).persist()
        rows = batch.limit(self.few + 1).toArrow()
        is_small = rows.num_rows <= self.few
        arrivals = self._arrivals_among(rows) if is_small else self._arrivals_in(batch)
        if arrivals and (self.clock or not self._is_done(batch, arrivals)):
            clocks, clock, is_odd = self._tell_time(arrivals, self._known_clock(batch))
            if not (is_small and not is_odd and self._append_few(rows, clocks, batch_id)):
                self._append(self._timed(batch, clocks), batch_id, is_odd=is_odd)
            self.clock = [clock]
        batch.unpersist()

    def _arrivals_among(self, rows: pa.Table) -> dict[Place, Arrival]:
        found: dict[Place, Arrival] = {}
        moments, arrived = (rows[name].cast("int64").to_pylist() for name in (self.time, "_ingested_at"))
        for place, moment, came in zip(_places(rows), moments, arrived, strict=True):
            odd, newest, oldest = found.get(place, (0, None, None))
            is_early = moment > came + self.ahead
            newest = newest if is_early else max(moment, newest or moment)
            found[place] = (odd + is_early, newest, min(moment, oldest or moment))
        return found

    def _arrivals_in(self, batch: DataFrame) -> dict[Place, Arrival]:
        told = (
            f"count_if({self.early})",
            f"unix_micros(max({self.time}) filter (where not {self.early}))",
            f"unix_micros(min({self.time}))",
        )
        found = batch.groupBy("_day", "_second").agg(*map(F.expr, told)).collect()
        return {(row[0], row[1]): (row[2], row[3], row[4]) for row in found}

    def _is_done(self, batch: DataFrame, arrivals: Mapping[Place, Arrival]) -> bool:
        """Whether the log has events of the batch. Only the first one after a start can have been done before."""
        log = batch.sparkSession.read.format("delta").load(self.path)
        since = min(second for _, second in arrivals)
        place = ["_source", "_position"]
        known = log.where(f"_ingested_at >= timestamp_seconds({since})").select(*place)
        return not batch.join(known, place, "left_semi").isEmpty()

    def _known_clock(self, batch: DataFrame) -> int | None:
        if not self.clock:
            newest = f"select unix_micros(max(greatest(_clock, {self.time}))) from delta.`{self.path}`"  # noqa: S608 names of a checked contract
            self.clock = [batch.sparkSession.sql(newest).collect()[0][0]]
        return self.clock[0]

    def _tell_time(
        self, arrivals: Mapping[Place, Arrival], clock: int | None
    ) -> tuple[dict[Place, int | None], int | None, bool]:
        """The clock of each second, the clock afterwards, and whether somebody may be early or late."""
        clocks: dict[Place, int | None] = {}
        is_odd = False
        for place, (odd, newest, oldest) in sorted(arrivals.items()):
            clocks[place] = clock
            is_odd |= odd > 0 or (clock is not None and oldest is not None and oldest <= clock - self.patience)
            clock = max((moment for moment in (clock, newest) if moment is not None), default=None)
        return clocks, clock, is_odd

    def _append_few(self, rows: pa.Table, clocks: Mapping[Place, int | None], batch_id: int) -> bool:
        # Here, not above: a cluster that writes everything by Spark need not have it.
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        clock = pa.array([clocks[place] for place in _places(rows)], pa.timestamp("us", "UTC"))
        timed = rows.select(self.columns).append_column("_clock", clock)
        mark = CommitProperties(app_transactions=[Transaction(self.app, batch_id)])
        with turns.turn_of_ours(self.path) as is_ours:
            table = DeltaTable(self.path)
            done = table.transaction_version(self.app)
            if is_ours and (done is None or done < batch_id):
                write_deltalake(table, timed, mode="append", commit_properties=mark)
        return is_ours

    def _timed(self, batch: DataFrame, clocks: Mapping[Place, int | None]) -> DataFrame:
        if len(clocks) <= FEW_SECONDS:
            # A map is handed to generated code, where a moment would be written into it and compiled anew for every batch.
            parts = [F.lit(part) for (day, second), clock in clocks.items() for part in (f"{day} {second}", clock)]
            told = batch.withColumn("_clock", F.create_map(*parts)[F.concat_ws(" ", "_day", "_second")])
        else:
            known = [(*place, clock) for place, clock in clocks.items()]
            table = batch.sparkSession.createDataFrame(known, "_day int, _second bigint, _clock bigint")
            told = batch.join(F.broadcast(table), ["_day", "_second"])
        return told.withColumn("_clock", F.timestamp_micros(F.col("_clock").cast("bigint")))

    def _append(self, timed: DataFrame, batch_id: int, *, is_odd: bool) -> None:
        def append(rows: DataFrame, place: str) -> None:
            mark = {"txnAppId": self.app, "txnVersion": str(batch_id)}
            with turns.turn_of_spark(place):
                rows.coalesce(1).write.format("delta").mode("append").options(**mark).save(place)

        if is_odd:
            counts = timed.agg(*[F.expr(f"count_if({is_late})") for is_late, _ in self.late.values()]).collect()[0]
            for number, (place, (is_late, told)) in zip(counts, self.late.items(), strict=True):
                if number:
                    append(timed.where(is_late).selectExpr(*told), place)
        append(timed.where(f"not {self.early}").select(*self.columns, "_clock"), self.path)


@dataclass
class MergeRows:
    """Merges the rows of a view that changed. Values are absolute: merging them twice changes nothing."""

    path: str
    key: tuple[str, ...]
    values: list[str]
    source: str
    """A name of its own for what is merged."""
    few: int

    def __call__(self, batch: DataFrame, _: int) -> None:
        """Write a batch."""
        batch = batch.persist()
        rows = batch.limit(self.few + 1).toArrow()
        same = " and ".join(f"(t.`{name}` is not distinct from s.`{name}`)" for name in self.key)
        differs = " or ".join(f"(t.`{name}` is distinct from s.`{name}`)" for name in self.values)
        if rows.num_rows and not (rows.num_rows <= self.few and self._merge_few(rows, same, differs)):
            batch.selectExpr("*", "current_timestamp() as _updated_at").createOrReplaceTempView(self.source)
            with turns.turn_of_spark(self.path):
                batch.sparkSession.sql(
                    f"merge into delta.`{self.path}` t using {self.source} s on {same} "
                    f"when matched and ({differs}) then update set * when not matched then insert *"
                )
        batch.unpersist()

    def _merge_few(self, rows: pa.Table, same: str, differs: str) -> bool:
        from deltalake import DeltaTable

        now = pa.array([datetime.now(UTC)] * rows.num_rows, pa.timestamp("us", "UTC"))
        changed = rows.append_column("_updated_at", now)
        with turns.turn_of_ours(self.path) as is_ours:
            if is_ours:
                merger = DeltaTable(self.path).merge(changed, same, source_alias="s", target_alias="t")
                merger.when_matched_update_all(differs).when_not_matched_insert_all().execute()
        return is_ours


def _places(rows: pa.Table) -> list[Place]:
    return list(zip(rows["_day"].to_pylist(), rows["_second"].to_pylist(), strict=True))
