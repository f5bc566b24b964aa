"""The newest commit of a table tells what a run wrote."""

import json
from pathlib import Path

import pytest

from stream_assets.gold.written import written_by


def commit(table: Path, version: int, run_id: str | None, rows: int, predicate: str | None = None) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    info = {
        "operationParameters": {"predicate": predicate} if predicate else {},
        "operationMetrics": {"numOutputRows": str(rows)},
        **({"userMetadata": json.dumps({"run_id": run_id})} if run_id else {}),
    }
    lines = [json.dumps({"commitInfo": info}), json.dumps({"add": {"path": "x"}})]
    (log / f"{version:020}.json").write_text("\n".join(lines) + "\n")


def test_a_replaced_range_tells_its_rows(tmp_path):
    """Rows of the range, not of the table."""
    commit(tmp_path, 0, "old", 7)
    commit(tmp_path, 1, "mine", 3, predicate="day = 1")
    assert written_by("mine", str(tmp_path)) == {"dagster/partition_row_count": 3, "delta_version": 1}


def test_a_replaced_table_tells_its_rows(tmp_path):
    """Rows of the table."""
    commit(tmp_path, 0, "mine", 7)
    assert written_by("mine", str(tmp_path)) == {"dagster/row_count": 7, "delta_version": 0}


@pytest.mark.parametrize("by", ["other", None])
def test_a_table_this_run_left_alone_tells_nothing(tmp_path, by):
    """Another run's rows are not ours to report."""
    commit(tmp_path, 0, by, 7)
    assert written_by("mine", str(tmp_path)) == {}


def test_a_table_that_is_not_there_tells_nothing(tmp_path):
    """Views have no log."""
    assert written_by("mine", str(tmp_path / "none")) == {}
