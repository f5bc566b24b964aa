"""Looks at the parts of an installation, one function per part. Nothing is changed and no engine is started."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import psutil
from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException

from stream_assets.contracts.load import load_contracts
from stream_assets.engine import server
from stream_assets.engine.footprint import footprint, orphans
from stream_assets.engine.jars import resolve_jars
from stream_assets.engine.java import find_java
from stream_assets.engine.session import LAYERS, REGISTERED, lake_tables, open_session
from stream_assets.errors import StreamError
from stream_assets.gold.project import has_project, prepare_project
from stream_assets.gold.sources import sources_in_sync
from stream_assets.settings import Settings

State = Literal["ok", "warn", "fail"]
LOW_BYTES, FULL_BYTES = 10 << 30, 1 << 30
ORPHAN_AGE = timedelta(hours=24)
"""A younger file may belong to a write that is under way."""
UI_PORT = 3000


@dataclass(frozen=True)
class Line:
    """What was found of one part, and what to do about it."""

    part: str
    state: State
    text: str
    remedy: str = ""


def examine(settings: Settings) -> Iterator[Line]:
    """Everything but Dagster, part by part. A part that cannot even be looked at has failed."""
    for part, look in PARTS.items():
        try:
            yield from look(settings)
        except (StreamError, OSError, DeltaError) as error:
            yield Line(part, "fail", next(iter(str(error).splitlines()), type(error).__name__), "see the message")


def _java(settings: Settings) -> Iterator[Line]:
    if settings.spark_remote:
        yield Line("java", "ok", f"not needed: SPARK_REMOTE is {settings.spark_remote}")
        return
    try:
        yield Line("java", "ok", str(find_java()))
    except StreamError as error:
        text, _, remedy = str(error).partition(". ")
        yield Line("java", "fail", text, remedy)


def _jars(settings: Settings) -> Iterator[Line]:
    if settings.spark_remote:
        return
    if not settings.jars.is_dir():
        yield Line("jars", "warn", f"none in {settings.jars} yet", "`stream prepare` downloads them, once")
        return
    jars = resolve_jars(settings.jars, "spark")
    broken = [jar.name for jar in jars if jar.stat().st_size < 1000]
    if broken or not jars:
        yield Line("jars", "fail", f"broken: {', '.join(broken) or 'all'}", f"remove {settings.jars}; `stream prepare`")
    else:
        yield Line("jars", "ok", f"{len(jars)} in {jars[0].parent}")


def _disk(settings: Settings) -> Iterator[Line]:
    places = {"home": str(settings.home), "lake": settings.lake}
    for name, place in places.items():
        if "://" in place:
            continue
        folder = next(f for f in (Path(place), *Path(place).parents) if f.exists())
        free = shutil.disk_usage(folder).free
        state: State = "fail" if free < FULL_BYTES else "warn" if free < LOW_BYTES else "ok"
        remedy = "`stream maintain` frees history and old reports" if state != "ok" else ""
        yield Line(f"disk of {name}", state, f"{free / 1e9:,.1f} GB free at {folder}", remedy)


def _memory(settings: Settings) -> Iterator[Line]:
    wanted = _bytes(settings.spark_memory)
    there = psutil.virtual_memory()
    is_running = server.running(settings) is not None
    if wanted > there.total * 0.8:
        remedy = "lower STREAM_SPARK_MEMORY"
        yield Line(
            "memory", "fail", f"the engine may take {settings.spark_memory} of {there.total / 1e9:,.1f} GB", remedy
        )
    elif not is_running and not settings.spark_remote and wanted > there.available:
        remedy = "end other programs, or lower STREAM_SPARK_MEMORY"
        yield Line(
            "memory",
            "warn",
            f"{there.available / 1e9:,.1f} GB free, the engine may take {settings.spark_memory}",
            remedy,
        )
    else:
        yield Line("memory", "ok", f"{there.available / 1e9:,.1f} of {there.total / 1e9:,.1f} GB free")


def _bytes(size: str) -> int:
    """A JVM size: 1536m, 3g."""
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    return int(float(size[:-1]) * units[size[-1].lower()]) if size[-1].lower() in units else int(size)


def _engine(settings: Settings) -> Iterator[Line]:
    """The server, if it runs: does it answer, and does its catalogue say what the lake holds."""
    if not settings.spark_remote and server.running(settings) is None:
        yield Line("engine", "ok", "not running; it starts when needed")
        return
    try:
        spark = open_session(settings)
        spark.sql("select 1").collect()
        yield Line("engine", "ok", f"answers, Spark {spark.version}")
        yield _catalogue(spark, settings)
        spark.stop()
    except (PySparkException, StreamError) as error:
        text = next(iter(str(error).splitlines()), "no answer")
        yield Line("engine", "fail", text, f"`stream engine stop`; it starts anew. Log: {server.log_file(settings)}")


def _catalogue(spark, settings: Settings) -> Line:
    known = {
        f"{layer}/{row.tableName}"
        for layer in LAYERS
        for row in spark.sql(f"show tables in `{layer}`").collect()
        if not row.isTemporary
    }
    views = {f"gold/{row.viewName}" for row in spark.sql("show views in gold").collect()}
    missing, gone = sorted({*lake_tables(settings)} - known), sorted(known - views - {*lake_tables(settings)})
    if missing or gone:
        text = f"not in the catalogue: {', '.join(missing) or 'none'}; not in the lake: {', '.join(gone) or 'none'}"
        return Line(
            "catalogue", "warn", text, f"`stream engine stop`: {REGISTERED} is filled from the lake at the next start"
        )
    return Line("catalogue", "ok", f"{len(known - views)} tables, as in the lake")


def _lake(settings: Settings) -> Iterator[Line]:
    """Every table can be read, every file it names is there, and no file belongs to nobody."""
    tables = lake_tables(settings)
    lost: list[str] = []
    strays: dict[str, int] = {}
    now = datetime.now(UTC)
    for table in tables:
        found = footprint(f"{settings.lake}/{table}")
        lost += [f"{table}: {name}" for name in sorted(found.live - found.disk.keys())[:1]]
        strays |= {f"{table}/{name}": n for name, n in orphans(found, older_than=ORPHAN_AGE, now=now).items()}
    if lost:
        yield Line(
            "tables", "fail", f"files are missing, such as {lost[0]}", "`stream rollback`, or run the days again"
        )
    else:
        yield Line("tables", "ok", f"{len(tables)}, every file is there")
    if strays:
        size = f"{sum(strays.values()) / 1e6:,.1f} MB"
        yield Line(
            "orphaned files",
            "warn",
            f"{len(strays)} of killed writes, {size}",
            "`stream maintain` removes them in time",
        )
    else:
        yield Line("orphaned files", "ok", "none")


def _locks(settings: Settings) -> Iterator[Line]:
    stale = left_behind(settings)
    if stale:
        names = ", ".join(map(str, stale))
        yield Line("locks", "warn", f"left behind: {names}", "`stream doctor --fix` removes them")
    else:
        yield Line("locks", "ok", "none left behind")


def left_behind(settings: Settings) -> list[Path]:
    """State files of processes that are gone."""
    state = settings.home / "spark" / "server.json"
    is_stale = state.exists() and server.running(settings) is None
    return [*([state] if is_stale else []), *(settings.home / "backfills").glob("*.tmp")]


def _contracts(settings: Settings) -> Iterator[Line]:
    contracts = load_contracts(settings.contracts)
    if contracts.broken or not contracts:
        yield Line(
            "contracts", "fail", f"{len(contracts)} sound, {len(contracts.broken)} refused", "`stream contracts lint`"
        )
    else:
        yield Line("contracts", "ok", f"{len(contracts)} sound in {settings.contracts}")
    if not has_project(settings):
        yield Line(
            "dbt project", "warn", f"none at {settings.dbt_project}: there will be no Gold", "set STREAM_DBT_PROJECT"
        )
        return
    project = prepare_project(settings, contracts.values())
    if project and project.without_contract:
        text = f"reads Silver that no contract declares: {', '.join(project.without_contract)}"
        yield Line("dbt project", "warn", text, "add contracts, or remove the models")
    elif not sources_in_sync(settings, list(contracts.values())):
        yield Line("dbt project", "warn", "its sources differ from the contracts", "`stream dbt sync`")
    else:
        yield Line("dbt project", "ok", str(settings.dbt_project))


def _landing(settings: Settings) -> Iterator[Line]:
    if "://" not in settings.landing and not Path(settings.landing).is_dir():
        yield Line("landing zone", "warn", f"{settings.landing} is not there", "deliver files, or `stream sample`")
    else:
        yield Line("landing zone", "ok", settings.landing)


def _ports(_: Settings) -> Iterator[Line]:
    with socket.socket() as probe:
        taken = probe.connect_ex(("127.0.0.1", UI_PORT)) == 0
    yield Line(
        "ports", "ok", f"{UI_PORT} {'is taken: the UI runs, or something else' if taken else 'is free for the UI'}"
    )


PARTS: dict[str, Callable[[Settings], Iterator[Line]]] = {
    "java": _java,
    "jars": _jars,
    "disk": _disk,
    "memory": _memory,
    "ports": _ports,
    "engine": _engine,
    "contracts": _contracts,
    "landing zone": _landing,
    "lake": _lake,
    "locks": _locks,
}
