"""A rule of severity error rejects a record; one of severity warning lets it pass and is counted."""

from datetime import date, timedelta
from pathlib import Path

from stream_assets.settings import Settings
from tests.documents import bend, contract, document
from tests.lakes import as_lines, deliver, land_days, ledger, refine_days, rows

DAY = date(2025, 3, 9)


def test_a_warning_is_counted_and_the_record_accepted(lake: Settings, spark, tmp_path: Path) -> None:
    law = contract(tmp_path, bend(document(), "schema.0.quality.0.severity", "warning"))
    records = [{"reading_id": f"r{n}", "taken_at": f"{DAY}T10:00:00Z", "pieces": n - 1} for n in range(3)]
    deliver(lake, f"readings/{DAY}/part.jsonl", as_lines(records))
    land_days(spark, lake, law, DAY)
    refine_days(spark, lake, law, DAY)
    assert len(rows(lake, "silver", "readings")) == 3
    entry = ledger(lake, "silver", "readings")[str(DAY)]
    assert entry["warnings"] == {"consistency__record__pieces_positive": 1}
    assert entry["violations"] == {}


def test_a_sampled_rule_looks_at_its_fraction_and_always_at_the_same_records(
    lake: Settings, spark, tmp_path: Path
) -> None:
    """Every record breaks the rule: the share that is rejected is the share that was looked at."""
    sampled = [{"check": "consistency__record__pieces_positive", "strictness": "sample", "fraction": 0.2}]
    law = contract(tmp_path, document(checks=sampled))
    records = [{"reading_id": f"r{n}", "taken_at": f"{DAY}T10:00:00Z", "pieces": -1} for n in range(2_000)]
    deliver(lake, f"readings/{DAY}/part.jsonl", as_lines(records))
    land_days(spark, lake, law, DAY)
    refine_days(spark, lake, law, DAY)
    rejected = {row["_position"] for row in rows(lake, "quarantine", "readings")}
    assert 300 < len(rejected) < 500
    deliver(lake, f"readings/{DAY}/part.jsonl", as_lines(records) + "\n")
    land_days(spark, lake, law, DAY)
    refine_days(spark, lake, law, DAY)
    assert {row["_position"] for row in rows(lake, "quarantine", "readings")} == rejected | {2_001}


def test_a_contract_may_quarantine_records_with_unknown_fields(lake: Settings, spark, tmp_path: Path) -> None:
    law = contract(tmp_path, document(schemaDrift="quarantine_row"))
    known = {"reading_id": "a", "taken_at": f"{DAY}T10:00:00Z"}
    deliver(lake, f"readings/{DAY}/part.jsonl", as_lines([known, known | {"reading_id": "b", "colour": "red"}]))
    land_days(spark, lake, law, DAY)
    refine_days(spark, lake, law, DAY)
    assert [row["reading_id"] for row in rows(lake, "silver", "readings")] == ["a"]
    assert [row["_violations"] for row in rows(lake, "quarantine", "readings")] == [["validity__record__unknown_field"]]
    assert ledger(lake, "silver", "readings")[str(DAY)]["new_columns"] == ["colour"]


def test_less_lateness_than_before_loses_nothing(lake: Settings, spark, tmp_path: Path) -> None:
    """What came late while the contract allowed it is judged anew, and quarantined: not forgotten."""
    before, after = (contract(tmp_path / str(days), document(maxLateness=days)) for days in (2, 0))
    late = {"reading_id": "late", "taken_at": f"{DAY}T10:00:00Z"}
    deliver(lake, f"readings/{DAY + timedelta(days=2)}/part.jsonl", as_lines([late]))
    land_days(spark, lake, before, DAY + timedelta(days=2))
    refine_days(spark, lake, before, DAY)
    assert len(rows(lake, "silver", "readings")) == 1
    refine_days(spark, lake, after, DAY)
    assert rows(lake, "silver", "readings") == []
    assert [row["_violations"] for row in rows(lake, "quarantine", "readings")] == [["validity__taken_at__window"]]
