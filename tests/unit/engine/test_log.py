"""The ledger read from a Delta log without Spark, as Spark and as delta-rs write it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import LoggedCommit, add_up, read_log

DAYS = {"2026-04-01": {"accepted": 3}}


def commit_as_spark(table: Path, version: int, *, metadata: str | None, **times: int) -> None:
    """Spark puts the user metadata beside the operation."""
    info = {"operation": "WRITE", "operationParameters": {}, "engineInfo": "Apache-Spark", **times}
    info |= {"userMetadata": metadata} if metadata else {}
    (table / "_delta_log" / f"{version:020}.json").write_text(json.dumps({"commitInfo": info}) + "\n")


def test_commits_come_oldest_first_with_their_pages(tmp_path: Path) -> None:
    table = tmp_path / "silver" / "orders"
    write_deltalake(table, pa.table({"a": [1]}))
    page = Commit("run", "orders", "silver", "1.0.0", DAYS).to_json()
    commit_as_spark(table, 1, metadata=page, timestamp=1_700_000_000_000)
    commit_as_spark(table, 2, metadata=None, timestamp=1_700_000_001_000, inCommitTimestamp=1_700_000_002_000)
    created, written, compacted = read_log(str(table))
    assert (created.version, created.page) == (0, {})
    assert (written.version, written.page["days"], written.page["run_id"]) == (1, DAYS, "run")
    assert written.committed_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert (compacted.page, compacted.committed_at.second) == ({}, 22)


def test_metadata_of_others_is_no_page(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"a": [1]}))
    for version, text in enumerate(("not json", "[1]", '{"stream": 99, "days": {}}'), start=1):
        commit_as_spark(tmp_path / "t", version, metadata=text, timestamp=version)
    assert [commit.page for commit in read_log(str(tmp_path / "t"))] == [{}] * 4


def test_what_delta_rs_writes_is_read_too(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"a": [1]}), commit_properties=CommitProperties({"who": "somebody"}))
    DeltaTable(tmp_path / "t").optimize.compact()
    assert [commit.page for commit in read_log(str(tmp_path / "t"))] == [{}]


def test_a_table_that_is_not_there_has_no_commits(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert read_log(str(tmp_path / "missing")) == read_log(str(tmp_path / "empty")) == []


def test_a_repeated_entry_counts_as_old_as_it_was() -> None:
    """A page with positions repeats what it knew of other days: what was written meanwhile is newer."""
    old, new = {"rows_in": 1}, {"rows_in": 2}
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    pages = [
        {"run_id": "a", "days": {"2026-01-01": old, "2026-01-02": old}},
        {"run_id": "b", "days": {"2026-01-01": new}},
        {"run_id": "c", "positions": {"topic": "t"}, "recent": {
            "2026-01-01": old | {"version": 0, "run_id": "a"}, "2026-01-02": old | {"version": 0, "run_id": "a"}}},
    ]  # fmt: skip
    ledger = add_up([LoggedCommit(version, moment, page) for version, page in enumerate(pages)])
    assert {day: entry["rows_in"] for day, entry in ledger.days.items()} == {"2026-01-01": 2, "2026-01-02": 1}
    assert (ledger.positions, ledger.run_id) == ({"topic": "t"}, "c")
    alone = add_up([LoggedCommit(2, moment, pages[2])])
    assert set(alone.days) == {"2026-01-01", "2026-01-02"}
