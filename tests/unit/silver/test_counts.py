"""What a day's ledger entry makes of the counts that the engine took."""

import math
from typing import Any

import pytest

from stream_assets.silver.conform import _add_up


def group(total: float, warnings: list[str] | None) -> dict[str, Any]:
    """A sound record of a day."""
    nothing = dict.fromkeys(("_violations", "new_columns", "newest_event", "first_name", "last_name"))
    return nothing | {"_warnings": warnings, "lag": 0, "rows": 1, "duplicates": 0, "sum:ratio": total}


@pytest.mark.parametrize(
    ("totals", "expected"),
    [((0.1, 0.2), 0.1 + 0.2), ((1.7e308, 1.7e308), math.inf), ((-1.7e308, -1.7e308), -math.inf)],
)
def test_a_sum_too_large_for_a_double_is_infinite(totals: tuple[float, float], expected: float) -> None:
    """Large values are no fault of a day: it is published, whatever their sum."""
    groups: Any = [group(totals[0], None), group(totals[1], ["some_rule"])]
    assert _add_up(groups, 0, [], ["ratio"])["sums"] == {"ratio": expected}


def test_infinite_sums_of_both_signs_have_no_sum() -> None:
    groups: Any = [group(math.inf, None), group(-math.inf, ["some_rule"])]
    assert math.isnan(_add_up(groups, 0, [], ["ratio"])["sums"]["ratio"])
