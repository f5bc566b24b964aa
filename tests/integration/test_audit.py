"""Write, audit, publish: a day whose gate fails is seen by no reader, can be looked at, and is published once it is mended."""

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from stream_assets.build import build_defs
from stream_assets.contracts.model import Contract
from stream_assets.ops.run import run_range
from stream_assets.settings import Settings
from tests.documents import contract, document, write
from tests.lakes import as_lines, contents, deliver, land_days, ledger, refine_days, rows, version

DAY, NEXT = date(2025, 3, 9), date(2025, 3, 10)
STRICT = [{"check": "validity__table__rejected_share", "strictness": "gate", "limit": 0.1}]


def strict(**custom: Any) -> dict[str, Any]:
    return document(checks=STRICT, **custom)


def reading(key: str, day: date, pieces: int = 1, **more: Any) -> dict[str, Any]:
    return {"reading_id": key, "taken_at": f"{day}T10:00:00Z", "pieces": pieces, **more}


def good(day: date) -> str:
    return as_lines(reading(f"{day}-{n}", day) for n in range(10))


def bad(day: date) -> str:
    """A delivery of which three records in ten break a rule."""
    return as_lines(reading(f"{day}-{n}", day, pieces=-1 if n < 3 else 7) for n in range(10))


def bring(lake: Settings, spark: Any, law: Contract, day: date, content: str, *others: date) -> Any:
    deliver(lake, f"readings/{day}/part.jsonl", content)
    land_days(spark, lake, law, day)
    return refine_days(spark, lake, law, day, *others)


def test_a_bad_delivery_leaves_silver_as_it_was_until_it_is_mended(lake: Settings, spark, tmp_path: Path) -> None:
    """Through Dagster, as people run it: the step fails, what is below is stopped, and the message says where to look."""
    shop = replace(lake, contracts=tmp_path / "contracts", dbt_project=tmp_path / "none")
    write(shop.contracts, strict())
    law = contract(tmp_path, strict())
    bring(lake, spark, law, DAY, good(DAY))
    before, seen = version(lake, "silver", "readings"), contents(lake, "silver", "readings")
    deliver(lake, f"readings/{DAY}/part.jsonl", bad(DAY))
    deliver(lake, f"readings/{NEXT}/part.jsonl", good(NEXT))
    done = run_range(shop, build_defs(shop), DAY, NEXT, select=None, report=lambda *_: None)
    assert done.status == "failure"
    assert [gate["check"] for gate in done.failed_gates] == ["validity__table__rejected_share"]
    assert str(DAY) in done.errors[0]["error"]
    assert lake.table_path("audit", "readings") in done.errors[0]["error"]
    # The day beside it was published, in one commit that says nothing of the bad one.
    assert version(lake, "silver", "readings") == before + 1
    assert [row for row in contents(lake, "silver", "readings") if str(NEXT) not in row] == seen
    assert len(rows(lake, "silver", "readings")) == 20
    assert rows(lake, "quarantine", "readings") == []
    attempt = rows(lake, "audit", "readings")
    assert len(attempt) == 10
    assert sum(row["_violations"] is not None for row in attempt) == 3
    verdict = ledger(lake, "audit", "readings")[str(DAY)]["failed_gates"]
    assert "30.00%" in verdict["validity__table__rejected_share"]
    mended = as_lines(reading(f"{DAY}-{n}", DAY, pieces=7) for n in range(10))
    assert bring(lake, spark, law, DAY, mended).withheld == {}
    assert {row["pieces"] for row in rows(lake, "silver", "readings") if row["_event_date"] == DAY} == {7}
    assert rows(lake, "audit", "readings") == []


def test_a_first_day_that_fails_is_not_seen_at_all(lake: Settings, spark, tmp_path: Path) -> None:
    law = contract(tmp_path, document(schemaDrift="freeze"))
    withheld = bring(lake, spark, law, DAY, as_lines([reading("a", DAY, colour="red")])).withheld
    assert [*withheld[str(DAY)]["failed_gates"]] == ["validity__schema__drift"]
    assert rows(lake, "silver", "readings") == []
    # The verdict is not forgotten, nor does looking again publish it.
    assert [*refine_days(spark, lake, law, DAY).withheld] == [str(DAY)]
    assert rows(lake, "silver", "readings") == []


@pytest.mark.parametrize("kind", ["entity", "reference"])
def test_what_a_withheld_delivery_says_of_an_entity_reaches_no_reader(
    kind: str, lake: Settings, spark, tmp_path: Path
) -> None:
    """Not even when a later delivery touches the same keys and their timeline is computed anew."""
    law = contract(tmp_path, strict(datasetKind=kind, maxLateness=2, minKeep=0.1))
    bring(lake, spark, law, DAY, good(DAY))
    middle, last = DAY + timedelta(days=1), DAY + timedelta(days=2)
    wrong = as_lines(reading(f"{DAY}-{n}", middle, pieces=-1 if n < 3 else 666) for n in range(10))
    assert [*bring(lake, spark, law, middle, wrong).withheld] == [str(middle)]
    assert {row["pieces"] for row in rows(lake, "silver", "readings")} == {1}
    later = as_lines(reading(f"{DAY}-{n}", last, pieces=3) for n in range(10))
    assert bring(lake, spark, law, last, later).withheld == {}
    assert {row["pieces"] for row in rows(lake, "silver", "readings")} == ({1, 3} if kind == "entity" else {3})
