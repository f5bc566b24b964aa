"""Maintenance as a nightly Dagster job, off until schedules are on; what each chore did is its metadata."""

import dagster as dg

from stream_assets.contracts.load import load_contracts
from stream_assets.engine.session import lake_tables
from stream_assets.gold.models import tables_of
from stream_assets.gold.project import read_manifest
from stream_assets.ops.maintenance.chores import Chore, find_chores
from stream_assets.ops.maintenance.work import do_chores, refuse_problems
from stream_assets.resources import EngineResource
from stream_assets.settings import Settings


def chores_of(settings: Settings, select: str | None = None) -> list[Chore]:
    """Everything there is to do now; `select` keeps tables whose name contains it."""
    contracts = load_contracts(settings.contracts)
    manifest = read_manifest(settings, list(contracts.values()))
    tables = [table for table in lake_tables(settings) if not select or select in table]
    found = find_chores(settings, contracts, tables_of(manifest) if manifest else {}, tables)
    return [chore for chore in found if not select or chore.kind != "prune"]


def build_maintenance(settings: Settings, retry: dg.RetryPolicy | None = None) -> dg.Definitions:
    """The job `maintain_lake` and its schedule."""

    @dg.op(description="Retention, compaction, vacuum and pruning, table by table.", retry_policy=retry)
    def do_what_is_due(context: dg.OpExecutionContext, engine: EngineResource) -> None:
        told: list[Chore] = []
        with engine.guarded() as spark:
            for done in do_chores(lambda: spark, engine.settings, chores_of(engine.settings), context.run_id):
                told.append(done)
                context.log.info(f"{done.kind} {done.subject}: {done.problem or done.text}")
                before = {"files": done.files, "bytes": done.bytes}
                asset = dg.AssetKey(done.subject.split("/"))
                facts = {"kind": done.kind, "concerned": before, "result": dict(done.after), "problem": done.problem}
                context.log_event(dg.AssetObservation(asset, metadata={"maintenance": dg.MetadataValue.json(facts)}))
            refuse_problems(told)

    @dg.job(description="Keeps the lake small and quick: retention, compaction, vacuum, pruning.")
    def maintain_lake() -> None:
        do_what_is_due()

    on = dg.DefaultScheduleStatus.RUNNING if settings.schedules_on else dg.DefaultScheduleStatus.STOPPED
    nightly = dg.ScheduleDefinition(
        name="nightly_maintenance",
        job=maintain_lake,
        cron_schedule="0 3 * * *",
        execution_timezone="UTC",
        default_status=on,
    )
    return dg.Definitions(jobs=[maintain_lake], schedules=[nightly])
