"""What an incident is, and how it opens, worsens, is remembered and ends. Pure: no clock, no store, no Dagster.

A `Condition` is something wrong that holds now. An `Incident` is a condition since it was first seen. Each evaluation
gives all conditions that hold; `advance` compares them with the open incidents and says what people should be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from stream_assets.settings import SEVERITIES

Severity = Literal["warning", "error", "critical"]
Kind = Literal["check", "drift", "freshness", "run", "resource", "budget", "capture"]
News = Literal["opened", "escalated", "reminder", "recovered", "test"]


@dataclass(frozen=True)
class Condition:
    """Something wrong that holds now. It carries counts, days, names and keys that are nobody's, never other values."""

    kind: Kind
    subject: str
    """The asset (`silver/orders`), job or resource it is about."""
    rule: str
    """The check, policy or limit that does not hold."""
    severity: Severity
    expected: str
    found: str
    partitions: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    """As on the asset: `team:commerce` and the owner's address."""
    run_id: str = ""
    remedy: str = ""
    """The command that mends it, where building days again would not."""
    sample: tuple[str, ...] = ()
    """A few of the records that are wrong, by key or by place."""
    look: str = ""
    """The command that shows them."""

    @property
    def key(self) -> str:
        """Two conditions of one key are one incident."""
        return f"{self.kind}:{self.subject}:{self.rule}"


@dataclass(frozen=True)
class Incident:
    """A condition since it was first seen, and what people know of it."""

    condition: Condition
    opened_at: datetime
    told_at: datetime
    told_severity: Severity


@dataclass(frozen=True)
class Notice:
    """Something people should be told about an incident."""

    news: News
    condition: Condition
    opened_at: datetime
    at: datetime


Incidents = Mapping[str, Incident]
"""Open incidents by key."""


def is_worse(one: Severity, other: Severity) -> bool:
    """Whether the first severity is above the second."""
    return SEVERITIES.index(one) > SEVERITIES.index(other)


def advance(
    incidents: Incidents, conditions: Iterable[Condition], *, now: datetime, remind_after: timedelta | None
) -> tuple[dict[str, Incident], list[Notice]]:
    """Open incidents after an evaluation, and what is to be told: news first seen, then what is over."""
    found = _worst_by_key(conditions)
    after: dict[str, Incident] = {}
    notices: list[Notice] = []
    for key, condition in found.items():
        known = incidents.get(key)
        news = _news(known, condition, now, remind_after)
        opened_at = known.opened_at if known else now
        if news:
            notices.append(Notice(news, condition, opened_at, now))
            after[key] = Incident(condition, opened_at, told_at=now, told_severity=condition.severity)
        elif known:
            after[key] = replace(known, condition=condition)
    over = [known for key, known in incidents.items() if key not in found]
    notices += [Notice("recovered", known.condition, known.opened_at, now) for known in over]
    return after, notices


def _worst_by_key(conditions: Iterable[Condition]) -> dict[str, Condition]:
    worst: dict[str, Condition] = {}
    for condition in conditions:
        seen = worst.get(condition.key)
        if seen is None or is_worse(condition.severity, seen.severity):
            worst[condition.key] = condition
    return worst


def _news(known: Incident | None, condition: Condition, now: datetime, remind_after: timedelta | None) -> News | None:
    """What to tell of a condition that holds. A lesser severity is not news, and a return to the told one neither."""
    if known is None:
        return "opened"
    if is_worse(condition.severity, known.told_severity):
        return "escalated"
    return "reminder" if remind_after and now - known.told_at >= remind_after else None
