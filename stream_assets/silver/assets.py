"""Silver and quarantine as Dagster assets: one step per contract makes both, one event day per partition."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.keys import asset_key, column_schema, is_again, owners, partition_days, tags
from stream_assets.quality import outcomes as judge
from stream_assets.quality.checks import check_results, check_specs, silver_checks
from stream_assets.quality.report import latest_page
from stream_assets.resources import EngineResource
from stream_assets.settings import Settings
from stream_assets.silver.audit import explain, judge_entries
from stream_assets.silver.checks import build_reference_checks
from stream_assets.silver.publish import quarantine_table, silver_table
from stream_assets.silver.refine import Entries, Refinement, refine
from stream_assets.sla.policies import freshness_policy

HELD = "days_held"
"""Metadata: days that were rolled back and that this run therefore left alone."""


def build_silver(
    settings: Settings, contracts: list[Contract], partitions: dg.PartitionsDefinition, retry: dg.RetryPolicy
) -> dg.Definitions:
    """The Silver and quarantine assets of these contracts, and the checks that need two of them."""
    return dg.Definitions(
        assets=[_silver_assets(settings, contract, partitions, retry) for contract in contracts],
        asset_checks=[*build_reference_checks({contract.name: contract for contract in contracts}, retry)],
    )


def _silver_assets(
    settings: Settings, contract: Contract, partitions: dg.PartitionsDefinition, retry: dg.RetryPolicy
) -> dg.AssetsDefinition:
    silver, quarantine = asset_key("silver", contract.name), asset_key("quarantine", contract.name)

    @dg.multi_asset(
        name=f"refine_{contract.name}",
        specs=[_silver_spec(settings, contract, partitions), _quarantine_spec(settings, contract, partitions)],
        check_specs=check_specs(silver, contract, silver_checks(contract)),
        can_subset=True,
        backfill_policy=dg.BackfillPolicy.single_run(),
        retry_policy=retry,
        op_tags={"dataset": contract.name},
    )
    def refine_records(
        context: dg.AssetExecutionContext, engine: EngineResource
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        days = partition_days(context)
        with engine.guarded() as spark:
            done = refine(
                spark,
                engine.settings,
                contract,
                days,
                run_id=context.run_id,
                salt=engine.pii_salt(),
                again=is_again(context),
            )
        outcomes = _judge(contract, done)
        context.log.info(f"{contract.name}: refined {len(done.refined)} of {len(days)} days. {outcomes[0].summary}")
        if done.held:
            context.log.warning(
                f"{contract.name}: {len(done.held)} days are held: rolled back, or past their retention."
            )
        for key, counted in ((silver, "accepted"), (quarantine, "quarantined")):
            if key in context.selected_asset_keys and not done.withheld:
                yield dg.MaterializeResult(key, metadata=_metadata(done, counted))
        yield from check_results(silver, contract, outcomes, context.selected_asset_check_keys)
        if done.withheld:
            _tell_published(context, done, (silver, quarantine))
            raise dg.Failure(explain(engine.settings, contract, done.withheld), allow_retries=False)

    return refine_records


def _silver_spec(settings: Settings, contract: Contract, partitions: dg.PartitionsDefinition) -> dg.AssetSpec:
    when = {"event": "event day", "entity": "delivery day", "reference": "delivery day"}[contract.kind]
    return dg.AssetSpec(
        asset_key("silver", contract.name),
        deps=[asset_key("bronze", contract.name)],
        description=f"{contract.purpose} Typed, validated, deduplicated.\n\n**Grain:** {contract.grain} Partitioned by {when}.",
        freshness_policy=freshness_policy(contract),
        metadata=_table_metadata(silver_table(settings, contract), contract)
        | {"quality_report": dg.MetadataValue.path(str(latest_page(settings.home)))},
        **_common(contract, "silver", partitions),
    )


def _quarantine_spec(settings: Settings, contract: Contract, partitions: dg.PartitionsDefinition) -> dg.AssetSpec:
    return dg.AssetSpec(
        asset_key("quarantine", contract.name),
        deps=[asset_key("bronze", contract.name)],
        description=f"Records of {contract.name} that broke the contract, as received.\n\n**Grain:** one row per rejected record, with every rule it broke.",
        metadata=_table_metadata(quarantine_table(settings, contract), contract),
        **_common(contract, "quarantine", partitions),
    )


def _common(contract: Contract, group: str, partitions: dg.PartitionsDefinition) -> dict[str, Any]:
    return {
        "group_name": group,
        "kinds": {"spark", "deltalake"},
        "owners": owners(contract),
        "tags": tags(contract),
        "partitions_def": partitions,
    }


def _table_metadata(table: delta.Table, contract: Contract) -> dict[str, Any]:
    return {
        "dagster/column_schema": column_schema(table.columns),
        "dagster/table_name": f"{table.layer}.{table.name}",
        "dagster/uri": table.path,
        "contract": dg.MetadataValue.path(str(contract.file)),
        "contract_version": contract.version,
    }


def _metadata(done: Refinement, counted: str) -> dict[str, dg.MetadataValue]:
    rules: dict[str, int] = {}
    for entry in done.days.values():
        for rule, count in entry["violations"].items():
            rules[rule] = rules.get(rule, 0) + count
    totals = {
        name: sum(e[name] for e in done.days.values()) for name in ("rows_in", "accepted", "quarantined", "duplicates")
    }
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(totals[counted]),
        "days_refined": dg.MetadataValue.int(len(done.refined)),
        "days_unchanged": dg.MetadataValue.int(len(done.days) - len(done.refined)),
        HELD: dg.MetadataValue.json([day.isoformat() for day in done.held]),
        "rows_per_broken_rule": dg.MetadataValue.json(rules),
        **{name: dg.MetadataValue.int(count) for name, count in totals.items()},
    }


def _tell_published(context: dg.AssetExecutionContext, done: Refinement, keys: Sequence[dg.AssetKey]) -> None:
    """Days of the same run that passed were published: Dagster knows them one by one, since the step itself fails."""
    for key in keys:
        if key in context.selected_asset_keys:
            for day in done.refined:
                context.log_event(dg.AssetMaterialization(key, partition=day.isoformat()))


def _judge(contract: Contract, done: Refinement) -> list[judge.Outcome]:
    """Every check of Silver, from what was counted. A day that was withheld is judged by what it would have become."""
    entries = {**done.days, **done.withheld}
    newest = _newest({**done.history, **done.days})
    return [
        *judge_entries(contract, *_accountable(entries, done)),
        judge.judge_freshness(contract, newest, datetime.now(UTC)),
    ]


def _accountable(entries: Entries, done: Refinement) -> tuple[Entries, Entries, dict[str, int]]:
    """What is to add up. The rows of a held day may be of another delivery, or gone, on purpose."""
    kept = {day.isoformat() for day in done.held}
    counted = {d: n for d, n in done.landed.items() if d not in kept}
    return {d: e for d, e in entries.items() if d not in kept}, done.history, counted


def _newest(entries: Entries) -> datetime | None:
    """Time of the newest accepted record, by the ledger."""
    newest = max((e["newest_event"] for e in entries.values() if e.get("newest_event")), default=None)
    return datetime.fromisoformat(newest) if newest else None
