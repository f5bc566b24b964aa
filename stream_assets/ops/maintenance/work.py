"""Does the chores of `chores.py`, on an engine. Safe beside readers, streams and writers.

Compaction rewrites files without changing rows (`dataChange=false`): streams do not see it, ledgers are not touched, and a
writer that met it tries again. Vacuum keeps what the rollback window needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stream_assets.engine import delta
from stream_assets.engine.failures import classify
from stream_assets.engine.footprint import footprint
from stream_assets.engine.held import STAMPS, is_let_go, let_go
from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import as_written, newest_entries, read_log
from stream_assets.engine.restore import note
from stream_assets.errors import LakeError
from stream_assets.ops.maintenance.chores import Chore, first_line
from stream_assets.settings import Settings

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def do_chores(
    open_spark: Callable[[], SparkSession], settings: Settings, chores: Iterable[Chore], run_id: str
) -> Iterator[Chore]:
    """Do them one after the other, telling each with what it did. An engine is started for tables only.

    One that fails is told with its problem; only a server that went away ends them all.
    """
    for chore in chores:
        if chore.kind == "prune":
            yield _prune(chore)
        elif chore.problem:
            yield chore
        else:
            yield _try(open_spark(), settings, chore, run_id)


def _try(spark: SparkSession, settings: Settings, chore: Chore, run_id: str) -> Chore:
    try:
        return _on_table(spark, settings, chore, run_id)
    except (PySparkException, DeltaError, OSError) as error:
        if classify(error) == "transient":
            raise
        return replace(chore, problem=first_line(error))


def refuse_problems(done: Iterable[Chore]) -> None:
    """Raise if some could not be done, with their tables and reasons."""
    if failed := [f"{chore.kind} {chore.subject}: {chore.problem}" for chore in done if chore.problem]:
        raise LakeError("Maintenance left something undone; `stream doctor` may know more.\n" + "\n".join(failed))


def _prune(chore: Chore) -> Chore:
    for name in chore.names:
        with suppress(FileNotFoundError):
            Path(name).unlink()
    return replace(chore, after={"files": 0, "bytes": 0})


def _on_table(spark: SparkSession, settings: Settings, chore: Chore, run_id: str) -> Chore:
    path = f"{settings.lake}/{chore.subject}"
    before = footprint(path)
    layer, name = chore.subject.split("/")
    page = Commit(run_id, name, layer, contract_version="").to_json()
    if chore.kind == "retention":
        for kept in (layer, "silver") if layer == "bronze" else (layer,):
            _let_go(spark, settings, chore, kept, name, run_id)
    with _set(spark, {USER_METADATA: page, RETENTION_CHECK: "false"}):
        delta.commit_by_spark(path, lambda: _run(spark, _statement(settings, chore, path)))
    after = footprint(path)
    return replace(
        chore,
        after={
            "files": after.files,
            "files_before": before.files,
            "bytes": after.bytes,
            "bytes_before": before.bytes,
            "disk_bytes": after.disk_bytes,
            "disk_bytes_before": before.disk_bytes,
        },
    )


def _let_go(spark: SparkSession, settings: Settings, chore: Chore, layer: str, name: str, run_id: str) -> None:
    """Tell the ledger, before the rows go, which days are to stay as they are from now on.

    Else the next run would find that Bronze lacks what was delivered, and Silver what Bronze has.
    """
    path = settings.table_path(layer, name)
    entries = as_written(newest_entries(read_log(path))) if layer in STAMPS else {}
    past = {d: let_go(e, run_id) for d, e in entries.items() if d < str(chore.before) and not is_let_go(e)}
    if past:
        note(spark, path, Commit(run_id, name, layer, "", past))


def _run(spark: SparkSession, statement: str) -> None:
    spark.sql(statement).collect()


def _statement(settings: Settings, chore: Chore, path: str) -> str:
    table = f"delta.`{path}`"
    if chore.kind == "vacuum":
        return f"vacuum {table} retain {settings.rollback_days * 24:g} hours"
    if chore.kind == "retention":
        return f"delete from {table} where {chore.where}"  # noqa: S608 made from days and column names
    return f"optimize {table}" + (f" where {chore.where}" if chore.where else "")


@contextmanager
def _set(spark: SparkSession, options: dict[str, str]) -> Iterator[None]:
    for key, value in options.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in options:
            spark.conf.unset(key)
