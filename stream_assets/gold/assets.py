"""Gold as Dagster assets: every dbt model, partitioned by day; a range of days is one dbt build."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import dagster as dg
from dagster_dbt import dbt_assets
from dagster_dbt.core.dbt_cli_event import DbtCoreCliEventMessage

from stream_assets.contracts.model import Contract
from stream_assets.engine.files import rows_in
from stream_assets.engine.ledger import Commit
from stream_assets.engine.session import plan_settings
from stream_assets.gold.evidence import in_words, tell_row
from stream_assets.gold.models import Model, built_from, tables_of
from stream_assets.gold.project import GoldProject, dbt_environment, prepare_project
from stream_assets.gold.run import run_dbt
from stream_assets.gold.selection import all_of_it, excluded, is_anything_left, some_of_it
from stream_assets.gold.translator import GoldTranslator
from stream_assets.gold.written import written_by
from stream_assets.keys import partition_days
from stream_assets.resources import EngineResource
from stream_assets.settings import Settings

_UNIQUE_ID = "dagster_dbt/unique_id"
MADE_OF = "made_of"
"""Metadata of a Gold table: the fingerprint of its code and the versions of the tables it read."""


class GoldConfig(dg.Config):
    """How to build. Set in the launchpad."""

    full_refresh: bool = False
    """Make the tables anew, from all of Silver: after a model has lost or retyped a column."""


def build_gold(
    settings: Settings,
    contracts: Iterable[Contract],
    partitions: dg.PartitionsDefinition,
    retry: dg.RetryPolicy | None = None,
) -> dg.Definitions:
    """The Gold assets of the dbt project, none if there is no project or no contract for what it reads."""
    project = prepare_project(settings, contracts)
    if project is None:
        return dg.Definitions()
    manifest = json.loads(project.manifest.read_bytes())
    if not is_anything_left(manifest, project.without_contract):
        return dg.Definitions()
    return dg.Definitions(assets=[_gold_assets(settings, project, manifest, partitions, retry)])


def _gold_assets(
    settings: Settings,
    project: GoldProject,
    manifest: Mapping[str, Any],
    partitions: dg.PartitionsDefinition,
    retry: dg.RetryPolicy | None,
) -> dg.AssetsDefinition:
    translator, models = GoldTranslator(settings), tables_of(manifest)

    @dbt_assets(
        manifest=manifest,
        name="build_gold",
        exclude=" ".join(excluded(project.without_contract)) or None,
        partitions_def=partitions,
        dagster_dbt_translator=translator,
        backfill_policy=dg.BackfillPolicy.single_run(),
        retry_policy=retry,
    )
    def build_models(context: dg.AssetExecutionContext, config: GoldConfig, engine: EngineResource) -> Iterator[Any]:
        commit = _commit(context, engine.settings, models)
        with engine.guarded():  # its session puts the lake into the catalogue; dbt has one of its own
            plan = _plan(engine.settings, commit)
            events = run_dbt(
                project,
                engine.connection(),
                _arguments(context, config, project, manifest, planned_once=bool(plan)),
                env=dbt_environment(engine.settings) | {"STREAM_COMMIT": commit.to_json()},
                output=engine.settings.home / "dbt" / "runs" / context.run_id,
                conf=plan,
            )
            for event in events:
                if event["data"]["node_info"]["unique_id"] in _selected(context):
                    message = DbtCoreCliEventMessage(raw_event=event, event_history_metadata={})
                    told = message.to_default_asset_events(manifest, translator, context)
                    yield from _told(context, told, event["failing_rows"], engine.settings, commit)

    return build_models


def _arguments(
    context: dg.AssetExecutionContext,
    config: GoldConfig,
    project: GoldProject,
    manifest: Mapping[str, Any],
    *,
    planned_once: bool,
) -> list[str]:
    """One dbt build for the whole range of days."""
    definition, days = context.assets_def, _span(context)
    is_subset = (
        definition.keys_by_output_name != definition.node_keys_by_output_name
        or definition.check_specs_by_output_name != definition.node_check_specs_by_output_name
    )
    chosen = some_of_it(manifest, _selected(context)) if is_subset else all_of_it(project.without_contract)
    if config.full_refresh:  # of everything: with a range, the new table would hold that range only
        return ["build", *chosen, "--full-refresh"]
    span = {"start_date": days[0].isoformat(), "end_date": days[-1].isoformat()} if days else {}
    return ["build", *chosen, "--vars", json.dumps({**span, "planned_once": planned_once})]


def _span(context: dg.AssetExecutionContext) -> list[date]:
    """Every day from the first to the last asked for. None for a check that is run on its own: it looks at all of them."""
    days = partition_days(context) if context.has_partition_key or context.has_partition_key_range else []
    return [days[0] + timedelta(days=n) for n in range((days[-1] - days[0]).days + 1)] if days else []


def _selected(context: dg.AssetExecutionContext) -> set[str]:
    """The dbt nodes behind the assets and checks of this step."""
    definition = context.assets_def
    specs = [definition.specs_by_key[key] for key in context.selected_asset_keys]
    checks = [definition.get_spec_for_check_key(key) for key in context.selected_asset_check_keys]
    return {spec.metadata[_UNIQUE_ID] for spec in (*specs, *checks)}


def _commit(context: dg.AssetExecutionContext, settings: Settings, models: Mapping[str, Model]) -> Commit:
    """The ledger page of every commit of this run. One dbt build writes many tables, so it names none."""
    selected = {key.to_user_string() for key in context.selected_asset_keys}
    code, inputs = built_from(settings, {asset: model for asset, model in models.items() if asset in selected})
    days = {day.isoformat(): {} for day in _span(context)}
    return Commit(context.run_id, "*", "gold", contract_version="", days=days, code=code, inputs=inputs)


def _plan(settings: Settings, commit: Commit) -> dict[str, str]:
    """How Spark is to plan the models, by all that they may read. A check on its own says nothing of what it reads."""
    read = sum(rows_in(f"{settings.lake}/{table}") for table in commit.inputs)
    return plan_settings(read) if commit.inputs else {}


def _told(
    context: dg.AssetExecutionContext,
    events: Iterable[Any],
    failing: Sequence[Mapping[str, Any]],
    settings: Settings,
    commit: Commit,
) -> Iterator[Any]:
    """What dbt reported, as Dagster events, with the rows each table got and those that failed a test."""
    for event in events:
        if isinstance(event, dg.Output):
            name = context.asset_key_for_output(event.output_name).path[-1]
            # A table that came out the same is not written, so only this tells what it was made of.
            made_of = dg.MetadataValue.json({"code": commit.code.get(name), "inputs": dict(commit.inputs)})
            written = written_by(context.run_id, settings.table_path("gold", name))
            yield event.with_metadata({**event.metadata, **written, MADE_OF: made_of})
        elif isinstance(event, dg.AssetCheckResult) and failing:
            yield _with_evidence(event, failing)
        else:
            yield event


def _with_evidence(result: dg.AssetCheckResult, rows: Sequence[Mapping[str, Any]]) -> dg.AssetCheckResult:
    """The result of a failed test with its first row in words and its first rows as a table."""
    records = [dg.TableRecord({name: in_words(value) for name, value in row.items()}) for row in rows]
    schema = dg.TableSchema(columns=[dg.TableColumn(name) for name in rows[0]])
    shown = {"failing rows": dg.MetadataValue.table(records, schema=schema)}
    return result._replace(description=tell_row(rows[0]), metadata={**(result.metadata or {}), **shown})
