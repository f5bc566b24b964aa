"""A small lakehouse to operate on: one contract, a dbt project of a daily and a whole table, runs as `stream run` makes them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stream_assets.build import build_defs
from stream_assets.contracts.load import load_contracts
from stream_assets.contracts.model import Contract
from stream_assets.engine.session import LAYERS, tables_in
from stream_assets.ops.run import ExecutionResult, run_range
from stream_assets.settings import Settings
from tests.documents import document, write
from tests.integration.gold.conftest import forget
from tests.lakes import as_lines, deliver, lake_at, rows

DAY = date(2025, 3, 2)
MODELS = {
    "per_day": """{{ config(materialized='incremental', incremental_strategy='replace_where', partition_by='day') }}
        select count(*) as readings, sum(pieces) as pieces, _event_date as day
        from {{ source('silver', 'readings') }} where {{ in_range('_event_date') }} group by _event_date""",
    "by_reading": """{{ config(materialized='table') }}
        select reading_id, pieces, _event_date as day from {{ source('silver', 'readings') }}""",
}


def day(number: int) -> date:
    """One of the days of these tests."""
    return DAY + timedelta(days=number)


def reading(number: int, name: str, pieces: int | None, hour: int = 10, **more: Any) -> dict[str, Any]:
    """A record of a day."""
    return {"reading_id": name, "taken_at": f"{day(number)}T{hour:02}:00:00Z", "pieces": pieces, **more}


def law(rule: str = "pieces >= 0", version: str = "1.0.0", **custom: Any) -> dict[str, Any]:
    """The contract with another rule."""
    made = document(**custom)
    made["version"] = version
    made["schema"][0]["quality"][0]["implementation"]["expression"] = rule
    return made


def write_project(folder: Path) -> Path:
    """A dbt project of a daily and a whole table."""
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: small\nversion: 1.0.0\n")
    for model, text in MODELS.items():
        (folder / "models" / f"{model}.sql").write_text(text)
    return folder


@dataclass(frozen=True)
class House:
    """One lakehouse."""

    settings: Settings

    @property
    def contract(self) -> Contract:
        """The contract in force."""
        return load_contracts(self.settings.contracts)["readings"]

    def ship(self, contract: dict[str, Any]) -> None:
        """Put a contract in force."""
        write(self.settings.contracts, contract)

    def deliver(self, number: int, records: list[Any], name: str = "part.jsonl") -> Path:
        """Put records into the delivery of a day."""
        text = "".join(r if isinstance(r, str) else as_lines([r]) for r in records)
        return deliver(self.settings, f"readings/{day(number)}/{name}", text)

    def run(self, first: int, last: int, select: str | None = None, *, again: bool = False) -> ExecutionResult:
        """`stream run` over a range of days."""
        defs = build_defs(self.settings)
        return run_range(self.settings, defs, day(first), day(last), select=select, report=lambda *_: None, again=again)

    def contents(self, *, volatile: bool = True) -> dict[str, list[str]]:
        """Every row of every table but Bronze; without what differs between two equal runs, if asked."""
        left_out = (
            () if volatile else ("_run_id", "_quarantined_at", "_resolved_at", "_resolution", "_contract_version")
        )
        return {
            f"{layer}/{name}": sorted(
                repr(sorted((k, v) for k, v in row.items() if k not in left_out))
                for row in rows(self.settings, layer, name)
                if volatile or row.get("_resolved_at") is None
            )
            for layer in LAYERS
            if layer != "bronze"
            for name in tables_in(self.settings, layer)
        }


@pytest.fixture
def house_of(engine_settings: Settings, spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[str], House]]:
    """Make a lakehouse of its own name; the catalogue forgets what was before."""

    def make(name: str, landing: Settings | None = None) -> House:
        forget(spark)
        folder = tmp_path / name
        project = write_project(folder / "dbt")
        settings = replace(lake_at(engine_settings, folder), contracts=folder / "contracts", dbt_project=project)
        return House(replace(settings, landing=landing.landing) if landing else settings)

    yield make
    forget(spark)
