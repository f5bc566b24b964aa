"""Checks that need two Silver tables, as Dagster asset checks in steps of their own.

They come after both tables: as a dependency between assets, two datasets that point at each other would be a cycle.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date

import dagster as dg

from stream_assets.contracts.model import Contract
from stream_assets.engine.files import rows_in
from stream_assets.engine.log import read_ledger
from stream_assets.engine.session import configured, plan_settings
from stream_assets.keys import asset_key
from stream_assets.quality.checks import check_results, check_specs, reference_checks
from stream_assets.quality.outcomes import judge_references
from stream_assets.resources import EngineResource
from stream_assets.settings import Settings
from stream_assets.silver.references import find_orphans

DAYS_ALONE = 7
"""How many of the last days a check looks at when it is run on its own."""


def build_reference_checks(
    contracts: Mapping[str, Contract], retry: dg.RetryPolicy
) -> Iterator[dg.AssetChecksDefinition]:
    """One step per dataset with columns that point at others."""
    return (_compare(contract, contracts, retry) for contract in contracts.values() if reference_checks(contract))


def _compare(contract: Contract, contracts: Mapping[str, Contract], retry: dg.RetryPolicy) -> dg.AssetChecksDefinition:
    silver = asset_key("silver", contract.name)
    columns = {column: contracts.get(column.references[0]) for column in contract.columns if column.references}
    others = {asset_key("silver", target.name) for target in columns.values() if target} - {silver}

    @dg.multi_asset_check(
        name=f"references_{contract.name}",
        specs=check_specs(silver, contract, reference_checks(contract), after=sorted(others)),
        can_subset=True,
        retry_policy=retry,
        op_tags={"dataset": contract.name},
    )
    def compare_keys(context: dg.AssetCheckExecutionContext, engine: EngineResource) -> Iterator[dg.AssetCheckResult]:
        entries = read_ledger(engine.settings.table_path("silver", contract.name))
        days = [date.fromisoformat(day) for day in sorted(_asked(context, entries))]
        compared = [contract, *(target for target in columns.values() if target)]
        with engine.guarded() as spark, configured(spark, _plan(engine.settings, compared)):
            found = {c: find_orphans(spark, contract, c, target, days) for c, target in columns.items()}
        outcomes = [judge_references(contract, column.name, orphans, entries) for column, orphans in found.items()]
        yield from check_results(silver, contract, outcomes, context.selected_asset_check_keys)

    return compare_keys


def _plan(settings: Settings, compared: Iterable[Contract]) -> dict[str, str]:
    """How Spark is to plan the comparison, by all that Silver has of these."""
    return plan_settings(sum(rows_in(settings.table_path("silver", contract.name)) for contract in compared))


def _asked(context: dg.AssetCheckExecutionContext, entries: Mapping[str, object]) -> set[str]:
    """The days of the run that Silver has."""
    op = context.op_execution_context
    is_alone = not (op.has_partition_key or op.has_partition_key_range)
    return {*sorted(entries)[-DAYS_ALONE:]} if is_alone else {*op.partition_keys} & {*entries}
