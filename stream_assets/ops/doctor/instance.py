"""The Dagster part of the doctor: whether the instance can be read, and runs whose process is dead."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import dagster as dg
from sqlalchemy.exc import SQLAlchemyError

from stream_assets.ops.doctor.checks import Line
from stream_assets.ops.processes import is_dead
from stream_assets.resources import open_instance
from stream_assets.settings import Settings

UNDER_WAY = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.CANCELING]


def examine_instance(settings: Settings, *, fix: bool) -> Iterator[Line]:
    """The instance, and orphaned runs; with `fix`, those are ended as failed."""
    try:
        with open_instance(settings) as instance:
            yield Line("dagster", "ok", f"{instance.get_runs_count():,} runs at {settings.home / 'dagster'}")
            yield _orphans(instance, fix=fix)
    except (dg.DagsterError, SQLAlchemyError, sqlite3.Error, OSError) as error:
        text = next(iter(str(error).splitlines()), type(error).__name__)
        yield Line("dagster", "fail", text, f"look at {settings.home / 'dagster' / 'dagster.yaml'} and its storage")


def _orphans(instance: dg.DagsterInstance, *, fix: bool) -> Line:
    dead = [run for run in instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY)) if is_dead(run.tags)]
    if not dead:
        return Line("runs", "ok", "none is orphaned")
    if not fix:
        text = f"{len(dead)} say they run, but their process is dead"
        return Line("runs", "warn", text, "`stream doctor --fix` ends them as failed")
    for run in dead:
        instance.report_run_failed(run, "Its process was killed. Nothing is half-written; run the days again.")
    return Line("runs", "ok", f"{len(dead)} orphaned runs were ended as failed")
