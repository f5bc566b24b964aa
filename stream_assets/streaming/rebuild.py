"""Computes the table of a stream anew from the log: beside the old one, then in its place in one commit.

Readers see the old rows until the new ones are complete. The checkpoint goes first: whatever happens after that, a stream
that has rows and no checkpoint is rebuilt when it is next started.
"""

from __future__ import annotations

from pyarrow import fs
from pyspark.sql import SparkSession

from stream_assets.engine import delta
from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import count_rows
from stream_assets.engine.session import filesystem_of, register
from stream_assets.errors import LakeError
from stream_assets.streaming.model import View
from stream_assets.streaming.queries import Streams

BESIDE = "_new"


def rebuild(spark: SparkSession, streams: Streams, name: str) -> int:
    """Rebuild a view from its event logs, or an event log from Bronze. Returns the rows it has then."""
    view = streams.view(name)
    return _rebuild_view(spark, streams, view) if view else _rebuild_events(spark, streams, name)


def needs_rebuild(streams: Streams, name: str) -> bool:
    """Whether a stream has lost its checkpoint: it has rows, and no progress."""
    return not _exists(f"{streams.checkpoint(name)}/metadata") and count_rows(_path(streams, name)) > 0


def _rebuild_view(spark: SparkSession, streams: Streams, view: View) -> int:
    _forget(spark, streams, view.name + BESIDE)
    query = streams.start(spark, view.name, suffix=BESIDE, availableNow=True)
    query.awaitTermination()
    if error := query.exception():
        raise LakeError(f"{view.name} could not be rebuilt, its old rows are untouched: {error}") from error
    made = spark.read.format("delta").load(_path(streams, view.name + BESIDE))
    _remove(streams.checkpoint(view.name))
    # In one commit, columns included: they change with what the view declares.
    page = Commit("rebuild", view.name, "live", "", {}).to_json()
    writer = made.write.format("delta").mode("overwrite").option("overwriteSchema", "true").option("userMetadata", page)
    delta.commit_by_spark(_path(streams, view.name), lambda: writer.save(_path(streams, view.name)))
    register(spark, streams.settings, "live", view.name)
    _move(streams.checkpoint(view.name + BESIDE), streams.checkpoint(view.name))
    rows = count_rows(_path(streams, view.name))
    _forget(spark, streams, view.name + BESIDE)
    return rows


def _rebuild_events(spark: SparkSession, streams: Streams, name: str) -> int:
    """An event log is the memory of what came when: its views and late tables follow from it and go with it."""
    dataset = streams.contract(name).name
    affected = streams.views.of(dataset)
    for gone in [name, *(table for view in affected for table in (view.name, f"{view.name}_late"))]:
        _forget(spark, streams, gone)
    query = streams.start(spark, name, availableNow=True)
    query.awaitTermination()
    if error := query.exception():
        raise LakeError(f"{name} could not be rebuilt; its records are safe in Bronze: {error}") from error
    return count_rows(_path(streams, name))


def _forget(spark: SparkSession, streams: Streams, name: str) -> None:
    spark.sql(f"drop table if exists live.`{name}`")
    _remove(_path(streams, name))
    _remove(streams.checkpoint(name))


def _path(streams: Streams, name: str) -> str:
    return streams.settings.table_path("live", name)


def _exists(place: str) -> bool:
    filesystem, path = filesystem_of(place)
    return filesystem.get_file_info(path).type != fs.FileType.NotFound


def _remove(place: str) -> None:
    filesystem, path = filesystem_of(place)
    if _exists(place):
        filesystem.delete_dir(path)


def _move(old: str, new: str) -> None:
    filesystem, path = filesystem_of(old)
    filesystem.move(path, filesystem_of(new)[1])
