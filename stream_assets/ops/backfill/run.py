"""Runs a plan: one Dagster run per chunk, in this process, apart from the live path.

Not a backfill of the daemon: a repair must work on a machine where no daemon runs, show its progress where it was started,
and take none of the run queue's places from live runs. Its runs are in the UI under the tag `stream/backfill`. What is done
is read from the Delta logs and not from a list of our own, so a plan can be killed and run again at any moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime

import dagster as dg
from filelock import FileLock, Timeout

from stream_assets.errors import StreamError
from stream_assets.ops.backfill.instance import (
    BACKFILL,
    live_runs,
    open_lake,
    read_facts,
    selected_assets,
)
from stream_assets.ops.backfill.make import Request, bytes_now, code_of, make_plan
from stream_assets.ops.backfill.plan import WHOLE, Chunk, Plan, folder_of, groups_of, ranges_of, store
from stream_assets.ops.backfill.stale import Causes, Scope, find_stale
from stream_assets.ops.backfill.verify import Verdict, verify
from stream_assets.ops.prepare import prepare_home
from stream_assets.ops.run import ExecutionResult, Report, Runner
from stream_assets.resources import open_instance
from stream_assets.settings import Settings

LOOK_EVERY_S = 1.0
PATIENCE_S = 900.0
"""How long a chunk waits for live runs. Longer than a live run takes; a day full of them must not stop a repair for ever."""


def plan_backfill(settings: Settings, defs: dg.Definitions, request: Request) -> Plan:
    """Plan and keep the plan. Starts no engine."""
    prepare_home(settings)
    with open_instance(settings) as instance:
        lake = open_lake(settings, instance)
        facts = read_facts(instance, defs, lake, selected_assets(defs, request.select))
        plan = make_plan(lake, request, facts)
    store(settings.home, plan)
    return plan


def run_backfill(
    settings: Settings, defs: dg.Definitions, plan: Plan, *, report: Report, note: Callable[[str], None]
) -> Plan:
    """Make what is still stale of a plan, verify it, and keep what came of it."""
    prepare_home(settings)
    folder_of(settings.home).mkdir(exist_ok=True)
    try:
        with FileLock(folder_of(settings.home) / "run.lock", timeout=0), open_instance(settings) as instance:
            return _Backfill(settings, defs, instance, plan, report, note).run()
    except Timeout:
        raise StreamError("A backfill of this STREAM_HOME runs already. `stream backfill list` shows it.") from None


class _Backfill:
    """One attempt at a plan."""

    def __init__(
        self,
        settings: Settings,
        defs: dg.Definitions,
        instance: dg.DagsterInstance,
        plan: Plan,
        report: Report,
        note: Callable[[str], None],
    ) -> None:
        self.settings, self.plan, self.instance, self.note = settings, plan, instance, note
        self.result = ExecutionResult(started_at=datetime.now(UTC).isoformat(timespec="seconds"))
        tags = {"stream/command": "backfill", BACKFILL: plan.id, "dagster/priority": "-10"}
        # One step at a time leaves the other half of the engine to live runs.
        self.runner = Runner(settings, defs, instance, self.result, report, tags, steps_at_once=1)

    def run(self) -> Plan:
        """Stage by stage; what is done already is left alone."""
        self._refuse_other_code()
        before = dict(self.plan.outcome)
        started, waited = time.monotonic(), 0.0
        keep = {"status": "running", "attempts": before.get("attempts", 0) + 1, "runs": before.get("runs", [])}
        self._keep({**before, "started_at": before.get("started_at", self.result.started_at), **keep})
        rows = before.get("rows", 0)
        for stage in sorted({chunk.stage for chunk in self.plan.chunks}):
            for chunk in self._left(stage):
                waited += self._give_way()
                rows += self._make(chunk)
                seconds = before.get("seconds", 0.0) + time.monotonic() - started - waited
                self._keep({**self.plan.outcome, "rows": rows, "seconds": round(seconds, 1)})
                if self.result.errors or self.result.failed_gates:
                    return self._end("failed", None)
        verdict = verify(open_lake(self.settings, self.instance), self.plan, self._stale())
        return self._end("done" if verdict.passed else "failed", verdict)

    def _refuse_other_code(self) -> None:
        today = code_of(open_lake(self.settings, self.instance), [item.asset for item in self.plan.items])
        changed = sorted(asset for asset, code in today.items() if code != self.plan.code[asset])
        if changed:
            raise StreamError(
                f"Contracts or code changed since this plan was made ({', '.join(changed[:5])}): it would do something else than "
                f"it says. Plan again with `stream backfill plan --reason {self.plan.reason} --select '{self.plan.select}'`."
            )

    def _stale(self) -> dict[str, Causes]:
        """What of the plan is still stale."""
        lake = open_lake(self.settings, self.instance)
        planned = {item.asset: set(item.days) for item in self.plan.items}
        scopes = {n: Scope(date.fromisoformat(f), date.fromisoformat(t)) for n, (f, t) in self.plan.scope.items()}
        found = find_stale(lake, planned, scopes)
        left = {a: {d: c for d, c in causes.items() if d in planned.get(a, ())} for a, causes in found.items()}
        return {asset: causes for asset, causes in left.items() if causes}

    def _left(self, stage: int) -> list[Chunk]:
        """The chunks of a stage without the partitions that are done, by this or any other run."""
        lake, chunks = open_lake(self.settings, self.instance), [c for c in self.plan.chunks if c.stage == stage]
        stale = {a: causes for a, causes in self._stale().items() if any(a in chunk.assets for chunk in chunks)}
        longest = max((date.fromisoformat(c.last) - date.fromisoformat(c.first)).days + 1 for c in chunks)
        left: list[Chunk] = []
        for _, assets, days in groups_of(stale, lake.models):
            if days == [WHOLE]:
                left += [replace(chunks[-1], assets=assets)]
            left += [
                replace(chunks[0], assets=assets, first=first.isoformat(), last=last.isoformat())
                for first, last in ranges_of(days, longest)
            ]
        return left

    def _give_way(self) -> float:
        """Wait while live runs are under way. Returns for how long."""
        began = time.monotonic()
        while (waiting := live_runs(self.instance)) and time.monotonic() - began < PATIENCE_S:
            if time.monotonic() - began < LOOK_EVERY_S:
                self.note(f"Waiting for {len(waiting)} live runs")
            time.sleep(LOOK_EVERY_S)
        return time.monotonic() - began

    def _make(self, chunk: Chunk) -> int:
        """One Dagster run. Returns the rows it worked on."""
        before = _rows(self.result)
        self.note(
            f"{chunk.first} to {chunk.last}: {', '.join(chunk.assets[:3])}{' …' if len(chunk.assets) > 3 else ''}"
        )
        keys = {dg.AssetKey(asset.split("/")) for asset in chunk.assets}
        self.runner.execute(keys, date.fromisoformat(chunk.first), date.fromisoformat(chunk.last))
        self.plan.outcome["runs"] = [*self.plan.outcome["runs"], self.result.run_ids[-1]]
        return _rows(self.result) - before

    def _end(self, status: str, verdict: Verdict | None) -> Plan:
        checks = {(c["asset"], c["check"]): c for c in self.result.checks}
        failed = [f"{asset} {check}" for (asset, check), c in checks.items() if not c["passed"]]
        seconds = self.plan.outcome.get("seconds", 0.0)
        self._keep(
            {
                **self.plan.outcome,
                "status": status,
                "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
                "errors": self.result.errors,
                "checks": {"passed": len(checks) - len(failed), "failed": failed},
                "failed_gates": [f"{c['asset']} {c['check']}: {c['summary']}" for c in self.result.failed_gates],
                "verified": verdict.to_dict() if verdict else None,
                "bytes": bytes_now(open_lake(self.settings, self.instance), self.plan.items),
                "estimated_seconds": self.plan.seconds,
                "actual_over_estimate": round(seconds / self.plan.seconds, 2) if self.plan.seconds else None,
            }
        )
        return self.plan

    def _keep(self, outcome: dict) -> None:
        self.plan.outcome = outcome
        store(self.settings.home, self.plan)


def _rows(result: ExecutionResult) -> int:
    return sum(facts["rows"] for name, facts in result.assets.items() if not name.startswith("quarantine/"))
