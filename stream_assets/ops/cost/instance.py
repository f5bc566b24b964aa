"""Gathers the figures of `count.py`: from the lake, its logs and the Dagster instance. Starts no engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import dagster as dg

from stream_assets.contracts.load import load_contracts
from stream_assets.contracts.model import Contract
from stream_assets.engine.footprint import footprint
from stream_assets.engine.session import lake_tables
from stream_assets.gold.models import tables_of, unread_tables
from stream_assets.gold.project import read_manifest
from stream_assets.ops.alerts.conditions import Watch
from stream_assets.ops.alerts.incidents import Condition, Incidents
from stream_assets.ops.backfill.instance import work_by_run
from stream_assets.ops.backfill.stale import Lake
from stream_assets.ops.cost.count import MONTH, Bill, StepTime, count_cost, suggest_savings
from stream_assets.resources import open_instance
from stream_assets.settings import Settings
from stream_assets.streaming.load import load_views

LOOKED_AT = 500
"""Runs whose durations are read."""
LOOK_EVERY = timedelta(hours=6)


def gather_bill(settings: Settings) -> Bill:
    """What everything costs per month by now."""
    contracts = load_contracts(settings.contracts)
    manifest = read_manifest(settings, list(contracts.values()))
    found = {table: footprint(f"{settings.lake}/{table}") for table in lake_tables(settings)}
    lake = Lake(settings, contracts, tables_of(manifest) if manifest else {})
    with open_instance(settings) as instance:
        times = _step_times(instance, lake)
    costs = count_cost(settings, found, times, datetime.now(UTC).timestamp())
    unread = unread_tables(manifest) - _looked_up(settings, contracts) if manifest else set()
    savings = suggest_savings(settings, contracts, found, times, costs, unread)
    return Bill(tuple(costs), tuple(savings), settings.cost_budget)


def _looked_up(settings: Settings, contracts: Mapping[str, Contract]) -> set[str]:
    """Tables that live views look things up in."""
    lookups = [view.lookup for view in load_views(settings.views, contracts).views if view.lookup]
    texts = [lookup.table or lookup.sql or "" for lookup in lookups]
    return {f"{layer}/{name}" for text in texts for layer, name in re.findall(r"\b(silver|gold)\.(\w+)", text)}


def _step_times(instance: dg.DagsterInstance, lake: Lake) -> list[StepTime]:
    work = dict(work_by_run(lake))
    since = datetime.now(UTC) - MONTH
    where = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS], created_after=since)
    return [
        StepTime(
            step.step_key,
            step.end_time,
            step.end_time - step.start_time,
            work.get((step.run_id, step.step_key), (0,))[0],
        )
        for record in reversed(instance.get_run_records(where, limit=LOOKED_AT))
        for step in instance.get_run_step_stats(record.dagster_run.run_id)
        if step.start_time and step.end_time
    ]


def watch_cost(settings: Settings) -> Watch:
    """An alert while a month costs more than STREAM_COST_BUDGET."""
    known: list[Condition] = []
    looked_at = datetime.min.replace(tzinfo=UTC)

    def watch(_: Incidents) -> list[Condition]:
        nonlocal known, looked_at
        now = datetime.now(UTC)
        if settings.cost_budget and now - looked_at >= LOOK_EVERY:
            known, looked_at = cost_conditions(gather_bill(settings)), now
        return known

    return watch


def cost_conditions(bill: Bill) -> list[Condition]:
    """A condition if the bill is over its budget."""
    if not bill.is_over:
        return []
    return [
        Condition(
            kind="budget",
            subject="lake",
            rule="cost_budget",
            severity="warning",
            expected=f"at most {bill.budget:,.2f} a month",
            found=f"{bill.total:,.2f} ({bill.storage:,.2f} for storage, {bill.compute:,.2f} for compute)",
        )
    ]
