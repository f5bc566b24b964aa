"""How things stand: the service level of each dataset and the targets of the whole. Nothing here starts Spark.

Facts come from two places: the Delta logs (`engine/log.py`) and the Dagster instance (`ops/instance.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stream_assets.contracts.model import Contract
from stream_assets.engine.log import LoggedCommit, read_log
from stream_assets.gold.models import Model
from stream_assets.ops.instance import InstanceFacts
from stream_assets.ops.latency import measure_latency
from stream_assets.quality.score import TARGET as MIN_QUALITY
from stream_assets.quality.score import CheckResult, quality_score
from stream_assets.quality.words import span_text
from stream_assets.settings import Settings
from stream_assets.sla.budget import Budget, measure_budget, month_of
from stream_assets.sla.tiers import TIERS
from stream_assets.sla.updates import updates_of

STREAMING, BATCH = timedelta(minutes=15), timedelta(hours=1)
MIN_SUCCESS = 0.99
CRITICAL = 1
"""The tier whose datasets are held to their latency as well."""
RECONCILIATIONS = {"completeness__delivery__landed", "completeness__table__reconciled"}
"""Checks that count every record from the files to Silver."""


@dataclass(frozen=True)
class DatasetStatus:
    """The service level of one dataset."""

    name: str
    tier: int
    target: timedelta
    limit: timedelta
    newest_event: datetime | None
    age: timedelta | None
    budget: Budget
    latency: timedelta | None = None
    """Tier 1: what 99 of 100 records took at most from event to Gold."""

    @property
    def is_fresh(self) -> bool:
        """Whether the newest event is within the limit now."""
        return self.age is not None and self.age <= self.limit


@dataclass(frozen=True)
class Target:
    """A promise of the whole: the figure, what it should be, and whether it is. None: nothing was measured yet."""

    name: str
    figure: str
    target: str
    is_met: bool | None


@dataclass(frozen=True)
class Status:
    """How things stand at a moment."""

    now: datetime
    datasets: tuple[DatasetStatus, ...]
    targets: tuple[Target, ...]


def gather_status(
    settings: Settings,
    contracts: Iterable[Contract],
    models: Mapping[str, Model],
    facts: InstanceFacts,
    now: datetime,
) -> Status:
    """Read the log of each Silver table and put everything together."""
    datasets = tuple(
        replace(
            dataset_status(contract, read_log(settings.table_path("silver", contract.name)), now),
            latency=measure_latency(settings, contract, models, now) if contract.tier == CRITICAL else None,
        )
        for contract in contracts
    )
    return Status(now, datasets, tuple(overall_targets(datasets, facts)))


def dataset_status(contract: Contract, commits: Sequence[LoggedCommit], now: datetime) -> DatasetStatus:
    """The service level of a dataset from the commits of its Silver table."""
    updates = updates_of(commits)
    newest = max((update.newest_event for update in updates), default=None)
    limit = contract.freshness_limit
    month = month_of(now.date())
    return DatasetStatus(
        contract.name,
        contract.tier,
        contract.freshness,
        limit,
        newest,
        now - newest if newest else None,
        measure_budget(updates, limit=limit, tier=TIERS[contract.tier], month=month, now=now),
    )


def overall_targets(datasets: Sequence[DatasetStatus], facts: InstanceFacts) -> Iterator[Target]:
    """What the whole promises, in the order people ask."""
    yield _success_target(facts.succeeded, facts.failed)
    yield from _freshness_targets(datasets)
    yield _latency_target([dataset for dataset in datasets if dataset.latency is not None])
    yield _quality_target(facts.checks, {dataset.name: dataset.tier for dataset in datasets})
    yield _loss_target([check for check in facts.checks if check.name in RECONCILIATIONS])
    yield Target(
        "lineage",
        f"{facts.traced} of {facts.assets} assets",
        "origin of every asset known",
        facts.traced == facts.assets if facts.assets else None,
    )


def _success_target(succeeded: int, failed: int) -> Target:
    runs = succeeded + failed
    figure = f"{succeeded / runs:.1%} of {runs:,} runs this month" if runs else "no runs this month"
    return Target("runs succeed", figure, f"> {MIN_SUCCESS:.0%}", succeeded / runs > MIN_SUCCESS if runs else None)


def _freshness_targets(datasets: Sequence[DatasetStatus]) -> Iterator[Target]:
    """Streams and hourly batches share one target each; what arrives less often is held to its own contract."""
    streams = [dataset for dataset in datasets if dataset.target <= STREAMING]
    batches = [dataset for dataset in datasets if STREAMING < dataset.target <= BATCH]
    others = [dataset for dataset in datasets if dataset.target > BATCH]
    if streams:
        yield _age_target("freshness of streams", streams, STREAMING)
    if batches:
        yield _age_target("freshness of batches", batches, BATCH)
    if others:
        fresh = sum(dataset.is_fresh for dataset in others)
        is_known = any(dataset.age is not None for dataset in others)
        figure = f"{fresh} of {len(others)} datasets" if is_known else "no events yet"
        is_met = fresh == len(others) if is_known else None
        yield Target("freshness of the rest", figure, "each within its contract", is_met)


def _age_target(name: str, datasets: Sequence[DatasetStatus], limit: timedelta) -> Target:
    ages = [dataset.age for dataset in datasets if dataset.age is not None]
    figure = f"oldest {span_text(max(ages))}" if ages else "no events yet"
    is_met = max(ages) < limit if len(ages) == len(datasets) else False
    return Target(name, figure, f"< {span_text(limit)}", is_met if ages else None)


def _latency_target(datasets: Sequence[DatasetStatus]) -> Target:
    """Critical datasets are held to how long their records take all the way, each within its own limit."""
    slow = max(datasets, key=lambda dataset: (dataset.latency or timedelta()) / dataset.limit, default=None)
    figure = f"{slow.name} {span_text(slow.latency)}" if slow and slow.latency is not None else "nothing measured yet"
    is_met = all(d.latency <= d.limit for d in datasets if d.latency is not None) if datasets else None
    return Target("event to Gold, tier 1", f"p99: {figure}" if slow else figure, "each within its target", is_met)


def _quality_target(checks: Sequence[CheckResult], tiers: Mapping[str, int]) -> Target:
    score = quality_score(checks, tiers)
    figure = "no checks yet" if score is None else f"{score:.1%} of {len(checks):,} checks, by weight"
    return Target("quality score", figure, f"> {MIN_QUALITY:.0%}", None if score is None else score > MIN_QUALITY)


def _loss_target(checks: Sequence[CheckResult]) -> Target:
    passed = sum(check.passed for check in checks)
    figure = f"{passed} of {len(checks)} tables reconciled" if checks else "no checks yet"
    return Target("no data loss", figure, "every record accounted for", passed == len(checks) if checks else None)
