"""Corrections of people beside the records they stand in for: whatever day they are of, and however days are grouped and landed."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from stream_assets.bronze.correct import Correction, land_corrections
from stream_assets.engine import delta
from stream_assets.settings import Settings
from stream_assets.sources.corrections import correction_source
from tests.documents import contract, document
from tests.integration.test_concurrency import interrupt
from tests.lakes import as_lines, contents, deliver, land_days, ledger, refine_days, rows

DAY = date(2025, 3, 4)
DAYS = [DAY - timedelta(days=n) for n in (2, 1, 0)]
FILE = f"readings/{DAY}/part.jsonl"


def reading(key: str, taken_at: str, pieces: int) -> dict[str, Any]:
    return {"reading_id": key, "taken_at": taken_at, "pieces": pieces}


def at(day: date) -> str:
    return f"{day}T10:00:00Z"


def correction(original: dict[str, Any], position: int, event_date: date, edited: dict[str, Any]) -> Correction:
    """What a person made of a line of the file."""
    source = correction_source("export", FILE, as_lines([original]).strip())
    return Correction(as_lines([edited]).strip(), None, source, position, DAY, event_date)


DELIVERED = [
    reading("no time", "soon", 1),
    reading("wrong day", at(DAYS[1]), -1),
    reading("same day", at(DAY), -1),
    reading("sound", at(DAYS[0]), 1),
]
CORRECTIONS = [
    correction(DELIVERED[0], 1, DAY, reading("no time", at(DAYS[0]), 1)),
    correction(DELIVERED[1], 2, DAYS[1], reading("wrong day", at(DAYS[0]), 2)),
    correction(DELIVERED[2], 3, DAY, reading("same day", at(DAY), 3)),
]


@pytest.mark.parametrize(
    "groups", [[DAYS], [[d] for d in DAYS], [[d] for d in reversed(DAYS)]], ids=["together", "one by one", "backwards"]
)
def test_a_correction_of_the_day_stands_in_for_its_original(
    groups: list[list[date]], lake: Settings, spark, tmp_path: Path
) -> None:
    """The original is of another day than its correction. That it is corrected is known to whoever refines its day, alone or not."""
    law = contract(tmp_path, document(maxLateness=2))
    deliver(lake, FILE, as_lines(DELIVERED))
    land_days(spark, lake, law, DAY)
    refine_days(spark, lake, law, *DAYS)
    assert land_corrections(spark, lake, law, CORRECTIONS, run_id="person") == set(DAYS)
    for days in groups:
        refine_days(spark, lake, law, *days)
    silver = {(row["reading_id"], row["_event_date"], row["pieces"]) for row in rows(lake, "silver", "readings")}
    assert silver == {
        ("no time", DAYS[0], 1),
        ("wrong day", DAYS[0], 2),
        ("same day", DAY, 3),
        ("sound", DAYS[0], 1),
    }
    assert contents(lake, "quarantine", "readings") == []
    assert [row["_resolution"] for row in rows(lake, "quarantine", "readings")] == ["corrected"] * 3
    told = ledger(lake, "silver", "readings").values()
    assert [sum(entry[name] for entry in told) for name in ("rows_in", "accepted", "duplicates")] == [7, 4, 3]


@pytest.mark.parametrize("is_small", [True, False], ids=["written by delta-rs", "written by Spark"])
@pytest.mark.parametrize("first", ["correction", "delivery"])
def test_a_delivery_that_comes_again_while_it_is_corrected(
    first: str, is_small: bool, lake: Settings, spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever commits first, while the other was about to: both are there, and the ledger says so."""
    monkeypatch.setattr(delta.Size, "is_small", property(lambda _: is_small))
    law = contract(tmp_path, document(maxLateness=2))
    deliver(lake, FILE, as_lines(DELIVERED))
    land_days(spark, lake, law, DAY)
    # An earlier correction: what is known of the day is then not nothing, but old.
    land_corrections(spark, lake, law, CORRECTIONS[:1], run_id="person")
    before = ledger(lake, "bronze", "readings")[str(DAY)]
    deliver(lake, f"readings/{DAY}/more.jsonl", as_lines([reading("more", at(DAY), 5)]))

    acts = {
        "correction": lambda: land_corrections(spark, lake, law, CORRECTIONS[1:], run_id="person"),
        "delivery": lambda: land_days(spark, lake, law, DAY),
    }
    interrupt(monkeypatch, acts.pop(first), "bronze")
    (act,) = acts.values()
    act()
    after = ledger(lake, "bronze", "readings")[str(DAY)]
    assert after["rows_in"] == 5
    assert after["files"] != before["files"]
    assert after["corrections"] != before["corrections"]
    refine_days(spark, lake, law, *DAYS)
    silver = {row["reading_id"]: row["pieces"] for row in rows(lake, "silver", "readings")}
    assert silver == {"no time": 1, "wrong day": 2, "same day": 3, "sound": 1, "more": 5}
    assert contents(lake, "quarantine", "readings") == []
    assert land_corrections(spark, lake, law, CORRECTIONS, run_id="person") == set()
    assert land_days(spark, lake, law, DAY).landed == ()


def test_a_first_correction_while_its_delivery_comes_again(
    lake: Settings, spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The landing looked when there was none."""
    law = contract(tmp_path, document(maxLateness=2))
    deliver(lake, FILE, as_lines(DELIVERED))
    land_days(spark, lake, law, DAY)
    deliver(lake, f"readings/{DAY}/more.jsonl", as_lines([reading("more", at(DAY), 5)]))
    interrupt(monkeypatch, lambda: land_corrections(spark, lake, law, CORRECTIONS, run_id="person"), "bronze")
    assert land_days(spark, lake, law, DAY).landed == (DAY,)
    refine_days(spark, lake, law, *DAYS)
    silver = {row["reading_id"]: row["pieces"] for row in rows(lake, "silver", "readings")}
    assert silver == {"no time": 1, "wrong day": 2, "same day": 3, "sound": 1, "more": 5}
