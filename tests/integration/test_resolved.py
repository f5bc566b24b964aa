"""What became of rejected records is remembered, whoever writes quarantine and however often a day is refined."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from stream_assets.engine import delta
from stream_assets.settings import Settings
from tests.documents import contract
from tests.lakes import as_lines, deliver, land_days, refine_days, rows

DAY = date(2025, 3, 2)


def reading(key: str, pieces: int) -> dict[str, Any]:
    return {"reading_id": key, "taken_at": f"{DAY}T10:00:00Z", "pieces": pieces}


def quarantined(lake: Settings) -> dict[tuple[str, int], tuple[str | None, Any]]:
    """Place of each record in quarantine → what became of it, and when."""
    found = rows(lake, "quarantine", "readings")
    told = {(row["_source"], row["_position"]): (row["_resolution"], row["_resolved_at"]) for row in found}
    assert len(told) == len(found)
    return told


@pytest.mark.parametrize("is_small", [True, False], ids=["written by delta-rs", "written by Spark"])
def test_a_resolved_record_stays_resolved(
    is_small: bool, lake: Settings, spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rejected, then sound, then beside others that are rejected: its mark and the time of it do not change any more."""
    monkeypatch.setattr(delta.Size, "is_small", property(lambda _: is_small))
    law = contract(tmp_path)
    first, second = (f"readings/{DAY}/{name}.jsonl" for name in ("first", "second"))

    def refined() -> dict[tuple[str, int], tuple[str | None, Any]]:
        land_days(spark, lake, law, DAY)
        refine_days(spark, lake, law, DAY, again=True)
        return quarantined(lake)

    deliver(lake, first, as_lines([reading("a", -1), reading("b", -1), reading("c", 1)]))
    both_open = {(first, 1): (None, None), (first, 2): (None, None)}
    assert refined() == both_open
    assert refined() == both_open

    deliver(lake, first, as_lines([reading("a", -1), reading("b", 1), reading("c", 1)]))
    after = refined()
    fate, when = after[first, 2]
    assert after[first, 1] == (None, None)
    assert (fate, when is None) == ("accepted under 1.0.0", False)
    assert refined() == after

    deliver(lake, second, as_lines([reading("d", -1)]))
    assert refined() == {**after, (second, 1): (None, None)}

    deliver(lake, first, as_lines([reading("a", -1), reading("b", -1), reading("c", 1)]))
    assert refined() == {**both_open, (second, 1): (None, None)}
