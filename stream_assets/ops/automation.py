"""Schedules by cadence, a job for a whole day, and the sensor that lets late data correct history. All off by default."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import date, timedelta

import dagster as dg

from stream_assets.bronze.assets import touched_days
from stream_assets.contracts.model import Contract
from stream_assets.engine.delta import day_ranges
from stream_assets.keys import asset_key, known_days
from stream_assets.ops.backfill.missed import missed_days
from stream_assets.ops.backfill.stale import Lake, Scope
from stream_assets.settings import Settings

BY_RUNS = dg.AssetSelection.groups("bronze", "silver", "quarantine", "gold")
"""What runs make. Live views are made by streams."""
PARTITION = "dagster/partition"
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


def build_automation(
    settings: Settings, contracts: list[Contract], partitions: dg.DailyPartitionsDefinition
) -> dg.Definitions:
    """Jobs, schedules and sensors. `STREAM_SCHEDULES=on` is the one switch."""
    everything = dg.define_asset_job(
        "whole_day",
        selection=dg.AssetSelection.all(),
        partitions_def=partitions,
        description="Everything, for one day or a range of days.",
    )
    by_cadence: dict[timedelta, list[Contract]] = defaultdict(list)
    for contract in contracts:
        by_cadence[contract.cadence].append(contract)
    schedules = [_schedule(settings, cadence, group, partitions) for cadence, group in sorted(by_cadence.items())]
    return dg.Definitions(
        jobs=[everything],
        schedules=schedules,
        sensors=[_late_data_sensor(settings, contracts, partitions)] if contracts else [],
    )


def _schedule(
    settings: Settings, cadence: timedelta, contracts: list[Contract], partitions: dg.DailyPartitionsDefinition
) -> dg.ScheduleDefinition:
    """Refresh the datasets of one cadence, and what is made of them."""
    name = f"every_{_label(cadence)}"
    selection = dg.AssetSelection.assets(*[asset_key("bronze", c.name) for c in contracts]).downstream() & BY_RUNS
    job = dg.define_asset_job(f"refresh_{name}", selection=selection, partitions_def=partitions)
    days_back = 1 if cadence >= timedelta(days=1) else 0

    @dg.schedule(
        name=name,
        job=job,
        cron_schedule=cron(cadence),
        execution_timezone="UTC",
        description=f"Refreshes {', '.join(c.name for c in contracts)}.",
        default_status=dg.DefaultScheduleStatus.RUNNING if settings.schedules_on else dg.DefaultScheduleStatus.STOPPED,
    )
    def refresh(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        day = (context.scheduled_execution_time - timedelta(days=days_back)).date().isoformat()
        return dg.RunRequest(run_key=context.scheduled_execution_time.isoformat(), partition_key=day)

    return refresh


def cron(cadence: timedelta) -> str:
    """The cron line that fires at least as often as data arrives."""
    minutes = int(cadence.total_seconds() // 60)
    if minutes < 60:
        return f"*/{max(minutes, 1)} * * * *"
    return f"0 */{minutes // 60} * * *" if minutes < 24 * 60 else "30 0 * * *"


def _label(cadence: timedelta) -> str:
    minutes = int(cadence.total_seconds() // 60)
    return f"{minutes}m" if minutes < 60 else f"{minutes // 60}h" if minutes < 24 * 60 else f"{minutes // 1440}d"


def _late_data_sensor(
    settings: Settings, contracts: list[Contract], partitions: dg.DailyPartitionsDefinition
) -> dg.SensorDefinition:
    """When a Bronze load touched event days whose Silver is older than it, refresh exactly those days, and what earlier loads left."""
    bronze = {contract.name: asset_key("bronze", contract.name) for contract in contracts}
    below = (dg.AssetSelection.assets(*bronze.values()).downstream() & BY_RUNS) - dg.AssetSelection.assets(
        *bronze.values()
    )

    @dg.sensor(
        name="late_data",
        asset_selection=below,
        minimum_interval_seconds=30,
        description="Refreshes Silver and Gold days that a Bronze load touched.",
        default_status=dg.DefaultSensorStatus.RUNNING if settings.schedules_on else dg.DefaultSensorStatus.STOPPED,
    )
    def late_data(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursors: dict[str, int] = json.loads(context.cursor or "{}")
        datasets_by_range: dict[tuple[date, date], list[str]] = defaultdict(list)
        for contract in contracts:
            name = contract.name
            stale, asked, cursors[name] = _stale_days(context.instance, name, bronze[name], cursors.get(name, 0))
            missed = _missed(settings, contract, asked)
            for days in day_ranges(known_days(partitions, stale | missed)):
                datasets_by_range[days].append(name)
        requests = [_request(context, days, names, cursors) for days, names in sorted(datasets_by_range.items())]
        return dg.SensorResult(run_requests=requests, cursor=json.dumps(cursors))

    return late_data


def _request(
    context: dg.SensorEvaluationContext, days: tuple[date, date], names: list[str], cursors: dict[str, int]
) -> dg.RunRequest:
    """One run for a range of stale days: the datasets that were touched and what is made of them."""
    refined = [asset_key(layer, name) for layer in ("silver", "quarantine") for name in names]
    graph = context.repository_def.asset_graph  # pyright: ignore[reportOptionalMemberAccess]
    keys = (dg.AssetSelection.assets(*refined).downstream() & BY_RUNS).resolve(graph)
    run_key = f"{days[0]}:{days[1]}:" + ",".join(f"{name}@{cursors[name]}" for name in names)
    return dg.RunRequest(
        run_key=run_key, tags=range_tags(*days) | {"late_data": ",".join(names)}, asset_selection=list(keys)
    )


def _stale_days(
    instance: dg.DagsterInstance, name: str, key: dg.AssetKey, cursor: int
) -> tuple[set[date], set[Scope], int]:
    """Event days touched by finished Bronze loads after the cursor and not refined since; what runs were to load; the new cursor."""
    stale, asked = set[date](), set[Scope]()
    for record in _landings(instance, key, cursor):
        run = instance.get_run_by_id(record.run_id)
        if run is not None and not run.is_finished:
            break
        cursor = record.storage_id
        if record.asset_materialization:
            touched = touched_days(record.asset_materialization)
            stale |= {day for day in touched if not _is_refined_since(instance, name, day, record.timestamp)}
        if run is not None and (days := [date.fromisoformat(day) for day in days_asked(run.tags)]):
            asked.add(Scope(min(days), max(days)))
    return stale, asked, cursor


def _missed(settings: Settings, contract: Contract, asked: set[Scope]) -> set[date]:
    """Days that earlier runs over the same deliveries left as they were.

    One that was killed after its commit told nobody which days it touched, and to the run that was tried again nothing was new.
    What streams land is not looked at: they report every few seconds, and each report would ask again for what is queued.
    """
    lake, assets = Lake(settings, {contract.name: contract}, {}), (f"bronze/{contract.name}", f"silver/{contract.name}")
    return {day for scope in asked for day in missed_days(lake, assets, scope)}


def _landings(instance: dg.DagsterInstance, key: dg.AssetKey, cursor: int) -> Iterator[dg.EventLogRecord]:
    where = dg.AssetRecordsFilter(asset_key=key, after_storage_id=cursor)
    seen: set[str] = set()
    for record in instance.fetch_materializations(where, limit=500, ascending=True).records:
        # What a stream landed belongs to no run: each report stands for itself.
        if not record.run_id or record.run_id not in seen:
            yield record
        seen.add(record.run_id)


def _is_refined_since(instance: dg.DagsterInstance, name: str, day: date, moment: float) -> bool:
    where = dg.AssetRecordsFilter(
        asset_key=asset_key("silver", name), asset_partitions=[day.isoformat()], after_timestamp=moment
    )
    return bool(instance.fetch_materializations(where, limit=1).records)


def days_asked(tags: Mapping[str, str]) -> frozenset[str]:
    """The days a run was asked for, by its tags."""
    first, last = tags.get(RANGE_START), tags.get(RANGE_END)
    if not first or not last:
        return frozenset({tags[PARTITION]} if PARTITION in tags else ())
    start, end = date.fromisoformat(first).toordinal(), date.fromisoformat(last).toordinal()
    return frozenset(date.fromordinal(day).isoformat() for day in range(start, end + 1))


def range_tags(first: date, last: date) -> dict[str, str]:
    """Tags that make one run cover a range of days."""
    return {RANGE_START: first.isoformat(), RANGE_END: last.isoformat()}
