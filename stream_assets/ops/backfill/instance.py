"""What Dagster knows of past and present runs, as plain facts for plans."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import dagster as dg

from stream_assets.contracts.load import load_contracts
from stream_assets.engine import server
from stream_assets.engine.log import LoggedCommit
from stream_assets.errors import StreamError
from stream_assets.gold.assets import MADE_OF
from stream_assets.gold.project import read_models
from stream_assets.ops.backfill.estimate import History, StepRun
from stream_assets.ops.backfill.make import Facts
from stream_assets.ops.backfill.stale import Lake, Scope, find_stale
from stream_assets.ops.instance import latest_checks
from stream_assets.ops.processes import is_dead
from stream_assets.settings import Settings

BACKFILL = "stream/backfill"
"""Tag of every run of a backfill: its id."""
UNDER_WAY = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING]
COLD = "stream/cold"
"""Tag of a run that found no engine running."""
LOOKED_AT = 60
"""Past runs whose durations are read."""


def selected_assets(defs: dg.Definitions, select: str) -> tuple[str, ...]:
    """The selection and everything downstream of it, by name."""
    graph = defs.resolve_asset_graph()
    try:
        chosen = dg.AssetSelection.from_string(select).downstream().resolve(graph)
    except Exception as error:  # Dagster has no common class for a selection it cannot read
        raise StreamError(f"{select!r} is no asset selection: {next(iter(str(error).splitlines()), '')}") from error
    found = tuple(sorted(key.to_user_string() for key in chosen & graph.materializable_asset_keys))
    if not found:
        raise StreamError(f"{select!r} selects no asset. Try 'key:\"silver/orders\"' or 'group:silver'.")
    return found


def read_facts(instance: dg.DagsterInstance, defs: dg.Definitions, lake: Lake, assets: tuple[str, ...]) -> Facts:
    """Everything a plan needs to know of Dagster."""
    every = defs.resolve_asset_graph().materializable_asset_keys
    return Facts(
        assets,
        read_history(instance, lake),
        is_cold=is_cold(lake.settings),
        live_runs=tuple(live_runs(instance)),
        backfill_runs=tuple(run.tags[BACKFILL] for run in _under_way(instance) if BACKFILL in run.tags),
        checks=latest_checks(instance, _checks_of(defs, every)),
    )


def is_cold(settings: Settings) -> bool:
    """Whether an engine has to be started first."""
    return not settings.spark_remote and server.running(settings) is None


def open_lake(settings: Settings, instance: dg.DagsterInstance) -> Lake:
    """The lake as it is now, with what the latest builds of Gold were made of."""
    contracts = load_contracts(settings.contracts)
    models = read_models(settings, list(contracts.values()))
    whole = [asset for asset, model in models.items() if not model.day]
    return Lake(settings, contracts, models, {asset: made for asset in whole if (made := _made_of(instance, asset))})


def is_gold_current(lake: Lake, defs: dg.Definitions, instance: dg.DagsterInstance, first: date, last: date) -> bool:
    """Whether building Gold of these days would change nothing: no table is stale, and none failed a gate."""
    refined = [f"silver/{name}" for name in lake.contracts]
    stale = find_stale(lake, [*refined, *lake.models], dict.fromkeys((*lake.contracts, "*"), Scope(first, last)))
    gold = [key for key in defs.resolve_asset_graph().materializable_asset_keys if key.path[0] == "gold"]
    return not stale and all(c.passed or not c.is_gate for c in latest_checks(instance, _checks_of(defs, gold)))


def _checks_of(defs: dg.Definitions, keys: Iterable[dg.AssetKey]) -> dict[dg.AssetCheckKey, str]:
    graph = defs.resolve_asset_graph()
    return {check: "" for key in keys for check in graph.get(key).check_keys}


def _made_of(instance: dg.DagsterInstance, asset: str) -> dict[str, Any] | None:
    event = instance.get_latest_materialization_event(dg.AssetKey(asset.split("/")))
    found = event.asset_materialization.metadata.get(MADE_OF) if event and event.asset_materialization else None
    if event is None or not isinstance(found, dg.JsonMetadataValue) or not isinstance(found.value, Mapping):
        return None
    return {**found.value, "run_id": event.run_id}


def live_runs(instance: dg.DagsterInstance) -> list[str]:
    """Runs under way that belong to no backfill and whose process lives."""
    return [run.run_id for run in _under_way(instance) if BACKFILL not in run.tags]


def _under_way(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    return [run for run in instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY)) if not is_dead(run.tags)]


def read_history(instance: dg.DagsterInstance, lake: Lake) -> History:
    """Durations of past steps, and the rows each worked on by the ledger. Newest last."""
    work = dict(work_by_run(lake))
    steps: list[StepRun] = []
    overheads: list[float] = []
    records = instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS]), limit=LOOKED_AT)
    for record in reversed(records):
        run_id, spans = record.dagster_run.run_id, []
        stats = [step for step in instance.get_run_step_stats(run_id) if step.start_time and step.end_time]
        for step in sorted(stats, key=lambda step: step.start_time or 0.0):
            start, end = step.start_time or 0.0, step.end_time or 0.0
            started = COLD in record.dagster_run.tags and not spans  # whoever comes first starts the engine
            spans.append((start, end))
            rows, tables = work.get((run_id, step.step_key), (0, 1))
            steps.append(StepRun(step.step_key, end - start, rows, tables, is_cold=started))
        if spans and record.start_time and record.end_time:
            overheads.append(record.end_time - record.start_time - covered(spans))
    return History(tuple(steps), round(max(statistics.median(overheads), 0.0), 2) if overheads else 1.0)


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of the union of these spans."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def work_by_run(lake: Lake) -> Iterable[tuple[tuple[str, str], tuple[int, int]]]:
    """Rows that each step of each run worked on, those of the days it wrote or of the Gold tables; and how many tables."""
    gold: dict[str, int] = {}
    tables: Counter[str] = Counter()
    for name in lake.contracts:
        for layer, verb in (("bronze", "land"), ("silver", "refine")):
            counted: dict[str, int] = {}
            for commit in lake.log(f"{layer}/{name}"):
                _add(counted, commit, sum(e.get("rows_in", 0) for e in commit.page.get("days", {}).values()))
            yield from (((run_id, f"{verb}_{name}"), (rows, 1)) for run_id, rows in counted.items())
    for asset in lake.models:
        tables.update({commit.page["run_id"] for commit in lake.log(asset) if commit.page.get("run_id")})
        for commit in lake.log(asset):
            _add(gold, commit, int(commit.metrics.get("numOutputRows") or 0))
    yield from (((run_id, "build_gold"), (rows, tables[run_id])) for run_id, rows in gold.items())


def _add(counted: dict[str, int], commit: LoggedCommit, rows: int) -> None:
    if run_id := commit.page.get("run_id"):
        counted[run_id] = counted.get(run_id, 0) + rows
