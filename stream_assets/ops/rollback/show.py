"""How `stream rollback` shows a plan, to people and to machines."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stream_assets.engine.held import CONTRACT, DELIVERIES
from stream_assets.errors import LakeError
from stream_assets.ops.rollback.plan import Plan, Restore

NEXT_RUN = {
    "bronze": f"held until {DELIVERIES}",
    "silver": f"held until {CONTRACT}, if that differs",
    "quarantine": "follows Silver",
    "gold": "built from Silver by any run over these days",
}
"""What the next `stream run` over a restored day does."""


def show_plan(console: Console, plan: Plan) -> None:
    """One line per table, then what is built again and what stands in the way."""
    console.print(f"[bold]Rollback[/] of {escape(str(plan.request))}", soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("table", "days", "now", "back to", "files", "undoes", "the next run"):
        table.add_column(name, overflow="fold")
    for restore in plan.restores:
        facts = restore_document(restore)
        table.add_row(
            restore.asset,
            short_days(restore.days) or "whole",
            f"v{facts['version_now']}, {_number(facts['rows_now'])} rows",
            f"{_versions(facts['versions'])}, {_number(facts['rows_then'])} rows",
            "all there" if facts["files_missing"] == 0 else f"{facts['files_missing'] or 'log'} missing",
            "\n".join(run[:13] for run in restore.undone),
            facts["next_run"],
        )
    if plan.restores:
        console.print(table)
    for rebuild in plan.rebuilds:
        console.print(f"build again  {rebuild.asset}  {short_days(rebuild.days)}: {rebuild.reason}", soft_wrap=True)
    for problem in plan.problems:
        console.print(f"[red]refused[/] {escape(problem)}", soft_wrap=True)
    if not plan.restores and not plan.rebuilds:
        console.print("Nothing to undo: these days are as they were before.")


def plan_document(plan: Plan, *, executed: bool) -> dict[str, Any]:
    """The same for machines."""
    return {
        "id": plan.id,
        "request": str(plan.request),
        "executed": executed,
        "restores": [restore_document(restore) for restore in plan.restores],
        "rebuilds": [{"asset": r.asset, "days": list(r.days), "reason": r.reason} for r in plan.rebuilds],
        "problems": plan.problems,
        "undo": f"stream rollback --run {plan.id}" if executed else None,
    }


def restore_document(restore: Restore) -> dict[str, Any]:
    """One table as values. Rows and files are unknown where the log is lost."""
    try:
        then: dict[str, Any] = {"rows_then": restore.then.rows, "files_missing": restore.then.missing}
    except LakeError:
        then = {"rows_then": None, "files_missing": None}
    return {
        "asset": restore.asset,
        "days": restore.days,
        "version_now": restore.history.version,
        "rows_now": restore.now.rows,
        "versions": {day or "table": version for day, version in sorted(restore.targets.items())},
        **then,
        "undone": list(restore.undone),
        "later": list(restore.later),
        "next_run": NEXT_RUN[restore.asset.split("/")[0]],
    }


def short_days(days: Any) -> str:
    """Days in few characters."""
    ordered = sorted(days)
    return "" if not ordered else ordered[0] if len(ordered) == 1 else f"{ordered[0]}..{ordered[-1]} ({len(ordered)})"


def _versions(versions: dict[str, int]) -> str:
    distinct = sorted(set(versions.values()))
    return f"v{distinct[0]}" if len(distinct) == 1 else f"v{distinct[0]}..v{distinct[-1]}"


def _number(rows: int | None) -> str:
    return "?" if rows is None else f"{rows:,}"
