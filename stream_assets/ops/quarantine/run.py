"""Replays rejected records: lands corrections, then refines their days again as Dagster runs, Gold included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from stream_assets.bronze.correct import Correction, as_received, land_corrections
from stream_assets.bronze.land import stamp
from stream_assets.contracts.model import Contract
from stream_assets.engine.delta import day_ranges
from stream_assets.errors import LakeError
from stream_assets.ops.quarantine.records import Filter, read_headers, read_rejected
from stream_assets.ops.quarantine.replay import read_corrections
from stream_assets.ops.run import run_range
from stream_assets.settings import Settings
from stream_assets.silver.replay import Replay, preview, preview_records


def replay_records(
    spark: SparkSession,
    settings: Settings,
    defs: dg.Definitions,
    contract: Contract,
    wanted: Filter,
    *,
    file: Path | None = None,
    dry_run: bool = False,
) -> tuple[Replay | None, bool]:
    """What a replay does, and whether it did anything. None if there is no such record."""
    if file:
        return _replay_file(spark, settings, defs, contract, file, dry_run=dry_run)
    days = sorted({row.event_date for row in read_rejected(settings, contract.name, wanted, payload=False)})
    if not days:
        return None, False
    told = preview(spark, settings, contract, days)
    if told.changes and not dry_run:
        refine_again(settings, defs, contract.name, told.changes)
    return told, bool(told.changes) and not dry_run


def _replay_file(
    spark: SparkSession, settings: Settings, defs: dg.Definitions, contract: Contract, file: Path, *, dry_run: bool
) -> tuple[Replay | None, bool]:
    rows = read_rejected(settings, contract.name, Filter(with_resolved=True))
    corrections = read_corrections(file, contract, rows, read_headers(settings, contract))
    if not corrections:
        return None, False
    told = preview_records(settings, contract, _stamped(spark, contract, corrections))
    if dry_run:
        return told, False
    run_id = f"replay-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    touched = land_corrections(spark, settings, contract, corrections, run_id=run_id)
    refine_again(settings, defs, contract.name, touched)
    return told, bool(touched)


def _stamped(spark: SparkSession, contract: Contract, corrections: Sequence[Correction]) -> DataFrame:
    headers = sorted({c.header for c in corrections if c.header})
    return stamp(as_received(spark, corrections), contract, headers)


def refine_again(settings: Settings, defs: dg.Definitions, dataset: str, days: Iterable[date]) -> None:
    """Bring these days of a dataset, and what is made of it, up to date with the contract in force."""
    select = f'key:"silver/{dataset}"+ or key:"quarantine/{dataset}"'
    for first, last in day_ranges(days):
        result = run_range(settings, defs, first, last, select=select, report=lambda *_: None)
        if result.errors:
            raise LakeError(f"Replaying {dataset} failed: {result.errors[0]['error']}. Mend it and replay again.")
