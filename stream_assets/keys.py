"""A dataset and a layer make an asset: its key, group, tags, kinds and owners are decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta

import dagster as dg

from stream_assets.contracts.model import Contract


def asset_key(layer: str, name: str) -> dg.AssetKey:
    """`bronze/orders`, `gold/fct_orders`."""
    return dg.AssetKey([layer, name])


def daily_partitions(contracts: Iterable[Contract]) -> dg.DailyPartitionsDefinition:
    """One day is one partition, from the earliest history of any contract to today included (deliveries arrive all day).

    The first delivery may hold late records: days they belong to are partitions too.
    """
    starts = [c.history_start - timedelta(days=c.max_lateness if c.kind == "event" else 0) for c in contracts]
    start = min(starts, default=date(2025, 1, 1))
    return dg.DailyPartitionsDefinition(start_date=start.isoformat(), end_offset=1)


def known_days(partitions: dg.PartitionsDefinition, days: Iterable[date]) -> set[date]:
    """The days that are partitions by now: a record dated tomorrow waits in Bronze until its day has come."""
    first, last = partitions.get_first_partition_key(), partitions.get_last_partition_key()
    return {day for day in days if first and last and first <= day.isoformat() <= last}


def owners(contract: Contract) -> list[str]:
    """The team, and the person who answers for the data."""
    return [f"team:{contract.team}", contract.owner]


def tags(contract: Contract) -> dict[str, str]:
    """What people filter by in the UI."""
    return {"domain": contract.domain, "tier": str(contract.tier), "dataset": contract.name, "kind": contract.kind}


def partition_days(context: dg.AssetExecutionContext) -> list[date]:
    """The days a step was asked for."""
    return [date.fromisoformat(key) for key in context.partition_keys]


AGAIN = "stream/again"
"""Tag of a run that makes its days anew although nothing they are made of has changed: after a file was lost or damaged."""


def is_again(context: dg.AssetExecutionContext) -> bool:
    """Whether a step shall not trust what was made before."""
    return AGAIN in context.run.tags


def column_schema(columns: Mapping[str, tuple[str, str]]) -> dg.TableSchema:
    """Columns (name → type, description) as the UI shows them."""
    return dg.TableSchema(
        [dg.TableColumn(name, kind, description=text or None) for name, (kind, text) in columns.items()]
    )
