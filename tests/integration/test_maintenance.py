"""Maintenance beside everything else: rows, ledgers and readers are as without it, and nobody meets a conflict."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from stream_assets.engine.footprint import footprint
from stream_assets.engine.server import connect
from stream_assets.ops.maintenance.chores import Chore, find_chores
from stream_assets.ops.maintenance.work import do_chores
from stream_assets.settings import Settings
from tests.documents import bend, contract, document
from tests.lakes import as_lines, deliver, land_days, ledger, reading, refine_days, rows, table

DAYS = [date(2025, 3, n) for n in range(1, 5)]
TABLES = ("bronze/readings", "silver/readings")


@pytest.fixture
def sessions(spark: SparkSession, lake: Settings) -> Iterator[list[SparkSession]]:
    """A session for each of those who work at the same time."""
    made = [SparkSession.builder.remote(connect(lake).url).create() for _ in range(3)]
    yield made
    for session in made:
        session.stop()


def records(day: date) -> list[dict[str, Any]]:
    return [{"reading_id": f"{day}-{n}", "taken_at": f"{day}T10:00:00Z", "pieces": n} for n in range(10)]


def shatter(lake: Settings, asset: str, day: date) -> None:
    """Rewrite a day of a table as one file per row, as a stream would leave it. The rows stay the same."""
    layer, name = asset.split("/")
    found = table(lake, layer, name)
    column = found.metadata().partition_columns[0]
    whole = found.to_pyarrow_table(filters=[(column, "=", day)])
    found.delete(f"{column} = '{day}'")
    for n in range(whole.num_rows):
        write_deltalake(found, pa.table(whole.slice(n, 1)), mode="append")


def due(lake: Settings) -> list[Chore]:
    found = find_chores(replace(lake, report_days=10_000), {}, {}, TABLES)
    return [chore for chore in found if chore.kind != "prune"]


def test_live_load_backfill_compaction_and_readers_at_once(
    lake: Settings, sessions: list[SparkSession], tmp_path: Path
) -> None:
    """Nothing is lost, nothing doubled, no error reaches anybody, and no reader ever sees a day half."""
    before = contract(tmp_path / "before", document(maxLateness=0))
    after = contract(
        tmp_path / "after",
        bend(document(maxLateness=0), "schema.0.quality.0.implementation.expression", "pieces >= -1"),
    )
    for day in DAYS:
        deliver(lake, f"readings/{day}/part.jsonl", as_lines(records(day)))
    land_days(sessions[0], lake, before, *DAYS[:2])
    refine_days(sessions[0], lake, before, *DAYS[:2])
    for asset in TABLES:
        shatter(lake, asset, DAYS[0])
    told = ledger(lake, "silver", "readings")

    def live() -> None:
        for day in DAYS[2:]:
            land_days(sessions[0], lake, before, day)
            refine_days(sessions[0], lake, before, day)

    def compact() -> None:
        list(do_chores(lambda: sessions[2], lake, due(lake), "maintenance"))

    def read() -> int:
        return len(rows(lake, "silver", "readings", ["reading_id"]))

    with reading(read) as seen, ThreadPoolExecutor(3) as pool:
        jobs = [
            pool.submit(live),
            pool.submit(refine_days, sessions[1], lake, after, *DAYS[:2]),
            pool.submit(compact),
        ]
        for job in jobs:
            job.result()
    for asset in TABLES:
        layer, name = asset.split("/")
        assert len(rows(lake, layer, name)) == 40
        assert footprint(f"{lake.lake}/{asset}").crowded == []
    assert sorted(r["reading_id"] for r in rows(lake, "silver", "readings")) == sorted(
        r["reading_id"] for day in DAYS for r in records(day)
    )
    assert {n % 10 for n in seen} == {0}
    assert ledger(lake, "silver", "readings").keys() == {*told, *map(str, DAYS[2:])}
