"""A few rows are added without Spark: once for each token, with their page, also when two are at it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from stream_assets.engine import delta
from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import read_log

NAMES = ("kafka:t:id:0", "kafka:t:id:1")


@pytest.fixture
def table(tmp_path: Path) -> delta.Table:
    DeltaTable.create(str(tmp_path), pa.schema([("n", pa.int64())]))
    return delta.Table("bronze", "numbers", str(tmp_path), {"n": ("bigint", "")}, None, ("n",))


def add(table: delta.Table, n: int, token: delta.Token | None) -> None:
    commit = Commit(f"run-{n}", "numbers", "bronze", "1.0.0", {"2026-11-16": {"rows_in": n}})
    delta.append_few(table, pa.table({"n": [n]}), commit=commit, token=token)


def numbers(table: delta.Table) -> list[int]:
    return sorted(DeltaTable(table.path).to_pyarrow_table()["n"].to_pylist())


def test_rows_and_their_page_are_one_commit(table: delta.Table) -> None:
    add(table, 7, (NAMES[0], 3))
    assert numbers(table) == [7]
    assert read_log(table.path)[-1].page["days"] == {"2026-11-16": {"rows_in": 7}}


def test_a_token_is_used_once_and_numbers_only_grow(table: delta.Table) -> None:
    for n, number in enumerate((3, 3, 2, 4)):
        add(table, n, (NAMES[0], number))
    add(table, 9, (NAMES[1], 0))
    assert numbers(table) == [0, 3, 9]


def test_without_a_token_rows_are_added_every_time(table: delta.Table) -> None:
    add(table, 1, None)
    add(table, 1, None)
    assert numbers(table) == [1, 1]


def test_of_two_that_look_at_the_same_time_one_writes(table: delta.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one looked before the first wrote, and finds no mark: Delta itself refuses its commit."""
    write: Callable[..., None] = delta.write_deltalake

    def write_second(*args: object, **kwargs: object) -> None:
        monkeypatch.setattr(delta, "write_deltalake", write)
        add(table, 1, (NAMES[0], 5))
        write(*args, **kwargs)

    monkeypatch.setattr(delta, "write_deltalake", write_second)
    add(table, 2, (NAMES[0], 5))
    assert numbers(table) == [1]
