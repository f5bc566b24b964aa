"""Two at once: whoever comes first or last, the tables end as if the work had been done in order.

Some tests let threads race. Others force the one bad moment: while a refinement is about to publish, another session
lands and refines something newer.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.dataframe import DataFrame

from stream_assets.engine import delta
from stream_assets.engine.server import connect
from stream_assets.settings import Settings
from tests.documents import contract, document
from tests.lakes import as_lines, deliver, land_days, ledger, mix_writers, refine_days, rows

FIRST, SECOND = date(2025, 3, 2), date(2025, 3, 3)
ROUNDS = int(os.environ.get("STREAM_ROUNDS", "1"))
"""How often a backfill and a live load race; `make reliability` sets 100."""


@pytest.fixture
def another(spark: SparkSession, lake: Settings) -> Iterator[SparkSession]:
    """A second session on the same server."""
    session = SparkSession.builder.remote(connect(lake).url).create()
    yield session
    session.stop()


def reading(key: str, day: date, pieces: int = 0, hour: int = 10) -> dict[str, Any]:
    return {"reading_id": key, "taken_at": f"{day}T{hour:02}:00:00Z", "pieces": pieces}


def test_two_sessions_do_the_same_first_day(
    lake: Settings, spark, another, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the tables exist: both create, land and refine at once, and neither fails nor doubles anything."""
    mix_writers(monkeypatch, random.Random(1))
    law = contract(tmp_path)
    deliver(lake, f"readings/{FIRST}/part.jsonl", as_lines([reading(f"r{n}", FIRST) for n in range(20)] + [{"bad": 1}]))

    def both(session: SparkSession) -> None:
        land_days(session, lake, law, FIRST)
        refine_days(session, lake, law, FIRST)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(both, (spark, another)))
    assert len(rows(lake, "bronze", "readings")) == 21
    assert len(rows(lake, "silver", "readings")) == 20
    assert len(rows(lake, "quarantine", "readings")) == 1


