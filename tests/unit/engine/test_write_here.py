"""Little is written without Spark: with its page, once for each token, and never over what somebody else has committed meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from stream_assets.engine import delta
from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import read_log
from stream_assets.engine.turns import turn_of_ours, turn_of_spark

NAMES = ("kafka:t:id:0", "kafka:t:id:1")
DAYS = (date(2026, 11, 15), date(2026, 11, 16))
SCHEMA = pa.schema([("n", pa.int64()), ("day", pa.date32())])


@pytest.fixture
def path(tmp_path: Path) -> str:
    DeltaTable.create(str(tmp_path), SCHEMA, partition_by=["day"])
    return str(tmp_path)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Lets something happen after a writer has looked at the table and before it commits."""
    write = write_deltalake

    def arrange(happening: Callable[[], object]) -> None:
        def write_second(*args: object, **kwargs: object) -> None:
            monkeypatch.setattr(delta, "write_deltalake", write)
            happening()
            write(*args, **kwargs)  # pyright: ignore[reportCallIssue, reportArgumentType]

        monkeypatch.setattr(delta, "write_deltalake", write_second)

    return arrange


def rows(n: int, day: date = DAYS[0]) -> pa.Table:
    return pa.table({"n": [n], "day": [day]}, SCHEMA)


def write(
    path: str,
    found: pa.Table,
    options: Mapping[str, str] | None = None,
    *,
    mode: delta.Mode = "overwrite",
    run: str = "r",
) -> bool:
    commit = Commit(run, "numbers", "bronze", "1.0.0", {"2026-11-16": {"rows_in": found.num_rows}})
    return delta.write_here(path, lambda: found, commit, options or {}, mode)


def add(path: str, n: int, token: delta.Token | None) -> None:
    options = {"txnAppId": token[0], "txnVersion": str(token[1])} if token else {}
    write(path, rows(n), options, mode="append")


def replace(path: str, n: int, day: date) -> None:
    write(path, rows(n, day), {"replaceWhere": delta.in_days("day", [day])})


def numbers(path: str) -> list[int]:
    return sorted(DeltaTable(path).to_pyarrow_table()["n"].to_pylist())


def add_behind(path: str, n: int, day: date) -> None:
    write_deltalake(path, rows(n, day), mode="append")


def test_rows_and_their_page_are_one_commit(path: str) -> None:
    add(path, 7, (NAMES[0], 3))
    assert numbers(path) == [7]
    assert read_log(path)[-1].page["days"] == {"2026-11-16": {"rows_in": 1}}


def test_a_token_is_used_once_and_numbers_only_grow(path: str) -> None:
    for n, number in enumerate((3, 3, 2, 4)):
        add(path, n, (NAMES[0], number))
    add(path, 9, (NAMES[1], 0))
    assert numbers(path) == [0, 3, 9]


def test_a_token_is_used_up_by_whoever_commits_first(path: str) -> None:
    """It is looked up before what the rows depend on, so that nothing which came since is overwritten."""
    replace(path, 1, DAYS[0])
    mine = delta.next_token(path, "deliveries")
    add(path, 2, delta.next_token(path, "deliveries"))
    for token, found in ((mine, [1, 2]), (delta.next_token(path, "deliveries"), [3])):
        once = {"txnAppId": token[0], "txnVersion": str(token[1])}
        write(path, rows(3), {"replaceWhere": delta.in_days("day", DAYS[:1]), **once})
        assert numbers(path) == found


def test_without_a_token_rows_are_added_every_time(path: str) -> None:
    add(path, 1, None)
    add(path, 1, None)
    assert numbers(path) == [1, 1]


def test_of_two_that_look_at_the_same_time_one_writes(path: str, between: Callable[..., None]) -> None:
    """The second one looked before the first wrote, and finds no mark: Delta itself refuses its commit."""
    between(lambda: write_deltalake(path, rows(1), mode="append", commit_properties=_marked((NAMES[0], 5))))
    add(path, 2, (NAMES[0], 5))
    assert numbers(path) == [1]


def _marked(token: delta.Token) -> delta.CommitProperties:
    return delta.CommitProperties(app_transactions=[delta.Transaction(*token)])


def test_a_day_is_replaced_and_no_other(path: str) -> None:
    for n, day in enumerate(DAYS):
        replace(path, n, day)
    replace(path, 5, DAYS[0])
    assert numbers(path) == [1, 5]
    write(path, rows(0)[:0], {"replaceWhere": delta.in_days("day", DAYS)})
    assert numbers(path) == []


def test_what_somebody_adds_to_the_day_meanwhile_is_replaced_too(path: str, between: Callable[..., None]) -> None:
    between(lambda: add_behind(path, 1, DAYS[0]))
    replace(path, 2, DAYS[0])
    assert numbers(path) == [2]


def test_what_somebody_adds_to_another_day_meanwhile_stays(path: str, between: Callable[..., None]) -> None:
    between(lambda: add_behind(path, 1, DAYS[1]))
    replace(path, 2, DAYS[0])
    assert numbers(path) == [1, 2]


def test_rows_are_computed_anew_when_the_whole_table_changed_meanwhile(path: str, between: Callable[..., None]) -> None:
    """An entity's table is computed from itself: what came in between would be lost."""
    between(lambda: add_behind(path, 1, DAYS[1]))
    commit = Commit("r", "numbers", "silver", "1.0.0", {})
    delta.write_here(
        path, lambda: pa.concat_tables([DeltaTable(path).to_pyarrow_table(), rows(2)]), commit, {}, "overwrite"
    )
    assert numbers(path) == [1, 2]


def test_nothing_is_written_here_while_spark_is_at_it(path: str) -> None:
    with turn_of_spark(path), turn_of_spark(path), turn_of_ours(path, patience=0) as is_ours:
        assert not is_ours
    with turn_of_ours(path, patience=0) as is_ours:
        assert is_ours


def test_spark_waits_until_we_are_done(path: str) -> None:
    entered = threading.Event()

    def commit() -> None:
        with turn_of_spark(path):
            entered.set()

    with turn_of_ours(path):
        other = threading.Thread(target=commit)
        other.start()
        assert not entered.wait(0.2)
    assert entered.wait(10)
    other.join()
