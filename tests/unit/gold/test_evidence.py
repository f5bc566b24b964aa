"""How the rows of a failed test are shown."""

from datetime import date
from decimal import Decimal

import dagster as dg
import pytest

from stream_assets.gold.assets import _with_evidence
from stream_assets.gold.evidence import in_words, tell_row

LOST = {"day": date(2025, 3, 7), "measure": "total_cents", "expected": Decimal("12345.0000"), "found": Decimal("345.5")}


def test_the_first_row_is_told_in_words():
    """An alert and the report show one line."""
    assert tell_row(LOST) == "2025-03-07 total_cents: 12,345 expected, 345.5 found"


def test_a_table_without_days_has_none_to_tell():
    assert tell_row({**LOST, "day": None}) == "total_cents: 12,345 expected, 345.5 found"


def test_rows_of_any_other_test_are_told_by_column():
    assert tell_row({"order_id": "ord_1", "status": None}) == "order_id ord_1, status "


@pytest.mark.parametrize(("value", "text"), [(1200, "1,200"), (0.25, "0.25"), (-3.0, "-3"), (True, "True"), ("7", "7")])
def test_values_are_for_people(value, text):
    assert in_words(value) == text


def test_a_check_keeps_what_dbt_said():
    """The verdict, the severity and the metadata stay; the rows come on top."""
    told = dg.AssetCheckResult(
        passed=False,
        asset_key="fct",
        check_name="rule",
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"status": "warn"},
    )
    shown = _with_evidence(told, [LOST, LOST])
    assert (shown.passed, shown.severity, shown.asset_key) == (False, told.severity, told.asset_key)
    assert shown.metadata["status"] == dg.MetadataValue.text("warn")
    records = shown.metadata["failing rows"].records
    assert [record.data["expected"] for record in records] == ["12,345", "12,345"]
