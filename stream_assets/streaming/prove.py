"""Proves a windowed view right: its closed windows, computed again in batch from Bronze, must be the served ones.

The batch knows nothing of the stream's state. It takes Bronze as far as the event log has read it, and believes the late table
about which events came too late for which windows; any other difference is a fault.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_assets.engine.session import filesystem_of
from stream_assets.streaming.events import sound_events, without_repeats
from stream_assets.streaming.lateness import is_early
from stream_assets.streaming.model import WINDOWED, View
from stream_assets.streaming.queries import Streams, quicken

SHOWN = 10


@dataclass(frozen=True)
class Proof:
    """What the comparison found."""

    compared: int
    """Closed windows looked at."""
    open_windows: int
    """Windows that may still change, and so were not compared."""
    late_events: int
    """Events that are left out of windows on purpose."""
    differences: list[dict[str, Any]] = field(default_factory=list)
    """Windows that are not what Bronze says, the first of them."""
    wrong: int = 0

    @property
    def summary(self) -> str:
        """One sentence for people."""
        state = f"{self.wrong} differ" if self.wrong else "all are what Bronze says"
        return f"{self.compared:,} closed windows: {state}. {self.late_events:,} events came too late, {self.open_windows:,} windows are open."


def is_provable(view: View) -> bool:
    """Windows over events alone. What was looked up may have changed since."""
    return view.kind in WINDOWED and view.lookup is None


def prove(spark: SparkSession, streams: Streams, view: View) -> Proof:
    """Compare the closed windows of a view with a recomputation from Bronze."""
    quicken(spark)
    served = spark.table(f"live.{view.name}").drop("_updated_at")
    late = spark.table(f"live.{view.name}_late")
    expected = streams.rows(spark, view, lambda _: _events(spark, streams, view, late))
    horizon = f"interval {int(view.watermark.total_seconds())} seconds"
    # Time, as the view knows it, is at least at the start of its newest window.
    newest = served.agg(F.max("window_start").alias("t")).collect()[0]["t"]
    if newest is None:
        return Proof(0, 0, late.count())
    closed = F.col("window_end") <= F.lit(newest) - F.expr(horizon)
    differing = _compare(expected.where(closed), served.where(closed), view.key)
    return Proof(
        compared=served.where(closed).count(),
        open_windows=served.where(~closed).count(),
        late_events=late.count(),
        differences=[row.asDict(recursive=True) for row in differing.limit(SHOWN).collect()],
        wrong=differing.count(),
    )


def _events(spark: SparkSession, streams: Streams, view: View, late: DataFrame) -> DataFrame:
    """The events of Bronze, each once; those that came late know how late."""
    contract = streams.contracts[view.source]
    path, version = (
        streams.settings.table_path("bronze", contract.name),
        read_position(streams, f"{contract.name}_events"),
    )
    bronze = spark.read.format("delta").option("versionAsOf", version).load(path)
    events = without_repeats(sound_events(bronze, contract, streams.salt), 0).where(
        f"not {is_early(str(contract.event_time))}"
    )
    delay = F.expr(f"interval {int(view.watermark.total_seconds())} seconds")
    known = late.where(f"dataset = '{contract.name}'").select(
        "_event_key", (F.col("watermark") + delay).alias("_clock")
    )
    return events.join(known.dropDuplicates(["_event_key"]), "_event_key", "left")


def _compare(expected: DataFrame, served: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Rows of either side that the other lacks. Each side is used once: Spark loses a generator's columns in a plan used twice."""
    columns = expected.columns
    sides = expected.withColumn("_side", F.lit(1)).unionByName(served.select(*columns).withColumn("_side", F.lit(-1)))
    uneven = sides.groupBy(*columns).agg(F.sum("_side").alias("_more")).where("_more <> 0")
    found = F.when(F.col("_more") > 0, "only in Bronze").otherwise("only in the view")
    return uneven.select(*columns, found.alias("_found")).orderBy(*key)


def read_position(streams: Streams, name: str) -> int:
    """The version of its source that a stream has read completely, from its own checkpoint."""
    filesystem, path = filesystem_of(streams.checkpoint(name))
    done = [
        int(f.base_name) for f in filesystem.get_file_info(fs.FileSelector(f"{path}/commits")) if f.base_name.isdigit()
    ]
    with filesystem.open_input_stream(f"{path}/offsets/{max(done)}") as file:
        offset = json.loads(file.read().decode().splitlines()[2])
    return offset["reservoirVersion"] - 1
