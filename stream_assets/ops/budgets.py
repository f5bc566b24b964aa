"""Error budgets as something people are told about: those that are burning, and those that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from stream_assets.contracts.model import Contract
from stream_assets.engine.log import read_log
from stream_assets.keys import owners
from stream_assets.ops.alerts.conditions import Watch
from stream_assets.ops.alerts.incidents import Condition, Incidents
from stream_assets.ops.status import DatasetStatus, dataset_status
from stream_assets.quality.words import span_text
from stream_assets.settings import Settings

LOOK_EVERY = timedelta(minutes=10)
"""Delta logs are read this often; the sensor that asks comes by every half minute."""


def watch_budgets(settings: Settings, contracts: Sequence[Contract]) -> Watch:
    """A watch over the budgets of these datasets."""
    known: list[Condition] = []
    looked_at = datetime.min.replace(tzinfo=UTC)

    def watch(_: Incidents) -> list[Condition]:
        nonlocal known, looked_at
        now = datetime.now(UTC)
        if now - looked_at >= LOOK_EVERY:
            found = [(c, dataset_status(c, read_log(settings.table_path("silver", c.name)), now)) for c in contracts]
            known, looked_at = budget_conditions(found), now
        return known

    return watch


def budget_conditions(found: Iterable[tuple[Contract, DatasetStatus]]) -> list[Condition]:
    """A condition for every dataset whose budget is not in order."""
    return [
        Condition(
            kind="budget",
            subject=f"silver/{contract.name}",
            rule="error_budget",
            severity="critical" if status.budget.state == "exhausted" else "error",
            expected=f"stale for at most {span_text(status.budget.allowed)} a month (tier {contract.tier})",
            found=f"{span_text(status.budget.stale)} so far, {status.budget.state}: {status.budget.policy}",
            owners=tuple(owners(contract)),
        )
        for contract, status in found
        if status.budget.state in ("burning", "exhausted")
    ]
