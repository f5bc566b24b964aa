"""What a commit says about itself. The Delta log is the ledger: this metadata is written in the same atomic commit as the data.

One commit covers a range of days and has one entry per day. Readers take, for each day, the newest commit that has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

from pyspark.sql import SparkSession

FORMAT = 1
RECENT_COMMITS = 200
"""Commits read at first: months of daily loads. Reading all of a long history would make every day dearer than the last."""


@dataclass(frozen=True)
class Commit:
    """The ledger page of one commit."""

    run_id: str
    dataset: str
    layer: str
    contract_version: str
    days: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Per ISO day: rows in, accepted, quarantined, duplicates, source positions, input fingerprints."""

    def to_json(self) -> str:
        """The text stored as the commit's user metadata."""
        return json.dumps({"stream": FORMAT, **asdict(self)}, sort_keys=True, separators=(",", ":"))


def read_ledger(spark: SparkSession, table: str, needed: Iterable[date] = ()) -> dict[str, dict[str, Any]]:
    """The newest entry of every day the last commits tell of, by ISO day; of older days too, if a needed one is among them.

    Commits of other tools (compaction, vacuum) have no entries and change none.
    """
    days = _read(spark, table, RECENT_COMMITS)
    newest, versions = max(days, default=""), {entry["version"] for entry in days.values()}
    # A day after the newest one is new, not forgotten. Version 0 among the last commits means that there are no others.
    is_forgotten = any(day.isoformat() not in days and day.isoformat() <= newest for day in needed)
    return _read(spark, table) if is_forgotten and min(versions, default=0) > 1 else days


def _read(spark: SparkSession, table: str, commits: int | None = None) -> dict[str, dict[str, Any]]:
    limit = f" limit {commits}" if commits else ""
    rows = spark.sql(f"describe history {table}{limit}").select("version", "userMetadata").collect()
    days: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row.version):
        page = parse_page(row.userMetadata)
        for day, entry in page.get("days", {}).items():
            days[day] = {**entry, "run_id": page["run_id"], "version": row.version}
    return days


def parse_page(metadata: str | None) -> dict[str, Any]:
    """What a commit's user metadata says of itself; nothing if it is not ours."""
    try:
        page = json.loads(metadata or "null")
    except ValueError:
        return {}
    return page if isinstance(page, dict) and page.get("stream") == FORMAT else {}
