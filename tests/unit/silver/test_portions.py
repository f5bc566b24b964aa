"""How many days are refined together: no more than fit into memory, in order, and none twice."""

from datetime import date, timedelta
from pathlib import Path

import pytest

from stream_assets.silver import refine
from tests.documents import contract, document

DAYS = [date(2025, 3, 1) + timedelta(days=n) for n in range(5)]
LANDED = {day.isoformat(): {"rows_in": rows} for day, rows in zip(DAYS, (40, 50, 30, 200, 5), strict=True)}


@pytest.fixture(autouse=True)
def _hundred_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refine, "ROWS_AT_ONCE", 100)


def test_days_of_events_are_refined_in_portions(tmp_path: Path) -> None:
    """A portion has as many days as fit, and at least one, however large that is."""
    found = refine.portions(LANDED, contract(tmp_path), DAYS)
    assert found == [DAYS[:2], DAYS[2:3], DAYS[3:4], DAYS[4:]]


def test_days_without_a_delivery_go_along(tmp_path: Path) -> None:
    """A day that nothing was delivered on is refined too: records that came late may belong to it."""
    assert refine.portions({}, contract(tmp_path), DAYS) == [DAYS]


@pytest.mark.parametrize("kind", ["entity", "reference"])
def test_days_that_depend_on_each_other_stay_together(kind: str, tmp_path: Path) -> None:
    """Versions of an entity are ranked across deliveries, and of reference data the latest delivery wins."""
    assert refine.portions(LANDED, contract(tmp_path, document(datasetKind=kind)), DAYS) == [DAYS]
