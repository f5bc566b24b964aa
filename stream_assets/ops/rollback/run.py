"""The rollback as Dagster sees it: restored partitions are recorded on their assets, rebuilt ones are runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import dagster as dg

from stream_assets.engine.delta import day_ranges
from stream_assets.engine.session import open_session
from stream_assets.errors import LakeError
from stream_assets.ops.instance import record_restored
from stream_assets.ops.rollback.execute import execute
from stream_assets.ops.rollback.plan import Plan, Rebuild
from stream_assets.ops.run import run_range
from stream_assets.settings import Settings


def run_plan(settings: Settings, defs: dg.Definitions, plan: Plan, reason: str) -> None:
    """Restore, tell Dagster, then build again what could not be restored."""
    spark = open_session(settings)
    try:
        done = execute(spark, plan, reason)
    finally:
        spark.stop()
    record_restored(settings, {r.asset: (r.days, _facts(done[r.asset], plan.id)) for r in plan.restores})
    for first, last in day_ranges(date.fromisoformat(day) for rebuild in plan.rebuilds for day in rebuild.days):
        selection = _selection(plan.rebuilds)
        result = run_range(settings, defs, first, last, select=selection, report=lambda *_: None, again=True)
        if result.status != "success":
            raise LakeError(
                f"Everything was restored as {plan.id}, but building {first} to {last} again failed. "
                f"Mend the cause and run `stream run --from {first} --to {last} --select '{selection}' --again`."
            )


def _facts(told: dict[str, Any], run_id: str) -> dict[str, Any]:
    return {
        "description": f"Restored by {run_id} ({told['by']}): {told['request']}. {told['reason']}".strip(),
        "rollback": run_id,
        "undone_runs": told["undone"],
        "restored_versions": told["versions"],
    }


def _selection(rebuilds: Sequence[Rebuild]) -> str:
    return " or ".join(f'key:"{rebuild.asset}"' for rebuild in rebuilds)
