"""What a day is judged by is counted from rows that were read once: Bronze is not scanned again for any of it."""

import io
from contextlib import redirect_stdout
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from stream_assets.engine.session import kept
from stream_assets.quality.profile import profile_days
from stream_assets.settings import Settings
from stream_assets.silver.conform import accepted, conform, count_days, prompt, rejected
from stream_assets.silver.refine import read_bronze
from tests.documents import contract
from tests.lakes import SALT, as_lines, deliver, land_days

DAYS = [date(2025, 3, 2) + timedelta(days=n) for n in range(2)]
ROWS, BAD = 20, 3


def plan_of(rows: DataFrame) -> str:
    """The physical plan, as Spark explains it."""
    text = io.StringIO()
    with redirect_stdout(text):
        rows.explain()
    return text.getvalue()


def land_readings(spark: SparkSession, lake: Settings, law: Any) -> None:
    for day in DAYS:
        good = [{"reading_id": f"{day}-{n}", "taken_at": f"{day}T10:00:00Z", "pieces": n} for n in range(ROWS)]
        bad = [{"reading_id": f"{day}-bad-{n}", "taken_at": f"{day}T10:00:00Z", "pieces": -1} for n in range(BAD)]
        deliver(lake, f"readings/{day}/part.jsonl", as_lines([*good, good[0], *bad]))
    land_days(spark, lake, law, *DAYS)


@pytest.mark.parametrize(("few", "source"), [(True, "ExistingRDD"), (False, "InMemoryTableScan")])
def test_bronze_is_read_once(lake: Settings, spark: SparkSession, tmp_path: Path, few: bool, source: str) -> None:
    """After the first pass its files are taken away: counts, profiles, quarantine and Silver still come out whole."""
    law = contract(tmp_path / "contracts")
    land_readings(spark, lake, law)
    rows = conform(read_bronze(spark, law, DAYS), law, headers=[], salt=SALT)
    assert "FileScan parquet" in plan_of(rows)
    with kept(rows, few=few) as rows:
        counted = count_days(rows, law)
        for file in Path(lake.table_path("bronze", "readings")).rglob("*.parquet"):
            file.rename(file.with_suffix(".gone"))
        again = count_days(rows, law)
        profiles = profile_days(prompt(rows, counted.lag), law)
        taken, aside = accepted(rows), rejected(rows)
        for asked in (prompt(rows, counted.lag), taken, aside):
            assert source in plan_of(asked).split("InMemoryRelation")[0]
            assert "FileScan" not in plan_of(asked).split("InMemoryRelation")[0]
        assert again == counted
        assert {day: sum(p["pieces"]["counts"].values()) for day, p in profiles.items()} == {
            str(day): ROWS + 1 for day in DAYS
        }
        assert (taken.count(), aside.count()) == (len(DAYS) * ROWS, len(DAYS) * BAD)
