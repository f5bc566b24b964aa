"""The retail sample, landed and refined once for every test that only looks at the result."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import pytest

from stream_assets.contracts.load import ContractSet, load_contracts
from stream_assets.engine.session import register
from stream_assets.sample import Manifest, write_sample
from stream_assets.settings import Settings
from tests.lakes import forget_tables, lake_at, land_days, refine_days

DAYS, END = 7, date(2025, 3, 9)


@dataclass(frozen=True)
class RefinedSample:
    """An imperfect week, its answer key and the lake made of it."""

    lake: Settings
    manifest: Manifest
    contracts: ContractSet


@pytest.fixture(scope="session")
def refined_sample(engine_settings, spark, tmp_path_factory) -> RefinedSample:
    """Return the sample after one range run. The catalogue forgets it again: its tables are read without Spark."""
    lake = lake_at(engine_settings, tmp_path_factory.mktemp("sample"))
    manifest = write_sample(Path(lake.landing), days=DAYS, end=END, scale=0.15, seed=11)
    contracts = load_contracts(lake.contracts)
    days = [END - timedelta(days=back) for back in reversed(range(DAYS))]
    forget_tables(spark)
    for contract in contracts.values():
        landing = land_days(spark, lake, contract, *days)
        assert set(landing.touched) <= set(days)
        refine_days(spark, lake, contract, *days)
    forget_tables(spark)
    return RefinedSample(lake, manifest, contracts)


@pytest.fixture
def sample_in_catalogue(refined_sample, spark) -> Iterator[RefinedSample]:
    """The refined sample, for tests that look at it with Spark."""
    forget_tables(spark)
    for layer in ("bronze", "silver", "quarantine"):
        for name in refined_sample.contracts:
            register(spark, refined_sample.lake, layer, name)
    yield refined_sample
    forget_tables(spark)
