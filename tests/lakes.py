"""Lakes for tests: made in a temporary folder, filled with deliveries, read back without Spark.

Tables are read with delta-rs, as any other tool would: what Spark says of its own tables proves little.
"""

import json
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from stream_assets.bronze.land import Landing, land
from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.engine.session import LAYERS
from stream_assets.settings import Settings
from stream_assets.silver.refine import Refinement, refine

Seen = TypeVar("Seen")
SALT = "salt-of-the-tests"
VOLATILE = ("_run_id", "_quarantined_at")
"""Columns that say when and by whom, and so differ between two equal tables."""


def lake_at(engine_settings: Settings, folder: Path) -> Settings:
    """Settings with a landing zone and a lake in this folder; the engine stays where it is."""
    places = {name: str(folder / name) for name in ("landing", "lake", "checkpoints")}
    return replace(engine_settings, **places)


def forget_tables(spark: SparkSession) -> None:
    """Empty the catalogue. Tables are external, so their files stay where they are."""
    views = {row.viewName for row in spark.sql("show views in gold").collect()}
    for layer in LAYERS:
        for table in spark.sql(f"show tables in `{layer}`").collect():
            kind = "view" if layer == "gold" and table.tableName in views else "table"
            spark.sql(f"drop {kind} if exists `{layer}`.`{table.tableName}`")


def mix_writers(monkeypatch: pytest.MonkeyPatch, chance: random.Random) -> None:
    """Let Spark write this and delta-rs that, as chance has it, whatever the size."""
    monkeypatch.setattr(delta.Size, "is_small", property(lambda _: chance.random() < 0.5))


def deliver(lake: Settings, path: str, content: bytes | str) -> Path:
    """Put a file into the landing zone."""
    file = Path(lake.landing) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def as_lines(records: Iterable[Any]) -> str:
    """Records as JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records)


def land_days(spark: SparkSession, lake: Settings, contract: Contract, *days: date, again: bool = False) -> Landing:
    """Land these days."""
    return land(spark, lake, contract, days, run_id="test", again=again)


def refine_days(
    spark: SparkSession, lake: Settings, contract: Contract, *days: date, again: bool = False
) -> Refinement:
    """Refine these days."""
    return refine(spark, lake, contract, days, run_id="test", salt=SALT, again=again)


def table(lake: Settings, layer: str, name: str) -> DeltaTable:
    """A table of the lake, without Spark."""
    return DeltaTable(lake.table_path(layer, name))


def rows(lake: Settings, layer: str, name: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of a table."""
    return table(lake, layer, name).to_pyarrow_table(columns=list(columns) if columns else None).to_pylist()


def contents(lake: Settings, layer: str, name: str) -> list[str]:
    """The rows of a table in an order of their own, without what differs between two equal runs.

    What quarantine keeps of records that are rejected no more is history, which a table made from nothing does not have.
    """
    standing = [row for row in rows(lake, layer, name) if row.get("_resolved_at") is None]
    stable = [{k: v for k, v in row.items() if k not in VOLATILE} for row in standing]
    return sorted(repr(sorted(row.items())) for row in stable)


def version(lake: Settings, layer: str, name: str) -> int:
    """Newest version of a table."""
    return table(lake, layer, name).version()


def ledger(lake: Settings, layer: str, name: str) -> dict[str, dict[str, Any]]:
    """The newest ledger entry of each day, from the Delta log itself."""
    days: dict[str, dict[str, Any]] = {}
    for commit in sorted(table(lake, layer, name).history(), key=lambda commit: commit["version"]):
        days |= json.loads(commit.get("userMetadata") or "{}").get("days", {})
    return days


@contextmanager
def reading(look: Callable[[], Seen]) -> Iterator[list[Seen]]:
    """Look again and again beside what happens inside, and at least once; what every look saw. One that fails fails the test."""
    seen, over = list[Seen](), threading.Event()

    def read() -> None:
        while not seen or not over.wait(0.1):  # others want the cores too
            seen.append(look())

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        try:
            yield seen
        finally:
            over.set()
        reader.result()
