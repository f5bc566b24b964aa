"""Availability of a dataset and what is left of its error budget, from the history of its updates.

A dataset is available at a moment if the newest event known at that moment is within the freshness limit. What counts
is the age of the data and not when somebody last wrote: a backfill of an old day makes nothing fresh. Nothing is known
before the first update, so the measurement starts with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Literal

from stream_assets.sla.tiers import Tier

State = Literal["unknown", "ok", "burning", "exhausted"]

BURN_LIMITS = {timedelta(hours=1): 14.4, timedelta(hours=6): 6.0, timedelta(hours=24): 3.0}
"""Burn rates that are too high: each spends 2, 5 or 10 % of a 30-day budget within its window, as in the SRE Workbook."""

POLICY: dict[State, str] = {
    "unknown": "Nothing was measured yet.",
    "ok": "Carry on.",
    "burning": "Find the cause now: at this rate the budget does not last for the month.",
    "exhausted": "Page the owner. Freeze risky backfills and contract changes of this dataset until the month is over.",
}


@dataclass(frozen=True, order=True)
class Update:
    """A commit, and the newest event it brought."""

    committed_at: datetime
    newest_event: datetime


@dataclass(frozen=True)
class Span:
    """A stretch of time; empty if it does not end after it starts."""

    start: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return max(self.end - self.start, timedelta())

    def within(self, other: Span) -> Span:
        """The part of it that lies in another."""
        return Span(max(self.start, other.start), min(self.end, other.end))


@dataclass(frozen=True)
class Budget:
    """What a dataset did with its error budget in a month."""

    month: Span
    measured: timedelta
    """The part of the month that is over and known."""
    stale: timedelta
    allowed: timedelta
    """The whole budget of the month."""
    burn_rates: dict[timedelta, float]
    """Per window up to now: how many times faster than allowed the budget is spent."""

    @property
    def availability(self) -> float | None:
        """Share of the measured time in which the dataset was fresh; None if nothing was measured."""
        return 1 - self.stale / self.measured if self.measured else None

    @property
    def remaining(self) -> timedelta:
        """What is left to spend; negative if more was spent than there was."""
        return self.allowed - self.stale

    @property
    def state(self) -> State:
        """Burning needs a rate above its limit and something spent in the last hour: an incident that is over is over."""
        if not self.measured:
            return "unknown"
        if self.remaining <= timedelta():
            return "exhausted"
        is_spending = self.burn_rates[min(self.burn_rates)] > 0
        too_fast = any(rate >= BURN_LIMITS[window] for window, rate in self.burn_rates.items())
        return "burning" if is_spending and too_fast else "ok"

    @property
    def policy(self) -> str:
        """What people do about it."""
        return POLICY[self.state]


def measure_budget(updates: Sequence[Update], *, limit: timedelta, tier: Tier, month: Span, now: datetime) -> Budget:
    """The error budget of a month as it stands.

    Args:
        updates: Everything known of the dataset, in any order, older months included.
        limit: How old the newest event may be.
        tier: The service level, which gives the budget.
        month: See `month_of`.
        now: The moment of asking; later updates are not known yet.
    """
    spans = list(stale_spans(updates, limit, now))
    known = Span(min((update.committed_at for update in updates), default=now), now)
    return Budget(
        month,
        measured=month.within(known).length,
        stale=_total(spans, month),
        allowed=tier.budget(month.length),
        burn_rates={window: _burn_rate(spans, Span(now - window, now).within(known), tier) for window in BURN_LIMITS},
    )


def stale_spans(updates: Sequence[Update], limit: timedelta, now: datetime) -> Iterator[Span]:
    """When the newest known event was too old, from the first update to now, in order and without overlaps."""
    for known, following in pairwise([*_knowledge(updates, now), None]):
        if known:
            span = Span(
                max(known.committed_at, known.newest_event + limit), following.committed_at if following else now
            )
            if span.length:
                yield span


def _knowledge(updates: Sequence[Update], now: datetime) -> Iterator[Update]:
    """The newest event known after each update. An event dated later than its commit counts as of the commit."""
    newest: datetime | None = None
    for update in sorted(update for update in updates if update.committed_at <= now):
        event = min(update.newest_event, update.committed_at)
        newest = max(newest, event) if newest else event
        yield Update(update.committed_at, newest)


def _total(spans: Sequence[Span], window: Span) -> timedelta:
    return sum((span.within(window).length for span in spans), timedelta())


def _burn_rate(spans: Sequence[Span], window: Span, tier: Tier) -> float:
    """1 spends exactly the budget if it goes on for the whole month."""
    return _total(spans, window) / window.length / (1 - tier.availability) if window.length else 0.0


def month_of(day: date) -> Span:
    """The calendar month of a day, in UTC."""
    start = datetime(day.year, day.month, 1, tzinfo=UTC)
    return Span(start, (start + timedelta(days=32)).replace(day=1))
