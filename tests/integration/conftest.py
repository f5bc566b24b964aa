"""The retail sample, landed and refined once, for every test of every worker that only looks at the result."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from filelock import FileLock
from pyspark.sql import SparkSession

from stream_assets.contracts.load import ContractSet, load_contracts
from stream_assets.engine.session import register
from stream_assets.sample import Manifest, write_sample
from stream_assets.sample.manifest import read_manifest
from stream_assets.settings import Settings
from tests.lakes import forget_tables, lake_at, land_days, refine_days

DAYS, END = 7, date(2025, 3, 9)


@dataclass(frozen=True)
class RefinedSample:
    """An imperfect week, its answer key and the lake made of it."""

    lake: Settings
    manifest: Manifest
    contracts: ContractSet
    made_at: Settings
    """The lake as the worker knows it whose engine has refined it."""


@pytest.fixture(scope="session")
def refined_sample(
    engine_settings: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> RefinedSample:
    """Return the sample after one range run, made by the worker that asks first."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "sample"
    lake, maker = lake_at(engine_settings, folder), folder / "made_by"
    contracts = load_contracts(lake.contracts)
    with FileLock(f"{folder}.lock"):
        if not maker.exists():
            _refine_sample(spark, lake, contracts)
            maker.write_text(str(lake.home))
    made_at = replace(lake, home=Path(maker.read_text()))
    return RefinedSample(lake, read_manifest(Path(lake.landing)), contracts, made_at)


def _refine_sample(spark: SparkSession, lake: Settings, contracts: ContractSet) -> None:
    """One range run. The catalogue forgets it again: its tables are read without Spark."""
    write_sample(Path(lake.landing), days=DAYS, end=END, scale=0.15, seed=11)
    days = [END - timedelta(days=back) for back in reversed(range(DAYS))]
    forget_tables(spark)
    for contract in contracts.values():
        landing = land_days(spark, lake, contract, *days)
        assert set(landing.touched) <= set(days)
        refine_days(spark, lake, contract, *days)
    forget_tables(spark)


@pytest.fixture
def sample_in_catalogue(refined_sample, spark) -> Iterator[RefinedSample]:
    """The refined sample, for tests that look at it with Spark."""
    forget_tables(spark)
    for layer in ("bronze", "silver", "quarantine"):
        for name in refined_sample.contracts:
            register(spark, refined_sample.lake, layer, name)
    yield refined_sample
    forget_tables(spark)