def test_a_backfill_and_a_live_load_at_once(
    lake: Settings, spark, another, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older day is refined while the next one, with late records for it, lands and is refined: nothing is lost."""
    mix_writers(monkeypatch, random.Random(2))
    law = contract(tmp_path, document(maxLateness=2))
    delivered: list[str] = []

    def live(day: date) -> None:
        landing = land_days(another, lake, law, day)
        refine_days(another, lake, law, *landing.touched)

    for number in range(ROUNDS):
        older, newer = FIRST + timedelta(days=2 * number), SECOND + timedelta(days=2 * number)
        first = [reading(f"a{number}-{n}", older) for n in range(20)]
        late = [reading(f"late{number}-{n}", older) for n in range(5)]
        second = [reading(f"b{number}-{n}", newer) for n in range(20)]
        deliver(lake, f"readings/{older}/part.jsonl", as_lines(first))
        deliver(lake, f"readings/{newer}/part.jsonl", as_lines(late + second))
        delivered += [record["reading_id"] for record in (*first, *late, *second)]
        land_days(spark, lake, law, older)
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(refine_days, spark, lake, law, older), pool.submit(live, newer)]
            for job in jobs:
                job.result()
        assert sorted(row["reading_id"] for row in rows(lake, "silver", "readings")) == sorted(delivered)


def interrupt(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object], layer: str = "silver") -> None:
    """Let something else happen once, right before the next commit to a layer."""
    write, waiting = delta._write, [meanwhile]

    def write_late(table: delta.Table, *args: Any, **options: Any) -> None:
        if table.layer == layer and waiting:
            waiting.pop()()
        write(table, *args, **options)

    monkeypatch.setattr(delta, "_write", write_late)


CHANGES = {
    FIRST: [reading("k", FIRST, 1), reading("only_first", FIRST, 1)],
    SECOND: [reading("k", SECOND, 2), reading("only_second", SECOND, 2), reading("late", FIRST, 3)],
}
LISTS = {
    FIRST: [reading("k", FIRST, 1), reading("gone", FIRST, 1)],
    SECOND: [reading("k", SECOND, 2), reading("come", SECOND, 2)],
}
EVENTS = {("k", 1): FIRST, ("only_first", 1): FIRST, ("late", 3): FIRST, ("k", 2): SECOND, ("only_second", 2): SECOND}
VERSIONS = {
    ("k", 1): FIRST,
    ("only_first", 1): FIRST,
    ("late", 3): SECOND,
    ("k", 2): SECOND,
    ("only_second", 2): SECOND,
}


@pytest.mark.parametrize(
    ("kind", "deliveries", "expected"),
    [
        ("event", CHANGES, EVENTS),
        ("entity", CHANGES, VERSIONS),
        ("reference", LISTS, {("k", 2): SECOND, ("come", 2): SECOND}),
    ],
    ids=["event", "entity", "reference"],
)
def test_a_slow_refinement_does_not_undo_a_newer_one(
    kind: str,
    deliveries: dict,
    expected: dict,
    lake: Settings,
    spark,
    another,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the older day is being refined, the newer is landed, refined and published: the older one must not put it back.

    Nor may the ledger keep what was counted before: each day's entry is true of the table at the end.
    """
    law = contract(tmp_path, document(datasetKind=kind, maxLateness=2))
    for day, records in deliveries.items():
        deliver(lake, f"readings/{day}/part.jsonl", as_lines(records))
    land_days(spark, lake, law, FIRST)

    def newer() -> None:
        landing = land_days(another, lake, law, SECOND)
        refine_days(another, lake, law, *landing.touched)

    interrupt(monkeypatch, newer)
    mix_writers(monkeypatch, random.Random(kind))
    refine_days(spark, lake, law, FIRST)
    found = rows(lake, "silver", "readings")
    assert {(row["reading_id"], row["pieces"]): row["_event_date"] for row in found} == expected
    assert len(found) == len(expected)
    told = {day: entry["rows_in"] for day, entry in ledger(lake, "silver", "readings").items()}
    landed = Counter(row["_event_date"].isoformat() for row in rows(lake, "bronze", "readings"))
    assert told == landed
    if kind == "entity":
        current = {row["reading_id"]: (row["pieces"], row["valid_to"]) for row in found if row["is_current"]}
        assert current["k"] == (2, None)


@pytest.mark.parametrize("kind", ["event", "entity", "reference"])
def test_nobody_uses_the_rows_another_run_keeps(
    kind: str, lake: Settings, spark, another, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run dies while it keeps what it computed of a day. The day is delivered anew: the next run sees that, on the same server."""
    law = contract(tmp_path, document(datasetKind=kind))
    deliver(lake, f"readings/{FIRST}/part.jsonl", as_lines([reading("a", FIRST)]))
    land_days(another, lake, law, FIRST)
    with monkeypatch.context() as dying:
        dying.setattr(DataFrame, "unpersist", lambda rows: rows)
        dying.setattr(delta, "_write", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            refine_days(another, lake, law, FIRST)
    deliver(lake, f"readings/{FIRST}/part.jsonl", as_lines([reading("a", FIRST, 1), reading("b", FIRST, 2)]))
    land_days(spark, lake, law, FIRST)
    refined = refine_days(spark, lake, law, FIRST)
    assert not refined.withheld
    assert {(row["reading_id"], row["pieces"]) for row in rows(lake, "silver", "readings")} == {("a", 1), ("b", 2)}


def test_two_days_of_an_entity_at_once(lake: Settings, spark, another, tmp_path: Path) -> None:
    """Both rewrite the whole table, so one of them meets a conflict, and tries again with what the other wrote."""
    law = contract(tmp_path, document(datasetKind="entity", maxLateness=2))
    for day, records in CHANGES.items():
        deliver(lake, f"readings/{day}/part.jsonl", as_lines(records))
    land_days(spark, lake, law, FIRST, SECOND)
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(refine_days, spark, lake, law, FIRST), pool.submit(refine_days, another, lake, law, SECOND)]
        for job in jobs:
            job.result()
    found = rows(lake, "silver", "readings")
    assert {(row["reading_id"], row["pieces"]): row["_event_date"] for row in found} == VERSIONS
    assert len(found) == len(VERSIONS)
