"""Carries out a rollback: one commit per table, each with the ledger entries of the rows it puts back."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import SparkSession

from stream_assets.engine.held import STAMPS, hold
from stream_assets.engine.history import WHOLE, History
from stream_assets.engine.ledger import Commit
from stream_assets.engine.restore import note, restore
from stream_assets.errors import LakeError
from stream_assets.ops.rollback.plan import Plan, Restore
from stream_assets.silver.conform import NOTHING

EMPTY: dict[str, dict[str, Any]] = {
    "bronze": {"rows_in": 0, "arrived": None, "files": "", "sources": {}, "unreadable": {}},
    "silver": {**NOTHING, "profile": {}, "inputs": ""},
    "quarantine": {**NOTHING, "profile": {}, "inputs": ""},
    "gold": {},
}
"""The entry of a day that is as if it had never been."""


def execute(spark: SparkSession, plan: Plan, reason: str) -> dict[str, dict[str, Any]]:
    """Restore every table of the plan, what is read by others last. Returns what each page says of its restoration."""
    if plan.problems:
        raise LakeError("Nothing was rolled back:\n" + "\n".join(plan.problems))
    done: dict[str, dict[str, Any]] = {}
    for each in plan.restores:
        commit = page_of(each, plan, reason)
        restore(spark, each.history, each.targets, commit)
        done[each.asset] = dict(commit.restored)
    return done


def page_of(restored: Restore, plan: Plan, reason: str) -> Commit:
    """The ledger page: the entries of the version that is restored, held where the next run would undo it."""
    layer, _, name = restored.asset.partition("/")
    newest = max(restored.targets.values())
    told = {
        "request": str(plan.request),
        "reason": reason,
        "by": getpass.getuser(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "undone": list(restored.undone),
        "versions": {day: version for day, version in sorted(restored.targets.items()) if day != WHOLE}
        or {"table": newest},
    }
    entries = _entries(restored, layer, plan.id)
    made_of = _page_at(restored.history, newest)
    return Commit(
        plan.id,
        name,
        layer,
        made_of.get("contract_version", ""),
        entries,
        code=made_of.get("code", {}),
        inputs=made_of.get("inputs", {}),
        restored=told,
    )


def _page_at(history: History, version: int) -> Mapping[str, Any]:
    """The newest page of ours up to a version: what the rows of that version were made of."""
    return next((c.page for c in reversed(history.changes) if c.page and c.version <= version), {})


def _entries(restored: Restore, layer: str, run_id: str) -> dict[str, Mapping[str, Any]]:
    now = restored.history.entries(restored.history.version)
    known = {v: restored.history.entries(v) for v in set(restored.targets.values())}
    entries: dict[str, Mapping[str, Any]] = {}
    for day in restored.days:
        version = restored.targets.get(day, restored.targets.get(WHOLE, -1))
        entry = known[version].get(day, EMPTY[layer])
        entries[day] = hold(entry, now.get(day, {}), STAMPS[layer], run_id) if layer in STAMPS else entry
    return entries


def held_days(history: History, days: tuple[date, date] | None) -> dict[str, Mapping[str, Any]]:
    """The entries that are held, of these days or of all."""
    entries = history.entries(history.version)
    within = {d: e for d, e in entries.items() if not days or days[0].isoformat() <= d <= days[1].isoformat()}
    return {day: entry for day, entry in within.items() if "held" in entry}


def release(spark: SparkSession, history: History, asset: str, days: tuple[date, date] | None, run_id: str) -> None:
    """Let the next run compute held days again: a commit that changes no row."""
    layer, _, name = asset.partition("/")
    free = {day: {k: v for k, v in e.items() if k != "held"} for day, e in held_days(history, days).items()}
    if free:
        note(spark, history.path, Commit(run_id, name, layer, "", free))
