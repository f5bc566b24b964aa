"""Makes the archive of the engine's classes: an engine of its own does a little of everything, and leaves what it loaded."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from filelock import FileLock
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from stream_assets.engine.archive import class_archive
from stream_assets.engine.java import find_java
from stream_assets.engine.server import connect, stop
from stream_assets.engine.session import kept, open_session
from stream_assets.settings import Settings

DUMP_TIMEOUT_S = 120


def keep_classes(settings: Settings, *, report: Callable[[str], None] = lambda _: None) -> None:
    """Make the archive, unless there is one or this environment is not ours to write into."""
    archive = class_archive(find_java())
    if archive.exists() or not os.access(archive.parents[2], os.W_OK):
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(archive.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        if archive.exists():
            return
        report("Loading the engine's classes once, for quicker starts (half a minute) …")
        classes, stage = Path(folder) / "classes.jsa", _stage(settings, Path(folder))
        connect(stage, classes_to=classes)
        try:
            rehearse(open_session(stage), f"{stage.lake}/rehearsal")
        finally:
            stop(stage, timeout_s=DUMP_TIMEOUT_S)
        if classes.exists():
            classes.rename(archive)


def _stage(settings: Settings, folder: Path) -> Settings:
    return replace(settings, home=folder, lake=str(folder / "lake"), spark_memory="1g")


def rehearse(spark: SparkSession, path: str) -> None:
    """What every run does: parse, judge, deduplicate, keep, write, replace, join and count."""
    record = F.struct(
        (F.col("id") % 7).alias("key"), F.lit("2025-01-01").alias("day"), F.lit("2025-01-01T10:00:00Z").alias("at")
    )
    read = F.from_json(F.to_json(record), "key bigint, day date, at timestamp", {"mode": "PERMISSIVE"})
    place = F.row_number().over(Window.partitionBy("key").orderBy(F.desc("at")))
    judged = spark.range(100).select(read.alias("r")).select("r.*").where(F.col("key").cast("string").rlike("^[0-9]$"))
    hashed = F.sha2(F.col("key").cast("string"), 256)
    with kept(judged.select("*", hashed.alias("hash"), place.alias("place")).where("place = 1")) as rows:
        rows.write.format("delta").partitionBy("day").save(path)
        rows.write.format("delta").mode("overwrite").option("replaceWhere", "day = date'2025-01-01'").save(path)
        there = spark.read.format("delta").load(path)
        there.join(rows, "key", "left_semi").groupBy("day").count().toArrow()
    spark.stop()
