"""Any order and any repetition gives the same tables: land and refine days as chance has it, and compare with one clean run.

Chance is seeded, so a failure can be repeated, and also decides what is written by Spark and what by delta-rs. One delivery comes again in
another shape on the way: what it no longer holds must be gone from Silver too. Days of events are refined in portions, and all at
once in the clean run.
"""

import os
import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from stream_assets.settings import Settings
from stream_assets.silver import refine as refining
from tests.documents import contract, document
from tests.lakes import (
    as_lines,
    contents,
    deliver,
    forget_tables,
    lake_at,
    land_days,
    ledger,
    mix_writers,
    refine_days,
    version,
)

DAYS = [date(2025, 3, 2) + timedelta(days=n) for n in range(4)]


def reading(key: str, day: int, pieces: int | None = 1, hour: int = 10) -> dict[str, Any]:
    return {"reading_id": key, "taken_at": f"{DAYS[0] + timedelta(days=day)}T{hour:02}:00:00Z", "pieces": pieces}


# Late records, corrections before and after what they correct, exact repeats, rejected records, a day that is too late.
CHANGES = [
    [*(reading(f"a{n}", 0) for n in range(5)), reading("k", 0, 1), reading("k", 0, 2, hour=12), {"bad": "record"}],
    [
        *(reading(f"b{n}", 1) for n in range(5)),
        reading("a1", 0, 7, hour=11),
        reading("k", 0, 1, hour=9),
        reading("a2", 0),
    ],
    [*(reading(f"c{n}", 2) for n in range(5)), reading("late", 0, 3), reading("b1", 1, -1), reading("k", 2, 4)],
    [
        *(reading(f"d{n}", 3) for n in range(5)),
        reading("late", 1, 4),
        reading("late", 0, 9),
        reading("k", 1, 5, hour=1),
    ],
]
LISTS = [[reading(f"s{n}", day, pieces=day) for n in range(5 + day)] for day in range(4)]


def first_shape(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The delivery as it came first: without some of its records, and with some that are gone later."""
    return [*records[2:], reading("gone", 0, 1), reading("gone", 1, 1), {"bad": "once"}]


def write(lake: Settings, day: int, records: list[dict[str, Any]], *, when: int) -> None:
    file = deliver(lake, f"readings/{DAYS[day]}/part.jsonl", as_lines(records))
    # Both lakes see the same files, so also the same time of arrival.
    os.utime(file, (when, when))


@pytest.mark.parametrize(("kind", "deliveries"), [("event", CHANGES), ("entity", CHANGES), ("reference", LISTS)])
def test_any_order_and_repetition_gives_the_same_tables(
    kind: str, deliveries: list, lake: Settings, spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the days were landed and refined before: once what was touched is refined, the tables are those of one range run."""
    law = contract(tmp_path, document(datasetKind=kind, maxLateness=2))
    chance = random.Random(f"{kind} 1")
    mix_writers(monkeypatch, chance)
    monkeypatch.setattr(refining, "ROWS_AT_ONCE", 2 * len(CHANGES[0]))
    changed = 1
    for day, records in enumerate(deliveries):
        write(lake, day, first_shape(records) if day == changed else records, when=1_700_000_000 + day)
    touched: set[date] = set()
    for step in range(3):
        if step == 2:
            write(lake, changed, deliveries[changed], when=1_700_000_100)
        some = DAYS if step == 2 else chance.sample(DAYS, 2)
        # Whoever lands a day in both shapes touches what is in either.
        touched |= set(land_days(spark, lake, law, *(some if step else {*some, DAYS[changed]})).touched)
        # What the first shape alone holds must have been in Silver once, or nothing could fail to go.
        if step < 2:
            refine_days(spark, lake, law, *(chance.sample(DAYS, 2) if step else DAYS[: changed + 1]))
    refine_days(spark, lake, law, *sorted(touched, key=lambda _: chance.random()))
    found = {layer: contents(lake, layer, "readings") for layer in ("bronze", "silver", "quarantine")}
    counted = ledger(lake, "silver", "readings")

    monkeypatch.setattr(refining, "ROWS_AT_ONCE", 1_000_000)
    clean = lake_at(lake, tmp_path / "clean")
    for day, records in enumerate(deliveries):
        write(clean, day, records, when=1_700_000_100 if day == changed else 1_700_000_000 + day)
    forget_tables(spark)
    land_days(spark, clean, law, *DAYS)
    refine_days(spark, clean, law, *DAYS)
    assert found == {layer: contents(clean, layer, "readings") for layer in ("bronze", "silver", "quarantine")}
    if kind != "entity":
        told = ledger(clean, "silver", "readings")
        assert {day: counted[day] for day in told} == told


def test_refining_again_writes_nothing(lake: Settings, spark, tmp_path: Path) -> None:
    """Unchanged input is seen in the ledger: no commit, no new version."""
    law = contract(tmp_path)
    write(lake, 0, CHANGES[0], when=1_700_000_000)
    land_days(spark, lake, law, DAYS[0])
    refine_days(spark, lake, law, DAYS[0])
    before = [version(lake, layer, "readings") for layer in ("bronze", "silver", "quarantine")]
    assert refine_days(spark, lake, law, DAYS[0]).refined == ()
    assert [version(lake, layer, "readings") for layer in ("bronze", "silver", "quarantine")] == before
