"""The job as a plain PySpark script with Delta, written and tuned by somebody who knows both.

`full` loads a range of deliveries, `merge` adds one to a lake that exists. Run by itself, with its own driver and JVM.
"""

from __future__ import annotations

import os

from delta.tables import DeltaTable
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.job import CUSTOMER_METRICS, DAILY_REVENUE, DATASETS, ENVELOPE, Dataset, Load, read_arguments
from stream_assets.engine.jars import resolve_jars
from stream_assets.engine.java import find_java
from stream_assets.settings import Settings

LINE_NUMBER = (1 << 33) - 1
"""The low bits of `monotonically_increasing_id`: the number of a row within its task."""
MASK = r"regexp_replace({0}, r'(?<=\S)\S', '*')"


def main() -> None:
    """Run what the command line asks for."""
    load, mode = read_arguments(("full", "merge"))
    spark = open_spark(Settings.from_env())
    for dataset in DATASETS:
        land(spark, load, dataset, is_new=mode == "full")
        conformed = conform(spark, load, dataset).persist(StorageLevel.MEMORY_AND_DISK)
        {"full": write_all, "merge": merge_day}[mode](load, dataset, conformed)
        conformed.unpersist()
    aggregate(spark, load, is_new=mode == "full")
    spark.stop()


def open_spark(settings: Settings) -> SparkSession:
    """A session of its own, with the settings that matter on one machine."""
    os.environ.setdefault("JAVA_HOME", str(find_java().resolve().parent.parent))
    cores = settings.spark_cores
    conf = {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": settings.spark_memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.jars": ",".join(map(str, resolve_jars(settings.jars, "spark"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(max(4, cores * 2)),
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    builder = SparkSession.builder.appName("plain")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def land(spark: SparkSession, load: Load, dataset: Dataset, *, is_new: bool) -> None:
    """Keep every line as received, with its file and number. One task reads one file, so that rows can be counted."""
    for key in ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"):
        spark.conf.set(key, str(1 << 40))
    text = spark.read.text([str(file) for file in load.files(dataset)], lineSep="\n")
    is_valid = F.expr("is_valid_utf8(value)")
    lines = text.select(
        F.when(is_valid, F.col("value")).otherwise(F.expr("make_valid_utf8(value)")).alias("_raw"),
        F.when(~is_valid, F.col("value").cast("binary")).alias("_raw_bytes"),
        F.regexp_extract("_metadata.file_path", r"[^/]+/[^/]+/[^/]+$", 0).alias("_source"),
        (F.monotonically_increasing_id().bitwiseAND(LINE_NUMBER) + 1).alias("_position"),
        F.regexp_extract("_metadata.file_path", r"/(\d{4}-\d{2}-\d{2})/", 1).cast("date").alias("_delivery_date"),
    )
    _write(lines, load.table("bronze", dataset.name), "_delivery_date", None if is_new else _day(load))
    for key in ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"):
        spark.conf.unset(key)


def conform(spark: SparkSession, load: Load, dataset: Dataset) -> DataFrame:
    """The records of these deliveries, typed and judged.

    The line is parsed inside a wrapper, so that text after the document is noticed, and `inline` keeps the optimizer from
    parsing again for every column.
    """
    envelope = ", ".join(f"{source} string" for source, _ in ENVELOPE.values())
    data = ", ".join(f"{name} string" for name in dataset.data)
    names = [f"{source} as {name}" for name, (source, _) in ENVELOPE.items()] + list(dataset.data)
    bronze = spark.read.format("delta").load(load.table("bronze", dataset.name))
    bronze = bronze.where(f"_delivery_date between date'{load.first}' and date'{load.last}'")
    kept = bronze.columns
    whole = bronze.selectExpr(
        *kept,
        f"inline(array(from_json(concat('{{\"r\":', _raw, ',\"whole\":1}}'), 'r struct<{envelope}, data string>, whole int')))",
    )
    fields = whole.selectExpr(
        *kept,
        "whole",
        "r.*",
        f"inline(array(struct(from_json(r.data, '{data}') as d, json_object_keys(r.data) as keys)))",
    )
    texts = fields.selectExpr(
        *kept, "_raw_bytes is null and whole = 1 and size(array_distinct(keys)) = size(keys) as is_sound", "*", "d.*"
    ).selectExpr(*kept, "is_sound", *names)
    typed = texts.selectExpr(*kept, "is_sound", *dataset.typed())
    judged = typed.withColumn("is_valid", F.expr(f"coalesce(is_sound, false) and {dataset.is_valid}"))
    # What is kept between the two writes carries the line only where quarantine will need it.
    return judged.withColumns({name: F.expr(f"if(is_valid, null, {name})") for name in ("_raw", "_raw_bytes")})


def _silver(dataset: Dataset, conformed: DataFrame) -> DataFrame:
    rows = (
        conformed.where("is_valid")
        .repartition("_event_date")
        .selectExpr("*", f"{dataset.latest} as version")
        .where("version = 1")
    )
    return rows.selectExpr(*dataset.protected(MASK), "_source", "_position", "_delivery_date", "_event_date")


def _write_quarantine(load: Load, dataset: Dataset, conformed: DataFrame, where: str | None) -> None:
    rows = conformed.where("not is_valid").select("_raw", "_raw_bytes", "_source", "_position", "_delivery_date")
    _write(rows.repartition("_delivery_date"), load.table("quarantine", dataset.name), "_delivery_date", where)


def write_all(load: Load, dataset: Dataset, conformed: DataFrame) -> None:
    """Make Silver and quarantine of a whole history."""
    _write(_silver(dataset, conformed), load.table("silver", dataset.name), "_event_date")
    _write_quarantine(load, dataset, conformed, None)


def merge_day(load: Load, dataset: Dataset, conformed: DataFrame) -> None:
    """Merge one delivery into Silver; the literal days let Delta skip the rest of the history."""
    touched = "t._event_date between date'{first}' and date'{last}'".format(**load.event_days())
    table = DeltaTable.forPath(conformed.sparkSession, load.table("silver", dataset.name)).alias("t")
    on = f"t._event_date = s._event_date and t.{dataset.key} = s.{dataset.key} and {touched}"
    merge = table.merge(_silver(dataset, conformed).alias("s"), on)
    merge.whenMatchedUpdateAll("s.updated_at >= t.updated_at").whenNotMatchedInsertAll().execute()
    _write_quarantine(load, dataset, conformed, _day(load))


def aggregate(spark: SparkSession, load: Load, *, is_new: bool) -> None:
    """Bring both aggregates up to date."""
    spark.read.format("delta").load(load.table("silver", "orders")).createOrReplaceTempView("silver_orders")
    days = load.event_days()
    where = None if is_new else "order_date >= date'{first}' and order_date <= date'{last}'".format(**days)
    revenue = spark.sql(DAILY_REVENUE.format(**days)).repartition("order_date")
    _write(revenue, load.table("gold", "daily_revenue"), "order_date", where)
    _write(spark.sql(CUSTOMER_METRICS), load.table("gold", "customer_metrics"))


def _day(load: Load) -> str:
    return f"_delivery_date = date'{load.last}'"


def _write(rows: DataFrame, path: str, partition_by: str | None = None, where: str | None = None) -> None:
    writer = rows.write.format("delta").mode("overwrite")
    writer = writer.partitionBy(partition_by) if partition_by else writer
    (writer.option("replaceWhere", where) if where else writer).save(path)


if __name__ == "__main__":
    main()
