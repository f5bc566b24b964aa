"""A rule of severity error rejects a record; one of severity warning lets it pass and is counted."""

from datetime import date
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
