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


def read_days(spark: SparkSession, table: str, days: Iterable[date]) -> dict[str, dict[str, Any]]:
    """The newest ledger entry of each of these days; days never written are left out."""
    wanted = {day.isoformat() for day in days}
    found: dict[str, dict[str, Any]] = {}
    for commit in read_commits(spark, table):
        for day in wanted & commit["days"].keys():
            found.setdefault(day, commit["days"][day] | {"run_id": commit["run_id"], "version": commit["version"]})
        if wanted <= found.keys():
            break
    return found


def read_commits(spark: SparkSession, table: str) -> list[dict[str, Any]]:
    """Every ledger page of a table, newest first. Commits of other tools (compaction, vacuum) have none."""
    rows = spark.sql(f"describe history {table}").select("version", "userMetadata").collect()
    pages = []
    for row in sorted(rows, key=lambda row: -row.version):
        try:
            page = json.loads(row.userMetadata or "null")
        except ValueError:
            continue
        if isinstance(page, dict) and page.get("stream") == FORMAT:
            pages.append(page | {"version": row.version})
    return pages
