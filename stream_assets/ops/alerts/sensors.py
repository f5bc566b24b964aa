"""The Dagster face of alerts: one sensor that reads what happened since its last look, records it and sends what waits.

The cursor is only where to read on. What is open is in the outbox, and reading the same news twice changes nothing, so a
lost cursor or a kill between outbox and cursor is harmless.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

import dagster as dg

from stream_assets.ops.alerts import conditions as judge
from stream_assets.ops.alerts.channels import build_channels
from stream_assets.ops.alerts.deliver import deliver, utc_now
from stream_assets.ops.alerts.incidents import Severity
from stream_assets.ops.alerts.outbox import Outbox
from stream_assets.ops.automation import days_asked
from stream_assets.quality.evidence import LOOK, REPLAY, SAMPLE
from stream_assets.settings import Settings

LOOK_BACK = timedelta(days=1)
"""How far the first look goes."""
PAGE = 200
"""Finished runs, and evaluations reported outside of runs, that one look takes in."""
OUTSIDE_OF_RUNS = ""
"""The run id Dagster gives to what was reported without a run."""
_FINISHED = (dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_SUCCESS)
_TOLD_BY_RUNS = {
    dg.DagsterEventType.STEP_FAILURE,
    dg.DagsterEventType.STEP_SUCCESS,
    dg.DagsterEventType.ASSET_CHECK_EVALUATION,
}


def build_alerts(settings: Settings, watches: Sequence[judge.Watch] = ()) -> dg.Definitions:
    """The alert sensor. `watches` are more sources of conditions, such as error budgets. It only tells, so it always runs."""

    @dg.sensor(
        name="alerts",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells people about failed checks, failed runs, missed freshness, schema drift and scarce resources.",
    )
    def alerts(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        outbox, channels = Outbox(settings.home), build_channels(settings.alerts)
        now, incidents = utc_now(), outbox.incidents()
        news, cursor = _read_news(context, now)
        used = judge.used_resources(settings.home)
        found = [
            condition
            for watch in (*news, partial(judge.resource_conditions, used=used), *watches)
            for condition in watch(incidents)
        ]
        told = outbox.record(found, settings.alerts, channels=channels, now=now)
        sent = deliver(outbox, channels)
        return dg.SensorResult(skip_reason=_summary(len(found), len(told), sent), cursor=cursor)

    return dg.Definitions(sensors=[alerts])


def _summary(found: int, told: int, sent: Mapping[str, int]) -> str:
    took = ", ".join(f"{name} {count}" for name, count in sent.items() if count)
    return f"{found} incidents open, {told} new alerts; sent: {took or 'nothing'}"


@dataclass(frozen=True)
class _Catalog:
    """What the asset graph says about what is watched."""

    expected: Mapping[tuple[str, str], str]
    """(asset, check) → the promise in words."""
    owners: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, Collection[str]]
    by_step: Mapping[str, str]
    keys: Sequence[dg.AssetKey]

    @classmethod
    def of(cls, repository: dg.RepositoryDefinition) -> _Catalog:
        graph = repository.asset_graph
        nodes = {key.to_user_string(): graph.get(key) for key in graph.get_all_asset_keys()}
        steps = {
            definition.node_def.name: definition.keys for definition in graph.assets_defs if definition.is_executable
        }
        owners = {name: tuple(node.owners) for name, node in nodes.items()}
        subjects = {step: step_subject({key.to_user_string() for key in keys}) for step, keys in steps.items() if keys}
        return cls(
            expected={
                (key.asset_key.to_user_string(), key.name): graph.get_check_spec(key).description or ""
                for key in graph.asset_check_keys
            },
            owners=owners,
            parents={name: {parent.to_user_string() for parent in node.parent_keys} for name, node in nodes.items()},
            by_step=subjects,
            keys=[key for key in graph.get_all_asset_keys() if graph.get(key).freshness_policy],
        )


def step_subject(assets: Collection[str]) -> str:
    """What a step is about: its asset; Silver when quarantine is made along; `gold/*` when it makes a whole layer."""
    if len({asset.rpartition("/")[2] for asset in assets}) == 1:
        return max(assets)
    return f"{min(assets).partition('/')[0]}/*"


def _read_news(context: dg.SensorEvaluationContext, now: datetime) -> tuple[list[judge.Watch], str]:
    """Watches over checks, runs and freshness, fed with what is new; and the cursor to read on from."""
    if context.repository_def is None:
        raise dg.DagsterInvariantViolationError("The alert sensor needs the code location it belongs to.")
    catalog, instance = _Catalog.of(context.repository_def), context.instance
    cursor: dict[str, Any] = json.loads(context.cursor or "{}")
    finished = _finished_runs(instance, cursor.get("runs"), now)
    reported = instance.get_records_for_run(
        OUTSIDE_OF_RUNS,
        cursor=cursor.get("reported"),
        of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION,
        limit=PAGE,
    )
    runs: list[judge.RunOutcome] = []
    checks = [(r.timestamp, _check_outcome(r.event_log_entry, catalog, frozenset())) for r in reported.records]
    for record in finished:
        outcome, evaluated = _read_run(instance, record.event_log_entry, catalog)
        runs.append(outcome)
        checks += evaluated
    watches = [
        partial(
            judge.check_conditions,
            news=[check for _, check in sorted(checks, key=lambda c: c[0])],
            watched=catalog.parents,
        ),
        partial(judge.run_conditions, news=runs),
        lambda _: judge.freshness_conditions(_stale(instance, catalog.keys), catalog.parents, catalog.owners),
    ]
    last = finished[-1].storage_id if finished else cursor.get("runs")
    return watches, json.dumps({"runs": last, "reported": reported.cursor})


def _finished_runs(instance: dg.DagsterInstance, after: int | None, now: datetime) -> list[dg.EventLogRecord]:
    """Ends of runs after the cursor, in their order: of two kinds of end, none is read beyond the other's unread rest."""
    since = None if after is not None else (now - LOOK_BACK).timestamp()
    pages = [
        instance.fetch_run_status_changes(
            dg.RunStatusChangeRecordsFilter(kind, after_storage_id=after, after_timestamp=since),  # pyright: ignore[reportArgumentType]
            limit=PAGE,
            ascending=True,
        )
        for kind in _FINISHED
    ]
    horizon = min((page.records[-1].storage_id for page in pages if page.has_more), default=None)
    records = sorted((record for page in pages for record in page.records), key=lambda record: record.storage_id)
    return [record for record in records if horizon is None or record.storage_id <= horizon]


