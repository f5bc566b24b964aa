"""Availability and error budgets: a simulated month with figures worked out by hand, and what must hold of any history."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_assets.sla.budget import POLICY, Budget, Span, Update, measure_budget, month_of, stale_spans
from stream_assets.sla.tiers import TIERS
from tests.documents import bend, contract, document

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
APRIL = month_of(date(2026, 4, 17))
START, END = APRIL.start, APRIL.end


def at(day: int, hour: float = 0) -> datetime:
    return datetime(2026, 4, day, tzinfo=UTC) + timedelta(hours=hour)


def hourly(first: datetime, last: datetime) -> list[Update]:
    """An update every hour whose newest event is a quarter of an hour old."""
    hours = int((last - first) / HOUR)
    return [Update(first + n * HOUR, first + n * HOUR - HOUR / 4) for n in range(hours)]


def measure(updates: list[Update], now: datetime, *, tier: int = 1, limit: timedelta = 2 * HOUR) -> Budget:
    return measure_budget(updates, limit=limit, tier=TIERS[tier], month=APRIL, now=now)


def outage(first: datetime, last: datetime) -> list[Update]:
    """A month of hourly updates without those between two moments."""
    return [update for update in hourly(START - DAY, END) if not first <= update.committed_at < last]


def test_a_month_without_incident_is_fully_available() -> None:
    found = measure(hourly(START - DAY, END), END)
    assert (found.availability, found.stale, found.state) == (1.0, timedelta(), "ok")
    assert found.measured == 30 * DAY
    assert found.allowed == found.remaining
    assert abs(found.allowed - timedelta(minutes=43.2)) < timedelta(milliseconds=1)


def test_a_month_with_an_outage_by_hand() -> None:
    """The update of 10:00 is the last before 16:00. Its newest event is of 09:45 and good until 11:45: stale for 4 h 15 min.

    Tier 3 may be stale for 1 % of 720 h, which is 7 h 12 min; 2 h 57 min are left.
    """
    found = measure(outage(at(10, 11), at(10, 16)), END, tier=3)
    assert found.stale == timedelta(hours=4, minutes=15)
    assert found.availability == pytest.approx(1 - 4.25 / 720)
    assert found.remaining / HOUR == pytest.approx(2.95)
    assert found.state == "ok"


def test_burn_rates_by_hand() -> None:
    """At 13:00 the dataset was stale since 11:45: the whole last hour, 1.25 of the last 6 and of the last 24 hours.

    Tier 3 allows 1 %: rates of 100, 1.25 / 6 / 0.01 = 20.8 and 1.25 / 24 / 0.01 = 5.2.
    """
    found = measure(outage(at(10, 11), at(10, 16)), at(10, 13), tier=3)
    assert [round(rate, 1) for rate in found.burn_rates.values()] == [100.0, 20.8, 5.2]
    assert (found.state, found.policy) == ("burning", POLICY["burning"])


def test_an_incident_that_is_over_does_not_burn() -> None:
    found = measure(outage(at(10, 11), at(10, 16)), at(10, 18), tier=3)
    assert found.burn_rates[HOUR] == 0
    assert found.burn_rates[DAY] > 3
    assert found.state == "ok"


def test_an_exhausted_budget_pages_and_freezes() -> None:
    """4 h 15 min are far more than the 43 minutes of tier 1."""
    found = measure(outage(at(10, 11), at(10, 16)), END)
    assert found.state == "exhausted"
    assert found.remaining / HOUR == pytest.approx(0.72 - 4.25)
    assert "Page" in found.policy and "backfills" in found.policy


def test_a_backfill_of_an_old_day_makes_nothing_fresh() -> None:
    """It commits now and brings events of then."""
    quiet = outage(at(10, 11), at(10, 16))
    backfill = Update(at(10, 14), at(3))
    assert measure([*quiet, backfill], END).stale == measure(quiet, END).stale


def test_an_event_from_the_future_counts_as_of_its_commit() -> None:
    """A clock that runs ahead must not hide that nothing arrives."""
    found = measure([Update(at(1), at(2))], at(1, 5))
    assert found.stale == 3 * HOUR


def test_the_first_update_starts_the_measurement() -> None:
    """A dataset that began on the 16th is judged by half a month; its budget is that of the month."""
    found = measure(hourly(at(16), END), END)
    assert (found.measured, found.availability) == (15 * DAY, 1.0)


def test_an_incident_of_last_month_goes_on_in_this_one() -> None:
    """Only the hours of this month are charged to it."""
    found = measure([Update(START - DAY, START - DAY), Update(at(1, 6), at(1, 6))], at(1, 7))
    assert (found.measured, found.stale) == (7 * HOUR, 6 * HOUR)


def test_without_updates_nothing_is_known() -> None:
    found = measure([], at(10))
    assert (found.availability, found.measured, found.state) == (None, timedelta(), "unknown")


def test_updates_after_now_are_not_known() -> None:
    assert measure(hourly(at(1), END), at(5)).measured == 4 * DAY


def test_a_daily_dataset_has_its_day(tmp_path: Path) -> None:
    """Delivered after midnight for the day before: the newest event is a day old when the next arrives, and that is fine."""
    limit = contract(tmp_path).freshness_limit
    assert limit == 3 * DAY
    nightly = [Update(at(day, 1), at(day)) for day in range(1, 30)]
    assert measure(nightly, at(30), limit=limit).availability == 1.0


def test_an_hourly_target_is_taken_as_it_is(tmp_path: Path) -> None:
    hours = bend(bend(document(cadence="1h"), "slaProperties.0.unit", "h"), "slaProperties.0.value", 2)
    assert contract(tmp_path, hours).freshness_limit == 2 * HOUR


@pytest.mark.parametrize(("day", "days"), [(date(2026, 2, 3), 28), (date(2028, 2, 29), 29), (date(2026, 12, 31), 31)])
def test_months_have_their_own_length(day: date, days: int) -> None:
    assert month_of(day).length == days * DAY


moments = st.integers(-2 * 24 * 60, 30 * 24 * 60).map(lambda minutes: START + timedelta(minutes=minutes))
ages = st.integers(-60, 5 * 24 * 60).map(lambda minutes: timedelta(minutes=minutes))
updates = st.builds(lambda moment, age: Update(moment, moment - age), moments, ages)
histories = st.lists(updates, max_size=25)
limits = st.integers(1, 3 * 24 * 60).map(lambda minutes: timedelta(minutes=minutes))


@given(histories, limits, moments, st.sampled_from([1, 2, 3]))
def test_figures_stay_in_their_bounds(history: list[Update], limit: timedelta, now: datetime, tier: int) -> None:
    found = measure(history, now, tier=tier, limit=limit)
    assert found.availability is None or 0 <= found.availability <= 1
    assert timedelta() <= found.stale <= found.measured <= APRIL.length
    assert all(rate >= 0 for rate in found.burn_rates.values())
    assert found.policy


@given(st.lists(updates, min_size=1, max_size=25), updates, limits, moments)
def test_more_updates_never_lower_availability(
    history: list[Update], more: Update, limit: timedelta, now: datetime
) -> None:
    """Knowing more after the first update can only make a dataset fresher."""
    first = min(history)
    more = Update(max(more.committed_at, first.committed_at), more.newest_event)
    assert measure([*history, more], now, limit=limit).stale <= measure(history, now, limit=limit).stale


@given(histories, limits, moments, moments)
def test_stale_is_exactly_when_the_definition_says_so(
    history: list[Update], limit: timedelta, now: datetime, moment: datetime
) -> None:
    """At any moment since the first update: stale if and only if the newest event known then is too old."""
    spans = list(stale_spans(history, limit, now))
    known = [min(u.newest_event, u.committed_at) for u in history if u.committed_at <= moment]
    if known and moment < now:
        is_stale = moment - max(known) > limit
        on_edge = moment - max(known) == limit
        assert on_edge or is_stale == any(span.start <= moment < span.end for span in spans)


@given(histories, limits, moments)
def test_stale_and_fresh_make_up_the_measured_time(history: list[Update], limit: timedelta, now: datetime) -> None:
    """Stale spans are in order and apart, and the gaps between them are the rest of the measured time."""
    found = measure(history, now, limit=limit)
    spans = [span.within(APRIL) for span in stale_spans(history, limit, now)]
    assert all(one.end <= other.start for one, other in pairwise(spans) if one.length and other.length)
    if history:
        measured = APRIL.within(Span(min(u.committed_at for u in history), now))
        edges = [
            measured.start,
            *[edge for span in spans if span.length for edge in (span.start, span.end)],
            measured.end,
        ]
        gaps = sum((Span(start, end).length for start, end in zip(edges[::2], edges[1::2], strict=True)), timedelta())
        assert gaps + found.stale == found.measured
