"""Proves a finished backfill: nothing of it is stale, and every refined day adds up, by the files and not by our counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable

from stream_assets.engine.log import newest_entries
from stream_assets.ops.backfill.estimate import sizes_of
from stream_assets.ops.backfill.plan import Plan
from stream_assets.ops.backfill.stale import Causes, Lake


@dataclass
class Verdict:
    """What verification found."""

    days_counted: int = 0
    still_stale: dict[str, list[str]] = field(default_factory=dict)
    miscounted: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing is left and everything adds up."""
        return not self.still_stale and not self.miscounted

    def to_dict(self) -> dict[str, Any]:
        """As it is kept."""
        return {"passed": self.passed, **asdict(self)}


def verify(lake: Lake, plan: Plan, stale: Mapping[str, Causes]) -> Verdict:
    """Count every refined event day in the files of Silver and quarantine and compare with its ledger entry."""
    verdict = Verdict(still_stale={asset: sorted(causes) for asset, causes in stale.items()})
    for item in plan.items:
        layer, name = item.asset.split("/")
        if layer == "silver" and lake.contracts[name].kind == "event":
            entries = newest_entries(lake.log(item.asset))
            accepted = sizes_of(lake.settings.table_path("silver", name)).rows
            rejected = _open_rows(lake.settings.table_path("quarantine", name))
            for day in item.days.keys() & entries.keys():
                verdict.days_counted += 1
                _compare(verdict, f"{item.asset} {day}", entries[day], accepted.get(day, 0), rejected[day])
    return verdict


def _open_rows(path: str) -> Counter[str]:
    """Rejected records per day, without those that have been resolved since."""
    records = DeltaTable(path).to_pyarrow_dataset()
    is_open = pc.field("_resolved_at").is_null()
    return Counter(str(day) for day in records.to_table(["_event_date"], filter=is_open)["_event_date"].to_pylist())


def _compare(verdict: Verdict, what: str, entry: Mapping[str, Any], accepted: int, rejected: int) -> None:
    parts = entry["accepted"] + entry["quarantined"] + entry["duplicates"]
    told = (entry["rows_in"], entry["accepted"], entry["quarantined"])
    if told != (parts, accepted, rejected):
        verdict.miscounted.append(f"{what}: {told} told, {(parts, accepted, rejected)} found")
