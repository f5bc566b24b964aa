"""Gold lakes: the Silver of the sample, and dbt runs over it as Dagster makes them."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from stream_assets.contracts.model import Contract
from stream_assets.engine.server import connect
from stream_assets.engine.session import register
from stream_assets.gold.assets import build_gold
from stream_assets.gold.project import DbtError, GoldProject, dbt_environment, prepare_project
from stream_assets.gold.run import run_dbt
from stream_assets.keys import asset_key, daily_partitions
from stream_assets.resources import EngineResource
from stream_assets.settings import Settings
from tests.integration.conftest import RefinedSample
from tests.lakes import forget_tables, lake_at


@dataclass(frozen=True)
class GoldRun:
    """What a run of Gold told."""

    success: bool
    run_id: str
    materialized: set[str]
    checks: dict[str, dg.AssetCheckEvaluation]
    error: str


@dataclass(frozen=True)
class GoldLake:
    """A lake with Silver, and the assets that make its Gold."""

    settings: Settings
    spark: SparkSession
    contracts: list[Contract]
    project: GoldProject
    defs: dg.Definitions

    @classmethod
    def open(cls, settings: Settings, spark: SparkSession, contracts: list[Contract]) -> "GoldLake":
        """The lake as a process sees it that starts now."""
        project = prepare_project(settings, contracts)
        assert project
        gold = build_gold(settings, contracts, daily_partitions(contracts))
        engine = dg.Definitions(
            resources={"engine": EngineResource.from_settings(settings)}, executor=dg.in_process_executor
        )
        return cls(settings, spark, contracts, project, dg.Definitions.merge(gold, engine))

    def dbt(self, *args: str) -> dict[str, str]:
        """One dbt command without Dagster. Returns the status of every node, failed ones included."""
        statuses: dict[str, str] = {}
        for name, event in self.told_by_dbt(*args).items():
            told = event["data"]["node_info"]["node_status"]  # unit tests say theirs elsewhere
            statuses[name] = event["data"]["status"] if told == "None" else told
        return statuses

    def told_by_dbt(self, *args: str) -> dict[str, dict[str, Any]]:
        """One dbt command without Dagster. Returns the result event of every node, failed ones included."""
        output = self.settings.home / "dbt" / "runs" / "by-hand"
        events = run_dbt(self.project, connect(self.settings), args, env=dbt_environment(self.settings), output=output)
        found: dict[str, dict[str, Any]] = {}
        with suppress(DbtError):
            for event in events:
                found[event["data"]["node_info"]["node_name"]] = event
        return found

    def build(self, first: str, last: str | None = None, *, models: list[str] | None = None, **config: bool) -> GoldRun:
        """One run over a range of days, of all models or some."""
        result = self.defs.resolve_implicit_global_asset_job_def().execute_in_process(
            asset_selection=[asset_key("gold", name) for name in models] if models else None,
            tags={"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last or first},
            run_config={
                "ops": {"build_gold": {"config": config}},
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            raise_on_error=False,
        )
        events = result.all_events
        failures = [event for event in events if event.is_step_failure]
        return GoldRun(
            result.success,
            result.run_id,
            {e.asset_key.path[-1] for e in events if e.event_type_value == "ASSET_MATERIALIZATION"},
            {
                e.asset_check_evaluation_data.check_name: e.asset_check_evaluation_data
                for e in events
                if e.event_type_value == "ASSET_CHECK_EVALUATION"
            },
            "\n".join(event.event_specific_data.error.message for event in failures),
        )


@pytest.fixture(scope="module")
def gold_lake_of(
    engine_settings: Settings, spark: SparkSession, refined_sample: RefinedSample, tmp_path_factory
) -> Iterator[Callable[..., GoldLake]]:
    """Make a lake with the sample's Silver and nothing else."""

    def make(dbt_project: Path | None = None) -> GoldLake:
        forget(spark)
        settings = lake_at(engine_settings, tmp_path_factory.mktemp("gold"))
        if dbt_project:
            settings = replace(settings, dbt_project=dbt_project)
        shutil.copytree(f"{refined_sample.lake.lake}/silver", f"{settings.lake}/silver")
        contracts = list(refined_sample.contracts.values())
        for contract in contracts:
            register(spark, settings, "silver", contract.name)
        return GoldLake.open(settings, spark, contracts)

    yield make
    forget(spark)


def forget(spark: SparkSession) -> None:
    """Empty the catalogue, views first: they are not dropped as tables."""
    for view in spark.sql("show views in gold").collect():
        if not view.isTemporary:
            spark.sql(f"drop view gold.`{view.viewName}`")
    forget_tables(spark)