def _read_run(
    instance: dg.DagsterInstance, end: dg.EventLogEntry, catalog: _Catalog
) -> tuple[judge.RunOutcome, list[tuple[float, judge.CheckOutcome]]]:
    """What a finished run tells about its assets and their checks."""
    run = instance.get_run_by_id(end.run_id)
    days, job = days_asked(run.tags if run else {}), end.job_name or "a run"
    failed: dict[str, str] = {}
    succeeded: set[str] = set()
    checks = []
    for entry in (r.event_log_entry for r in instance.get_records_for_run(end.run_id, of_type=_TOLD_BY_RUNS).records):
        subject = catalog.by_step.get(entry.step_key or "", job)
        if entry.dagster_event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            checks.append((entry.timestamp, _check_outcome(entry, catalog, days)))
        elif entry.dagster_event_type == dg.DagsterEventType.STEP_FAILURE:
            failed[subject] = _error_class(entry)
        else:
            succeeded.add(subject)
    if end.dagster_event_type == dg.DagsterEventType.RUN_SUCCESS:
        succeeded.add(job)
    elif not failed:
        failed[job] = "an error outside of its steps"
    return judge.RunOutcome(end.run_id, days, failed, frozenset(succeeded), catalog.owners), checks


def _error_class(entry: dg.EventLogEntry) -> str:
    """The class of the deepest cause. Its text stays in Dagster: it may quote a record."""
    error = getattr(entry.dagster_event.event_specific_data, "error", None) if entry.dagster_event else None
    while error is not None and error.cause is not None:
        error = error.cause
    return (error.cls_name if error else None) or "an error"


def _check_outcome(entry: dg.EventLogEntry, catalog: _Catalog, days: frozenset[str]) -> judge.CheckOutcome:
    evaluation: dg.AssetCheckEvaluation = entry.get_dagster_event().asset_check_evaluation_data
    asset = evaluation.asset_key.to_user_string()
    severity: Severity = "error" if evaluation.severity == dg.AssetCheckSeverity.ERROR else "warning"
    facts: dict[str, Any] = {name: value.value for name, value in evaluation.metadata.items()}
    return judge.CheckOutcome(
        asset=asset,
        check=evaluation.check_name,
        passed=evaluation.passed,
        severity=severity,
        expected=catalog.expected.get((asset, evaluation.check_name)) or f"{evaluation.check_name} holds",
        found=evaluation.description or "it does not hold",
        partitions=named_days(facts) or tuple(sorted(days)),
        owners=catalog.owners.get(asset, ()),
        run_id=entry.run_id,
        sample=tuple(map(str, facts.get(SAMPLE, ()))),
        look=str(facts.get(LOOK, "")),
        remedy=str(facts.get(REPLAY, "")),
    )


def named_days(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Days that a check's facts single out, such as `{"days_above": {"2026-11-03": 0.2}}`."""
    names = {name for fact in facts.values() if isinstance(fact, dict) for name in fact}
    return tuple(sorted(name for name in names if _is_day(name)))


def _is_day(text: object) -> bool:
    try:
        return bool(date.fromisoformat(str(text)))
    except ValueError:
        return False


def _stale(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> dict[str, Severity]:
    """Assets whose freshness policy does not hold, as the freshness daemon last saw it."""
    severities: dict[str, Severity] = {"WARN": "warning", "FAIL": "error"}
    records = instance.get_freshness_state_records(keys)
    return {
        key.to_user_string(): severities[record.freshness_state.value]
        for key, record in records.items()
        if record.freshness_state.value in severities
    }
