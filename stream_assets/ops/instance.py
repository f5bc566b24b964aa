"""What the Dagster instance and the asset graph know, as plain facts: runs, latest check results, lineage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from stream_assets.quality.score import CheckResult
from stream_assets.resources import open_instance
from stream_assets.settings import Settings

JUDGED = {"SUCCEEDED": True, "FAILED": False}
"""States of a check that has a result; others are still planned or were never reached."""
DBT_ROWS = "dagster_dbt/failed_row_count"
"""Metadata of a dbt test: how many rows it found."""


@dataclass(frozen=True)
class InstanceFacts:
    """Everything `stream status` needs of Dagster."""

    succeeded: int
    failed: int
    checks: tuple[CheckResult, ...]
    assets: int
    traced: int
    """Assets whose origin is known: they have dependencies, or read the landing zone."""


def read_instance(settings: Settings, defs: dg.Definitions, *, since: datetime) -> InstanceFacts:
    """The facts of this STREAM_HOME; runs are counted from a moment on."""
    graph = defs.resolve_asset_graph()
    keys = graph.materializable_asset_keys
    with open_instance(settings) as instance:
        return InstanceFacts(
            succeeded=_count_runs(instance, dg.DagsterRunStatus.SUCCESS, since),
            failed=_count_runs(instance, dg.DagsterRunStatus.FAILURE, since),
            checks=latest_checks(
                instance,
                {
                    check: graph.get_check_spec(check).description or ""
                    for key in keys
                    for check in graph.get(key).check_keys
                },
            ),
            assets=len(keys),
            traced=sum(key.path[0] == "bronze" or bool(graph.get(key).parent_keys) for key in keys),
        )


def descendants(defs: dg.Definitions, asset: str) -> list[str]:
    """Everything that is made of an asset, directly or not."""
    graph = defs.resolve_asset_graph()
    below = dg.AssetSelection.assets(dg.AssetKey(asset.split("/"))).downstream(include_self=False).resolve(graph)
    return sorted(key.to_user_string() for key in below)


def record_restored(settings: Settings, told: Mapping[str, tuple[Sequence[str], Mapping[str, Any]]]) -> None:
    """Tell Dagster of partitions that were written outside of a run: asset → days and metadata."""
    with open_instance(settings) as instance:
        for asset, (days, facts) in told.items():
            for day in days:
                instance.report_runless_asset_event(
                    dg.AssetMaterialization(
                        dg.AssetKey(asset.split("/")),
                        partition=day,
                        description=str(facts.get("description", "")),
                        metadata={key: value for key, value in facts.items() if key != "description"},
                    )
                )


def _count_runs(instance: dg.DagsterInstance, status: dg.DagsterRunStatus, since: datetime) -> int:
    return instance.get_runs_count(dg.RunsFilter(statuses=[status], created_after=since))


def latest_checks(instance: dg.DagsterInstance, promises: Mapping[dg.AssetCheckKey, str]) -> tuple[CheckResult, ...]:
    """The latest result of each check that has one; each check comes with what it promises, in words."""
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(promises))
    judged = [(key, record) for key, record in records.items() if record.status.value in JUDGED]
    return tuple(
        CheckResult(
            asset=key.asset_key.to_user_string(),
            name=key.name,
            passed=JUDGED[record.status.value],
            is_gate=bool(record.evaluation and record.evaluation.blocking),
            expected=promises[key],
            found=_found(record.evaluation),
            evaluated_at=datetime.fromtimestamp(record.create_timestamp, UTC),
        )
        for key, record in sorted(judged)
    )


def _found(evaluation: dg.AssetCheckEvaluation | None) -> str:
    """What a check found, in words. dbt says none, but may have counted rows."""
    if evaluation is None:
        return ""
    rows = evaluation.metadata.get(DBT_ROWS)
    return evaluation.description or (
        f"rows that break it: {rows.value:,}" if rows and isinstance(rows.value, int) else ""
    )
