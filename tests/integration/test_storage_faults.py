"""Files that are lost, torn or cannot be written: a loud error, never half a table; and the way back."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.errors import LakeError
from stream_assets.settings import Settings
from tests.documents import contract
from tests.lakes import as_lines, contents, deliver, land_days, refine_days, rows, table

DAY, NEXT = date(2025, 3, 2), date(2025, 3, 3)


def readings(day: date, count: int = 20, note: str = "") -> str:
    sound: list[dict[str, Any]] = [
        {"reading_id": f"{day}-{n}", "taken_at": f"{day}T10:00:00Z", "pieces": n} for n in range(count)
    ]
    return as_lines([*sound, {"bad": note}])


def both(spark: SparkSession, lake: Settings, law: Contract, *days: date) -> None:
    land_days(spark, lake, law, *days)
    refine_days(spark, lake, law, *days)


def log_file(lake: Settings, layer: str, version: int) -> Path:
    return Path(lake.table_path(layer, "readings")) / "_delta_log" / f"{version:020}.json"


@pytest.mark.parametrize("layer", ["bronze", "silver"])
def test_a_torn_commit_stops_the_next_run(lake: Settings, spark, tmp_path: Path, layer: str) -> None:
    """Half a commit file is no commit: nothing is read past it and nothing written after it. Removed, the next run heals."""
    law = contract(tmp_path)
    deliver(lake, f"readings/{DAY}/part.jsonl", readings(DAY))
    both(spark, lake, law, DAY)
    newest = table(lake, layer, "readings").version()
    whole = log_file(lake, layer, newest).read_bytes()
    torn = log_file(lake, layer, newest + 1)
    torn.write_bytes(whole[: len(whole) // 2])
    deliver(lake, f"readings/{NEXT}/part.jsonl", readings(NEXT))
    with pytest.raises((PySparkException, DeltaError)):
        both(spark, lake, law, NEXT)
    torn.unlink()
    both(spark, lake, law, NEXT)
    assert len(rows(lake, "silver", "readings")) == 40


def test_a_lost_data_file_is_an_error_and_not_fewer_rows(lake: Settings, spark, tmp_path: Path) -> None:
    """A reader of the lost day is told so; other days stay readable."""
    law = contract(tmp_path)
    for day in (DAY, NEXT):
        deliver(lake, f"readings/{day}/part.jsonl", readings(day))
    both(spark, lake, law, DAY, NEXT)
    folder = Path(lake.table_path("silver", "readings")) / f"_event_date={DAY}"
    for file in folder.glob("*.parquet"):
        file.unlink()
    with pytest.raises(PySparkException):
        spark.table("silver.readings").where(f"_event_date = date'{DAY}'").toPandas()
    assert len(spark.table("silver.readings").where(f"_event_date = date'{NEXT}'").collect()) == 20


@pytest.mark.parametrize("layer", ["bronze", "silver"])
def test_a_lost_data_file_is_made_again(lake: Settings, spark, tmp_path: Path, layer: str) -> None:
    """Nothing a day is made of has changed, so a plain run leaves it alone; one that is told to makes it anew."""
    law = contract(tmp_path)
    for day in (DAY, NEXT):
        deliver(lake, f"readings/{day}/part.jsonl", readings(day))
    both(spark, lake, law, DAY, NEXT)
    before = {name: contents(lake, name, "readings") for name in ("bronze", "silver")}
    partition = "_delivery_date" if layer == "bronze" else "_event_date"
    for file in (Path(lake.table_path(layer, "readings")) / f"{partition}={DAY}").glob("*.parquet"):
        file.unlink()
    land_days(spark, lake, law, DAY, again=True)
    refine_days(spark, lake, law, DAY, again=True)
    assert {name: contents(lake, name, "readings") for name in before} == before


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """While inside, the folder is a disk of that size."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room that is left."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(os.urandom(64 << 10))
        except OSError:
            return ballast


@pytest.mark.parametrize(
    ("few", "error"), [(delta.FEW_ROWS, LakeError), (-1, PySparkException)], ids=["by delta-rs", "by Spark"]
)
def test_a_full_disk_leaves_the_last_version_readable(
    few: int, error: type[Exception], lake: Settings, spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever step finds the disk full fails; what was there stays; with room again the same call succeeds."""
    monkeypatch.setattr(delta, "FEW_ROWS", few)
    law = contract(tmp_path)
    with small_disk(Path(lake.lake), 24):
        deliver(lake, f"readings/{DAY}/part.jsonl", readings(DAY))
        both(spark, lake, law, DAY)
        before = {layer: contents(lake, layer, "readings") for layer in ("bronze", "silver", "quarantine")}

        deliver(lake, f"readings/{DAY}/part.jsonl", readings(DAY, 30))
        ballast = fill(Path(lake.lake))
        with pytest.raises(error, match="No space left"):
            land_days(spark, lake, law, DAY)
        assert {layer: contents(lake, layer, "readings") for layer in before} == before

        ballast.unlink()
        land_days(spark, lake, law, DAY)
        ballast = fill(Path(lake.lake))
        with pytest.raises(error, match="No space left"):
            refine_days(spark, lake, law, DAY)
        assert contents(lake, "silver", "readings") == before["silver"]
        assert contents(lake, "quarantine", "readings") == before["quarantine"]

        ballast.unlink()
        refine_days(spark, lake, law, DAY)
        assert len(rows(lake, "silver", "readings")) == 30
