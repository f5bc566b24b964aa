"""Gold as Dagster assets: every dbt model, partitioned by day; a range of days is one dbt build."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from dagster_dbt import DbtCliResource, dbt_assets
from pyspark.sql import SparkSession

from stream_assets.contracts.model import Contract
from stream_assets.engine.ledger import Commit
from stream_assets.gold.project import dbt_environment, dbt_executable, prepare_manifest, profiles_folder
from stream_assets.gold.translator import GoldTranslator
from stream_assets.resources import EngineResource
from stream_assets.settings import Settings


def build_gold(
    settings: Settings, contracts: Sequence[Contract], partitions: dg.PartitionsDefinition, retry: dg.RetryPolicy
) -> dg.Definitions:
    """The Gold assets of the dbt project, none if there is no project."""
    manifest = prepare_manifest(settings, contracts)
    return dg.Definitions(assets=[_gold_assets(manifest, partitions, retry)] if manifest else [])


def _gold_assets(manifest: Path, partitions: dg.PartitionsDefinition, retry: dg.RetryPolicy) -> dg.AssetsDefinition:
    translator = GoldTranslator()

    @dbt_assets(
        manifest=manifest,
        name="build_gold",
        partitions_def=partitions,
        dagster_dbt_translator=translator,
        backfill_policy=dg.BackfillPolicy.single_run(),
        exclude="resource_type:unit_test",
        retry_policy=retry,
    )
    def build_models(context: dg.AssetExecutionContext, engine: EngineResource) -> Iterator[Any]:
        days = context.partition_key_range
        views = _forgotten_views(json.loads(manifest.read_text()), engine, context.selected_asset_keys)
        with engine.guarded(), _environment(engine, context.run_id, days):
            dbt = DbtCliResource(
                project_dir=str(engine.settings.dbt_project),
                profiles_dir=str(profiles_folder(engine.settings)),
                dbt_executable=dbt_executable(),
                global_config_flags=["--no-use-colors"],
            )
            if views:
                context.log.info(f"Making {len(views)} views again that went with the last Spark server")
                dbt.cli(["run", "--select", *views], manifest=manifest).wait()
            variables = json.dumps({"start_date": days.start, "end_date": days.end})
            yield from dbt.cli(
                ["build", "--vars", variables, "--exclude-resource-type", "unit_test"], context=context
            ).stream()

    return build_models


@contextmanager
def _environment(engine: EngineResource, run_id: str, days: dg.PartitionKeyRange) -> Iterator[None]:
    """While inside, dbt finds the engine, the lake, and what its commits say about themselves."""
    connection = engine.connection()
    commit = Commit(run_id, "gold", "gold", "", {})
    added = {
        **dbt_environment(engine.settings),
        "SPARK_REMOTE": connection.url,
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": connection.token or os.environ.get("SPARK_CONNECT_AUTHENTICATE_TOKEN", ""),
        "STREAM_COMMIT": json.dumps({**json.loads(commit.to_json()), "range": [days.start, days.end]}),
    }
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _forgotten_views(manifest: dict[str, Any], engine: EngineResource, selected: set[dg.AssetKey]) -> list[str]:
    """Views that selected models read and the catalogue does not know: they live in the server, not in the lake."""
    models = {uid: node for uid, node in manifest["nodes"].items() if node["resource_type"] == "model"}
    names = {key.path[-1] for key in selected}
    chosen = {uid for uid, node in models.items() if node["name"] in names}
    parents = {p for uid in chosen for p in models[uid]["depends_on"]["nodes"] if p in models} - chosen
    views = [models[p]["name"] for p in parents if models[p]["config"]["materialized"] == "view"]
    return sorted(view for view in views if not _knows(engine.spark_session, view)) if views else []


def _knows(spark: SparkSession, view: str) -> bool:
    return spark.catalog.tableExists(f"gold.{view}")
