"""Ledgers made without Spark, in the words of Bronze, Silver and Gold: for tests of what is read from them, and to look at pages."""

import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from stream_assets.contracts.model import Contract
from stream_assets.engine.ledger import Commit
from stream_assets.gold.models import Model
from stream_assets.ops.backfill.stale import Lake
from stream_assets.settings import Settings
from stream_assets.silver.refine import input_fingerprints

FACTS = Model("facts", "code-1", frozenset({"silver/readings"}), "day")
TOTALS = Model("totals", "code-2", frozenset({"gold/facts"}), None)
ENTRY: dict[str, Any] = {
    "rows_in": 0,
    "accepted": 0,
    "quarantined": 0,
    "duplicates": 0,
    "prompt": 0,
    "violations": {},
    "warnings": {},
    "new_columns": [],
    "missing_columns": [],
    "newest_event": None,
    "sums": {},
    "profile": {},
}


def entry(accepted: int, quarantined: int = 0, duplicates: int = 0, **said: Any) -> dict[str, Any]:
    """The entry of a day whose records add up."""
    rows_in = accepted + quarantined + duplicates
    counts = {"rows_in": rows_in, "accepted": accepted, "quarantined": quarantined, "duplicates": duplicates}
    return ENTRY | counts | {"prompt": rows_in} | said


def make_entries(last: date, days: int, *, rows: int, seed: int, rules: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Entries of a quiet dataset: a weekly rhythm, some noise, a few rejected records. Same seed, same entries."""
    rng = random.Random(seed)
    made = {}
    for day in (last - timedelta(days=n) for n in range(days - 1, -1, -1)):
        size = round(rows * (1.15 if day.weekday() < 5 else 0.8) * rng.uniform(0.95, 1.05))
        broken = {rule: round(size * rng.uniform(0.0005, 0.004)) for rule in rules}
        rejected = sum(broken.values())
        repeated = round(size * rng.uniform(0.01, 0.02))
        made[day.isoformat()] = entry(
            size - rejected - repeated, rejected, repeated, violations=broken, newest_event=f"{day}T23:58:00.000000Z"
        )
    return made


class MadeLake:
    """A lake whose commits are written without Spark, as Spark would word them."""

    def __init__(self, folder: Path, law: Contract) -> None:
        self.settings = Settings.from_env({"STREAM_HOME": str(folder)})
        self.law, self.entries, self.runs = law, dict[str, dict[str, Any]](), 0
        self.versions: dict[str, int] = {}

    def look(self, law: Contract | None = None, *models: Model) -> Lake:
        given = models or (FACTS, TOTALS)
        return Lake(self.settings, {"readings": law or self.law}, {model.asset: model for model in given})

    def land(self, delivery: date, *events: date, files: str = "a", **said: Any) -> None:
        self.entries[delivery.isoformat()] = entry = {"files": f"2:{files}", "rows_in": len(events), **said}
        rows = pa.table({"_delivery_date": [delivery] * len(events), "_event_date": list(events)})
        self._commit("bronze/readings", rows, {delivery.isoformat(): entry})

    def refine(self, *days: date, layer: str = "silver", **said: Any) -> None:
        inputs = input_fingerprints(self.entries, self.law, days)
        entries = {d: {"rows_in": 10, "accepted": 10, "inputs": inputs[d], **said} for d in map(str, days)}
        self._commit(f"{layer}/readings", pa.table({"a": [1]}), entries)

    def build(self, *days: date, **page: Any) -> None:
        code, inputs = {"facts": "code-1", "totals": "code-2"}, dict(self.versions)
        self.runs += 1
        page = {"code": code, "inputs": inputs, **page}
        for asset in ("gold/facts", "gold/totals"):
            days_built: dict[str, Any] = {d.isoformat(): {} for d in days}
            self._commit(asset, pa.table({"a": [1]}), days_built, run=f"gold-{self.runs}", **page)

    def _commit(self, asset: str, rows: pa.Table, days: dict, run: str = "run", **page: Any) -> None:
        text = Commit(run, "readings", asset.partition("/")[0], "1.0.0", days, **page).to_json()
        path = f"{self.settings.lake}/{asset}"
        partition = ["_delivery_date"] if asset.startswith("bronze") else None
        where = f"_delivery_date = '{next(iter(days))}'" if partition and asset in self.versions else None
        write_deltalake(
            path,
            rows,
            mode="overwrite",
            predicate=where,
            partition_by=partition,
            commit_properties=CommitProperties({"userMetadata": text}),
        )
        self.versions[asset] = self.versions.get(asset, -1) + 1
