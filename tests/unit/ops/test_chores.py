"""What is due is found without an engine, and nothing that is still needed is ever due."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stream_assets.contracts.model import Contract
from stream_assets.engine.footprint import footprint, orphans
from stream_assets.gold.models import Model
from stream_assets.ops.maintenance.chores import Chore, find_chores
from stream_assets.settings import Settings
from tests.documents import contract, document

DAYS = (date(2025, 3, 1), date(2025, 3, 2))
NOW = datetime.now(UTC)
MODELS = {"gold/facts": Model("facts", "c", frozenset({"silver/readings"}), "_event_date")}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A lake whose first day has many small files and whose second has one."""
    made = Settings.from_env({"STREAM_HOME": str(tmp_path / "home"), "STREAM_ROLLBACK_DAYS": "30"})
    for layer in ("silver", "gold"):
        name = "readings" if layer == "silver" else "facts"
        for day in (*[DAYS[0]] * 9, DAYS[1]):
            rows = pa.table({"_event_date": [day], "a": [1]})
            write_deltalake(made.table_path(layer, name), rows, mode="append", partition_by=["_event_date"])
    return made


@pytest.fixture
def law(tmp_path: Path) -> Contract:
    return replace(contract(tmp_path, document()), retention=timedelta(days=20_000))


def chores(settings: Settings, law: Contract, *tables: str, now: datetime = NOW) -> list[Chore]:
    return list(find_chores(settings, {"readings": law}, MODELS, tables, now=now))


def test_only_a_partition_of_many_small_files_is_compacted(settings: Settings, law: Contract) -> None:
    (found,) = chores(settings, law, "silver/readings")
    assert (found.kind, found.files) == ("compact", 9)
    assert "2025-03-01" in found.where
    assert "2025-03-02" not in found.where


def test_rows_past_their_retention_are_due_in_every_layer(settings: Settings, law: Contract) -> None:
    short = replace(law, retention=timedelta(days=10))
    now = datetime(2025, 3, 12, tzinfo=UTC)
    due = [c for c in chores(settings, short, "silver/readings", "gold/facts", now=now) if c.kind == "retention"]
    assert [(c.subject, c.where) for c in due] == [
        ("silver/readings", "_event_date < date'2025-03-02'"),
        ("gold/facts", "_event_date < date'2025-03-02'"),
    ]
    entity = replace(short, kind="entity")
    assert not [c for c in chores(settings, entity, "silver/readings", now=now) if c.kind == "retention"]


def test_history_within_the_rollback_window_is_not_due(settings: Settings, law: Contract) -> None:
    write_deltalake(
        settings.table_path("silver", "readings"), pa.table({"_event_date": [DAYS[1]], "a": [2]}), mode="overwrite"
    )
    assert [c.kind for c in chores(settings, law, "silver/readings")] == []
    (due,) = chores(replace(settings, rollback_days=0), law, "silver/readings")
    assert (due.kind, due.files) == ("vacuum", 10)


def test_old_reports_are_pruned_and_the_latest_is_not(settings: Settings, law: Contract) -> None:
    folder = settings.home / "reports" / "runs"
    folder.mkdir(parents=True)
    for name in ("old", "latest", "new"):
        (folder / f"{name}.json").write_text("{}")
    long_ago = (NOW - timedelta(days=91)).timestamp()
    for name in ("old", "latest"):
        os.utime(folder / f"{name}.json", (long_ago, long_ago))
    (due,) = chores(settings, law)
    assert [Path(name).name for name in due.names] == ["old.json"]


def test_files_that_no_commit_names_are_orphans(settings: Settings) -> None:
    path = settings.table_path("silver", "readings")
    write_deltalake(path, pa.table({"_event_date": [DAYS[1]], "a": [2]}), mode="overwrite")  # history is no orphan
    stray = Path(path) / "_event_date=2025-03-01" / "part-killed.parquet"
    stray.write_bytes(b"half a file")
    later = NOW + timedelta(hours=3)
    assert orphans(footprint(path), older_than=timedelta(hours=1), now=later) == {str(stray.relative_to(path)): 11}
    assert orphans(footprint(path), older_than=timedelta(hours=4), now=later) == {}
