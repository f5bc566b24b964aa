"""The floor plan: the rooms in the order data flows through them, merged once."""

from __future__ import annotations

import dagster as dg

from stream_assets.bronze.assets import build_bronze
from stream_assets.contracts.load import load_contracts
from stream_assets.gold.assets import build_gold
from stream_assets.keys import daily_partitions
from stream_assets.ops.alerts.sensors import build_alerts
from stream_assets.ops.automation import build_automation
from stream_assets.ops.broken import build_broken
from stream_assets.ops.budgets import watch_budgets
from stream_assets.ops.captures import watch_captures
from stream_assets.ops.cost.instance import watch_cost
from stream_assets.ops.executor import thread_executor
from stream_assets.ops.maintenance.jobs import build_maintenance
from stream_assets.resources import EngineResource
from stream_assets.settings import Settings
from stream_assets.silver.assets import build_silver
from stream_assets.streaming.assets import build_live
from stream_assets.streaming.load import load_views

RETRY = dg.RetryPolicy(max_retries=2, delay=5, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)


def build_defs(settings: Settings | None = None) -> dg.Definitions:
    """Everything Stream is, from its contracts. Reads files, opens nothing else."""
    settings = settings or Settings.from_env()
    contracts = load_contracts(settings.contracts)
    views = load_views(settings.views, contracts)
    datasets = list(contracts.values())
    partitions = daily_partitions(datasets)
    return dg.Definitions.merge(
        build_bronze(settings, datasets, partitions, RETRY),
        build_silver(settings, datasets, partitions, RETRY),
        build_gold(settings, datasets, partitions, RETRY),
        build_live(settings, dict(contracts), views),
        build_automation(settings, datasets, partitions),
        build_maintenance(settings, RETRY),
        build_alerts(
            settings, [watch_budgets(settings, datasets), watch_cost(settings), watch_captures(settings, datasets)]
        ),
        build_broken((*contracts.broken, *views.broken)),
        dg.Definitions(resources={"engine": EngineResource.from_settings(settings)}, executor=thread_executor),
    )
