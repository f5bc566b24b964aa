"""What a commit says about itself. The Delta log is the ledger: this metadata is written in the same atomic commit as the data.

One commit covers a range of days and has one entry per day. Readers take, for each day, the newest commit that has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
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


def read_ledger(spark: SparkSession, table: str) -> dict[str, dict[str, Any]]:
    """The newest entry of every day a table has ever been told about, by ISO day.

    Commits of other tools (compaction, vacuum) have no entries and change none.
    """
    rows = spark.sql(f"describe history {table}").select("version", "userMetadata").collect()
    days: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row.version):
        page = _parse(row.userMetadata)
        for day, entry in page.get("days", {}).items():
            days[day] = {**entry, "run_id": page["run_id"], "version": row.version}
    return days


def _parse(metadata: str | None) -> dict[str, Any]:
    try:
        page = json.loads(metadata or "null")
    except ValueError:
        return {}
    return page if isinstance(page, dict) and page.get("stream") == FORMAT else {}
