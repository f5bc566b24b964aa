"""Which conditions hold, from what was observed and what is open."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stream_assets.ops.alerts.conditions import (
    CheckOutcome,
    RunOutcome,
    check_conditions,
    check_kind,
    freshness_conditions,
    resource_conditions,
    run_conditions,
    used_resources,
)
from stream_assets.ops.alerts.incidents import Condition, Incident

NOW = datetime(2026, 11, 16, tzinfo=UTC)
BAD = CheckOutcome("silver/orders", "validity__table__warnings", False, "warning", "none", "3 times")


def opened(conditions: list[Condition]) -> dict[str, Incident]:
    return {c.key: Incident(c, NOW, NOW, c.severity) for c in conditions}


def run(*, failed: str = "", succeeded: str = "", days: str = "") -> RunOutcome:
    owners = {"silver/orders": ("team:commerce",)}
    return RunOutcome(
        "run-1", frozenset(days.split()), dict.fromkeys(failed.split(), "Oops"), frozenset(succeeded.split()), owners
    )


def test_a_failed_check_is_held_until_it_passes() -> None:
    held = check_conditions({}, [BAD], {"silver/orders"})
    assert [c.key for c in held] == ["check:silver/orders:validity__table__warnings"]
    assert check_conditions(opened(held), [], {"silver/orders"}) == held
    assert check_conditions(opened(held), [replace(BAD, passed=True)], {"silver/orders"}) == []


def test_the_last_word_of_a_check_counts_and_hearing_it_twice_changes_nothing() -> None:
    news = [BAD, replace(BAD, passed=True), replace(BAD, found="7 times")]
    once = check_conditions({}, news, {"silver/orders"})
    assert [c.found for c in once] == ["7 times"]
    assert check_conditions(opened(once), news, {"silver/orders"}) == once


def test_an_asset_that_is_gone_takes_its_incidents_along() -> None:
    assert check_conditions(opened(check_conditions({}, [BAD], {"silver/orders"})), [], {"silver/stores"}) == []


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        ("validity__schema__drift", "drift"),
        ("freshness__table__event_time", "freshness"),
        ("not_null_orders", "check"),
    ],
)
def test_each_check_has_its_runbook(check: str, kind: str) -> None:
    assert check_kind(check) == kind


def test_failed_days_stay_until_each_was_built() -> None:
    """A later day that succeeds does not repair an earlier one."""
    held = run_conditions({}, [run(failed="silver/orders", days="2026-11-01 2026-11-02")])
    assert (held[0].owners, held[0].severity) == (("team:commerce",), "error")
    held = run_conditions(opened(held), [run(succeeded="silver/orders", days="2026-11-02 2026-11-03")])
    assert held[0].partitions == ("2026-11-01",)
    assert run_conditions(opened(held), [run(succeeded="silver/orders", days="2026-11-01")]) == []


def test_many_failed_runs_of_one_asset_are_one_condition() -> None:
    news = [run(failed="silver/orders", days=f"2026-11-{day:02}") for day in range(1, 25)]
    held = run_conditions({}, news)
    assert [len(c.partitions) for c in held] == [24]
    assert run_conditions(opened(held), news) == held


def test_a_run_without_days_is_repaired_by_the_next_that_succeeds() -> None:
    held = run_conditions({}, [run(failed="whole_day")])
    assert run_conditions(opened(held), [run(succeeded="whole_day")]) == []


def test_freshness_is_told_where_it_begins() -> None:
    parents = {"silver/orders": {"bronze/orders"}, "gold/fct": {"silver/orders"}, "bronze/orders": set()}
    stale = {"bronze/orders": "error", "silver/orders": "error", "gold/fct": "warning"}
    assert [c.subject for c in freshness_conditions(stale, parents, {})] == ["bronze/orders"]


def test_a_worse_asset_below_is_told_too() -> None:
    stale = {"bronze/orders": "warning", "silver/orders": "error"}
    found = freshness_conditions(stale, {"silver/orders": {"bronze/orders"}}, {})
    assert {c.subject: c.severity for c in found} == stale


@pytest.mark.parametrize(
    ("percent", "severity"), [(79.9, None), (80.0, "warning"), (94.9, "warning"), (95.0, "critical")]
)
def test_resources_warn_at_80_and_are_critical_at_95(percent: float, severity: str | None) -> None:
    found = resource_conditions({}, {"disk": percent})
    assert [c.severity for c in found] == ([severity] if severity else [])


def test_a_resource_that_swings_around_its_limit_is_one_incident() -> None:
    held: list[Condition] = []
    for percent in (81, 79, 80, 78, 82):
        held = resource_conditions(opened(held), {"memory": percent})
        assert [c.severity for c in held] == ["warning"]
    assert resource_conditions(opened(held), {"memory": 74.9}) == []


def test_resources_are_read_even_before_home_exists(tmp_path: Path) -> None:
    used = used_resources(tmp_path / "not" / "yet")
    assert used.keys() == {"disk", "memory"}
    assert all(0 <= percent <= 100 for percent in used.values())
