"""Bronze as Dagster assets: one per contract, one day of deliveries per partition."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

import dagster as dg

from stream_assets.bronze.follow import catch_up
from stream_assets.bronze.land import Landing, bronze_table, land
from stream_assets.bronze.query import look_up
from stream_assets.contracts.model import Contract, Server
from stream_assets.keys import asset_key, column_schema, is_again, owners, partition_days, tags
from stream_assets.quality.checks import BRONZE_CHECKS, check_results, check_specs
from stream_assets.quality.drift import VOLUME_CHANGE, judge_deliveries
from stream_assets.quality.outcomes import Outcome, judge_arrival, judge_delivery, judge_files
from stream_assets.resources import EngineResource
from stream_assets.settings import Settings
from stream_assets.sla.policies import freshness_policy

TOUCHED = "touched_event_days"
"""Metadata of a landing: the event days its records belong to, which the late-data sensor reads."""


def build_bronze(
    settings: Settings, contracts: list[Contract], partitions: dg.PartitionsDefinition, retry: dg.RetryPolicy
) -> dg.Definitions:
    """The Bronze assets of these contracts."""
    return dg.Definitions(assets=[_bronze_asset(settings, contract, partitions, retry) for contract in contracts])


def _bronze_asset(
    settings: Settings, contract: Contract, partitions: dg.PartitionsDefinition, retry: dg.RetryPolicy
) -> dg.AssetsDefinition:
    key = asset_key("bronze", contract.name)
    server = contract.server(settings.server)
    table = bronze_table(settings, contract)
    spec = dg.AssetSpec(
        key,
        description=f"{contract.purpose} Exactly as received.\n\n**Grain:** one row per record delivered, malformed ones included. Partitioned by delivery day.",
        group_name="bronze",
        kinds={"spark", "deltalake", server.format if server.kind == "local" else server.kind},
        owners=owners(contract),
        tags=tags(contract),
        partitions_def=partitions,
        freshness_policy=freshness_policy(contract),
        metadata={
            "dagster/column_schema": column_schema(table.columns),
            "dagster/table_name": f"bronze.{contract.name}",
            "dagster/uri": table.path,
            "contract": dg.MetadataValue.path(str(contract.file)),
            "contract_version": contract.version,
        },
    )

    @dg.multi_asset(
        name=f"land_{contract.name}",
        specs=[spec],
        check_specs=check_specs(key, contract, BRONZE_CHECKS),
        can_subset=True,
        backfill_policy=dg.BackfillPolicy.single_run(),
        retry_policy=retry,
        op_tags={"dataset": contract.name},
    )
    def land_deliveries(
        context: dg.AssetExecutionContext, engine: EngineResource
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        with engine.guarded() as spark:
            bring_in = _way_in(server, again=is_again(context))
            landing = bring_in(spark, engine.settings, contract, partition_days(context), run_id=context.run_id)
        context.log.info(
            f"{contract.name}: landed {len(landing.landed)} of {len(landing.rows)} days, {sum(landing.rows.values()):,} records in Bronze"
        )
        if key in context.selected_asset_keys:
            yield dg.MaterializeResult(key, metadata=landing_metadata(landing))
        yield from check_results(key, contract, _judge(contract, landing), context.selected_asset_check_keys)

    return land_deliveries


def _way_in(server: Server, *, again: bool) -> Callable[..., Landing]:
    """How records of such a server get into Bronze: as files, by looking at a table, or through a topic."""
    if server.kind == "local":
        return partial(land, again=again)
    return look_up if server.kind == "postgres" and server.options.get("pattern", "log") != "log" else catch_up


def _judge(contract: Contract, landing: Landing) -> list[Outcome]:
    """Every check of Bronze, from what landing saw and its ledger."""
    now = datetime.now(UTC)
    known = {**landing.history, **landing.entries}
    arrived = max((e["arrived"] for e in known.values() if e.get("arrived")), default=None)
    limit = contract.limit("distribution__delivery__volume", VOLUME_CHANGE)
    return [
        judge_delivery(landing.rows, landing.expected),
        judge_files(landing.problems, landing.incomplete),
        judge_arrival(contract, datetime.fromisoformat(arrived) if arrived else None, now),
        judge_deliveries(_finished(landing, now), landing.history, limit),
    ]


def _finished(landing: Landing, now: datetime) -> dict[str, dict[str, Any]]:
    """The days whose volume can be judged: a topic delivers all day long."""
    return {d: e for d, e in landing.entries.items() if not e.get("from_topic") or d < now.date().isoformat()}


def landing_metadata(landing: Landing) -> dict[str, dg.MetadataValue]:
    """What a landing tells in the UI and to the late-data sensor."""
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(sum(landing.rows.values())),
        "days_landed": dg.MetadataValue.int(len(landing.landed)),
        "days_unchanged": dg.MetadataValue.int(len(landing.rows) - len(landing.landed)),
        "days_held": dg.MetadataValue.json([day.isoformat() for day in landing.held]),
        TOUCHED: dg.MetadataValue.json([day.isoformat() for day in landing.touched]),
        **_topic_metadata(landing),
        "files_set_aside": dg.MetadataValue.json({f.source: f.problem for f in landing.problems}),
    }


def _topic_metadata(landing: Landing) -> dict[str, dg.MetadataValue]:
    if not landing.lag:
        return {}
    return {
        "lag": dg.MetadataValue.int(sum(landing.lag.values())),
        "lag_per_partition": dg.MetadataValue.json(landing.lag),
        "positions": dg.MetadataValue.json(landing.positions),
    }


def touched_days(materialization: dg.AssetMaterialization) -> set[date]:
    """The event days a landing touched, from its metadata."""
    found = materialization.metadata.get(TOUCHED)
    days = found.value if isinstance(found, dg.JsonMetadataValue) else []
    return {date.fromisoformat(str(day)) for day in days or []}  # pyright: ignore[reportGeneralTypeIssues]
