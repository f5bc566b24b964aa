"""How long a record takes from its event to Gold: read from Silver's rows and the Delta logs, without an engine.

A record is in Gold when every daily Gold table that is made of its dataset was committed by a build that read a version of
Silver with it. One that is still on its way counts with the time it has waited so far, so a Gold that stands still shows.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from stream_assets.contracts.model import Contract
from stream_assets.engine.log import LoggedCommit, read_log
from stream_assets.gold.models import Model
from stream_assets.settings import Settings

DAYS = 7
"""The newest event days whose records are measured."""
PERCENTILE = 0.99
_SECOND, _EPOCH = 1_000_000, datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Arrival:
    """Records of one event day that came together."""

    day: str
    delivery: str
    at: datetime


@dataclass(frozen=True)
class Logs:
    """The commits that records pass through on their way."""

    dataset: str
    bronze: Sequence[LoggedCommit]
    silver: Sequence[LoggedCommit]
    gold: Sequence[Sequence[LoggedCommit]]
    """Of each daily table that is made of the dataset."""


Waiting = Mapping[Arrival, Mapping[int, int]]
"""Of each arrival, how many records happened in which second."""


def measure_latency(
    settings: Settings, contract: Contract, models: Mapping[str, Model], now: datetime
) -> timedelta | None:
    """The 99th percentile over the newest days of a dataset; None without events, records or daily Gold tables."""
    assets = fed_by(contract.name, models)
    if contract.event_time is None or contract.kind != "event" or not assets:
        return None
    bronze, silver = (read_log(settings.table_path(layer, contract.name)) for layer in ("bronze", "silver"))
    logs = Logs(contract.name, bronze, silver, [read_log(f"{settings.lake}/{asset}") for asset in assets])
    known = sorted({day for commit in silver for day in commit.page.get("days", {}) if day <= now.date().isoformat()})
    found = read_arrivals(settings.table_path("silver", contract.name), contract.event_time, known[-DAYS:])
    return percentile(waits_of(found, logs, now))


def waits_of(found: Waiting, logs: Logs, now: datetime) -> Counter[int]:
    """How many records waited how many seconds."""
    waits: Counter[int] = Counter()
    for arrival, seconds in found.items():
        reached = (reaches_gold(arrival, logs) or now).timestamp()
        for second, rows in seconds.items():
            waits[max(0, math.ceil(reached - second))] += rows
    return waits


def fed_by(dataset: str, models: Mapping[str, Model]) -> list[str]:
    """The daily Gold tables that are made of a dataset, directly or not."""
    made = {f"silver/{dataset}"}
    for asset, model in models.items():  # parents come first
        if model.parents & made:
            made.add(asset)
    return [asset for asset in made if asset in models and models[asset].day]


def reaches_gold(arrival: Arrival, logs: Logs) -> datetime | None:
    """When all of Gold had what arrived; None if some of it has not yet."""
    landed = _first(c for c in logs.bronze if arrival.delivery in _days(c) and c.committed_at >= arrival.at)
    refined = landed and _first(
        c for c in logs.silver if arrival.day in _days(c) and c.committed_at >= landed.committed_at
    )
    if not refined:
        return None
    name = f"silver/{logs.dataset}"
    built = [
        _first(c for c in log if arrival.day in _days(c) and c.page.get("inputs", {}).get(name, -1) >= refined.version)
        for log in logs.gold
    ]
    return max(commit.committed_at for commit in built if commit) if all(built) else None


def _days(commit: LoggedCommit) -> Mapping[str, object]:
    return commit.page.get("days", {})


def _first(commits: Iterable[LoggedCommit]) -> LoggedCommit | None:
    return min(commits, key=lambda commit: commit.version, default=None)


def read_arrivals(path: str, event_time: str, days: Sequence[str]) -> Waiting:
    """When the records of these days happened and arrived, batch by batch: little is held at a time."""
    try:
        rows = DeltaTable(path).to_pyarrow_dataset()
    except TableNotFoundError:
        return {}
    found: dict[Arrival, Counter[int]] = defaultdict(Counter)
    for day in days:
        is_day = pc.field("_event_date") == pc.scalar(date.fromisoformat(day))
        for batch in rows.to_batches(columns=[event_time, "_ingested_at", "_delivery_date"], filter=is_day):
            second, arrived = (_microseconds(batch.column(n)) for n in (0, 1))
            delivery = batch.column(2).cast("int32").to_numpy(zero_copy_only=False)
            distinct, counts = np.unique(np.stack([second // _SECOND, arrived, delivery]), axis=1, return_counts=True)
            for second, at, epoch_day, n in zip(*distinct.tolist(), counts.tolist(), strict=True):
                delivered = (_EPOCH + timedelta(days=epoch_day)).date().isoformat()
                found[Arrival(day, delivered, _EPOCH + timedelta(microseconds=at))][second] += n
    return found


def _microseconds(moments: pa.Array) -> np.ndarray:
    return moments.cast(pa.timestamp("us", tz="UTC")).cast("int64").to_numpy(zero_copy_only=False)


def percentile(waits: Mapping[int, int], share: float = PERCENTILE) -> timedelta | None:
    """The shortest wait, in whole seconds, that at least this share of the records did not exceed."""
    needed, seen = math.ceil(share * sum(waits.values())), 0
    for wait in sorted(waits):
        seen += waits[wait]
        if seen >= needed:
            return timedelta(seconds=wait)
    return None
