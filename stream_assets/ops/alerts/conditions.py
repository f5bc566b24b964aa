"""Which conditions hold: pure functions from what was observed, and what is open, to `Condition`s.

`Watch` is the seam: whoever knows of another kind of trouble gives the sensor one more function. Checks and runs are read
as news since the last look, so what is open is carried on until news says it is over; freshness and resources are states.
Nothing here reads Dagster (see `sensors.py`), and no error text is taken over: it may quote a record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from stream_assets.ops.alerts.incidents import Condition, Incidents, Kind, Severity, is_worse

Watch = Callable[[Incidents], list[Condition]]
"""Given the open incidents, the conditions that hold now. Those it leaves out are over."""

FRESHNESS_POLICY = "freshness_policy"
RUN = "succeeds"
LIMITS: tuple[tuple[float, Severity], ...] = ((95.0, "critical"), (80.0, "warning"))
RELIEF = 5.0
"""A resource that is an open incident must fall this many points below a limit: one that swings around it is one incident."""


@dataclass(frozen=True)
class CheckOutcome:
    """The latest word of one asset check."""

    asset: str
    check: str
    passed: bool
    severity: Severity
    expected: str
    found: str
    partitions: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    run_id: str = ""
    sample: tuple[str, ...] = ()
    look: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class RunOutcome:
    """What a finished run did, by asset, or by job when it broke outside of any step."""

    run_id: str
    partitions: frozenset[str]
    failed: Mapping[str, str]
    """Asset or job → class of the error."""
    succeeded: frozenset[str]
    owners: Mapping[str, tuple[str, ...]]


def check_conditions(incidents: Incidents, news: Iterable[CheckOutcome], watched: Collection[str]) -> list[Condition]:
    """Failed checks: those open, corrected by the news in its order. An asset that is gone takes its incidents along."""
    held = {c.key: c for c in _open(incidents, "check", "drift", "freshness") if c.rule != FRESHNESS_POLICY}
    for outcome in news:
        condition = _check_condition(outcome)
        held.pop(condition.key, None)
        if not outcome.passed:
            held[condition.key] = condition
    return [condition for condition in held.values() if condition.subject in watched]


def _check_condition(outcome: CheckOutcome) -> Condition:
    return Condition(
        kind=check_kind(outcome.check),
        subject=outcome.asset,
        rule=outcome.check,
        severity=outcome.severity,
        expected=outcome.expected,
        found=outcome.found,
        partitions=outcome.partitions,
        owners=outcome.owners,
        run_id=outcome.run_id,
        remedy=outcome.remedy,
        sample=outcome.sample,
        look=outcome.look,
    )


def check_kind(check: str) -> Kind:
    """Which runbook a check belongs to, by its name."""
    if check.endswith("__schema__drift"):
        return "drift"
    return "freshness" if check.startswith("freshness__") else "check"


def run_conditions(incidents: Incidents, news: Iterable[RunOutcome]) -> list[Condition]:
    """Failed work: an asset stays failed until it succeeded for every day it had failed for."""
    held = {c.subject: c for c in _open(incidents, "run")}
    for outcome in news:
        for subject in outcome.succeeded & held.keys():
            rest = set(held[subject].partitions) - outcome.partitions
            if rest and outcome.partitions:
                held[subject] = replace(held[subject], partitions=tuple(sorted(rest)))
            else:
                del held[subject]
        for subject, error in outcome.failed.items():
            held[subject] = _run_condition(subject, error, outcome, held.get(subject))
    return list(held.values())


def _run_condition(subject: str, error: str, outcome: RunOutcome, before: Condition | None) -> Condition:
    partitions = outcome.partitions.union(before.partitions if before else ())
    return Condition(
        kind="run",
        subject=subject,
        rule=RUN,
        severity="error",
        expected="the run succeeds",
        found=f"it failed with {error}",
        partitions=tuple(sorted(partitions)),
        owners=outcome.owners.get(subject, ()),
        run_id=outcome.run_id,
    )


def freshness_conditions(
    stale: Mapping[str, Severity], parents: Mapping[str, Collection[str]], owners: Mapping[str, tuple[str, ...]]
) -> list[Condition]:
    """Assets whose freshness policy does not hold, told where it begins: what is made of a stale asset is stale too."""
    return [
        Condition(
            kind="freshness",
            subject=asset,
            rule=FRESHNESS_POLICY,
            severity=severity,
            expected="updated within its freshness target",
            found="the update is overdue" if severity == "warning" else "the target is missed",
            owners=owners.get(asset, ()),
        )
        for asset, severity in stale.items()
        if not any(p in stale and not is_worse(severity, stale[p]) for p in parents.get(asset, ()))
    ]


def resource_conditions(incidents: Incidents, used: Mapping[str, float]) -> list[Condition]:
    """Resources (name → percent used) near their limit."""
    held: dict[str, Severity] = {c.subject: c.severity for c in _open(incidents, "resource")}
    levels: dict[str, Severity | None] = {name: _level(percent, held.get(name)) for name, percent in used.items()}
    return [
        Condition(
            kind="resource",
            subject=name,
            rule="capacity",
            severity=severity,
            expected=f"below {LIMITS[-1][0]:.0f}% used",
            found=f"{used[name]:.0f}% used",
        )
        for name, severity in levels.items()
        if severity
    ]


def _level(percent: float, held: Severity | None) -> Severity | None:
    """The severity of a level; the one it has is left only well below its limit."""
    for limit, severity in LIMITS:
        is_held = held is not None and not is_worse(severity, held)
        if percent >= limit - (RELIEF if is_held else 0):
            return severity
    return None


def used_resources(home: Path) -> dict[str, float]:
    """Percent used of the disk under STREAM_HOME and of memory."""
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    return {"disk": psutil.disk_usage(str(place)).percent, "memory": psutil.virtual_memory().percent}


def _open(incidents: Incidents, *kinds: Kind) -> list[Condition]:
    return [incident.condition for incident in incidents.values() if incident.condition.kind in kinds]
