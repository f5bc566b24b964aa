"""One incident, one alert: under any number of evaluations people are told what is new, and only that."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stream_assets.ops.alerts.incidents import Condition, Incident, News, advance

START = datetime(2026, 11, 16, 12, tzinfo=UTC)
DAY = timedelta(days=1)
FAILED = Condition("check", "silver/orders", "validity__table__rejected_share", "warning", "few", "many")


def play(*evaluations: list[Condition], every: timedelta = timedelta(seconds=30)) -> list[tuple[int, News, str]]:
    """What is told at each evaluation, as (its number, news, severity)."""
    incidents: dict[str, Incident] = {}
    told = []
    for number, conditions in enumerate(evaluations):
        now = START + number * every
        incidents, notices = advance(incidents, conditions, now=now, remind_after=DAY)
        told += [(number, notice.news, notice.condition.severity) for notice in notices]
    return told


def test_one_alert_under_fifty_evaluations() -> None:
    assert play(*[[FAILED]] * 50) == [(0, "opened", "warning")]


def test_the_same_condition_twice_in_one_evaluation_is_one_incident_of_the_worse_severity() -> None:
    assert play([FAILED, replace(FAILED, severity="error"), FAILED]) == [(0, "opened", "error")]


def test_other_counts_of_the_same_incident_are_not_news() -> None:
    assert play([FAILED], [replace(FAILED, found="more", partitions=("2026-11-15",))]) == [(0, "opened", "warning")]


def test_recovery_is_told_once() -> None:
    assert play([FAILED], [], [], []) == [(0, "opened", "warning"), (1, "recovered", "warning")]


def test_a_return_after_recovery_is_a_new_incident() -> None:
    assert [news for _, news, _ in play([FAILED], [], [FAILED])] == ["opened", "recovered", "opened"]


def test_reminders_come_at_their_interval() -> None:
    told = play(*[[FAILED]] * 50, every=timedelta(hours=1))
    assert told == [(0, "opened", "warning"), (24, "reminder", "warning"), (48, "reminder", "warning")]


def test_reminders_can_be_off() -> None:
    incidents, _ = advance({}, [FAILED], now=START, remind_after=None)
    assert advance(incidents, [FAILED], now=START + 99 * DAY, remind_after=None)[1] == []


def test_a_worse_severity_is_told_again_and_a_swing_is_not() -> None:
    """Falling back is no news; nor is returning to what people already know."""
    worse = replace(FAILED, severity="critical")
    assert play([FAILED], [worse], [FAILED], [worse]) == [(0, "opened", "warning"), (1, "escalated", "critical")]


conditions = st.lists(
    st.builds(
        Condition,
        kind=st.sampled_from(["check", "run"]),
        subject=st.sampled_from(["a", "b"]),
        rule=st.just("r"),
        severity=st.sampled_from(["warning", "error"]),
        expected=st.just(""),
        found=st.just(""),
    ),
    max_size=4,
)


@given(st.lists(conditions, max_size=12))
def test_what_people_were_told_matches_what_is_open(evaluations: list[list[Condition]]) -> None:
    """Opened minus recovered is what holds, for any course of events; an evaluation repeated tells nothing."""
    incidents: dict[str, Incident] = {}
    believed: set[str] = set()
    for found in evaluations:
        incidents, notices = advance(incidents, found, now=START, remind_after=DAY)
        believed |= {n.condition.key for n in notices if n.news == "opened"}
        believed -= {n.condition.key for n in notices if n.news == "recovered"}
        assert believed == incidents.keys() == {condition.key for condition in found}
        assert advance(incidents, found, now=START, remind_after=DAY)[1] == []
