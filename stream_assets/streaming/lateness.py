"""Who came too late for which view, as SQL over the event log. What is late is put aside with its reason; it is in Bronze too."""

from __future__ import annotations

from datetime import timedelta

from stream_assets.contracts.model import Contract
from stream_assets.streaming.model import View

EARLY = timedelta(minutes=5)
"""How far a producer's clock may be ahead. An event dated later than that after its arrival must not push time forward."""

LATE_COLUMNS = {
    "_event_key": ("string", "Identity of the event."),
    "dataset": ("string", "Where it belongs."),
    "event_time": ("timestamp", "When it happened."),
    "watermark": ("timestamp", "What had closed when it came: windows that end by then."),
    "missed_windows": ("bigint", "How many of its windows had closed; 1 for views that have none."),
    "reason": ("string", "Why it is not in the view, or not in all of its windows."),
    "_source": ("string", "Where its record is in Bronze."),
    "_position": ("bigint", "Where its record is in that source."),
    "_delivery_date": ("date", "Day it was delivered."),
    "_ingested_at": ("timestamp", "When it arrived."),
}


def is_early(time: str) -> str:
    """SQL: an event dated after its own arrival."""
    return f"({time} > _ingested_at + {_interval(EARLY)})"


LateSql = tuple[str, tuple[str, ...]]
"""The condition for being late, and the columns of a late row."""


def late_sql(view: View, contract: Contract) -> LateSql:
    """What makes a late row of a view out of an event that knows its `_clock`."""
    time = str(contract.event_time)
    where, delay = view.side(contract.name)
    closed = f"(coalesce(_clock, timestamp'1970-01-01') - {_interval(delay)})"
    missed, early = missed_windows(view, time, closed), is_early(time)
    reason = (
        f"case when {early} then 'dated after its arrival' else 'came after the watermark: {missed_words(view)}' end"
    )
    columns = {
        "_event_key": "_event_key",
        "dataset": f"'{contract.name}'",
        "event_time": time,
        "watermark": closed,
        "missed_windows": f"cast(case when {early} then {view.window.overlap} else {missed} end as bigint)",
        "reason": reason,
    }
    listed = tuple(f"{columns.get(name, name)} as {name}" for name in LATE_COLUMNS)
    return f"(({where or 'true'}) and ({early} or {missed} > 0))", listed


def missed_words(view: View) -> str:
    """How a late event is explained."""
    if view.window.size:
        return f"missing some or all of its {view.window.overlap} window(s)"
    return "its session may be over" if view.kind == "session" else "its partner may be forgotten"


def missed_windows(view: View, time: str, closed: str) -> str:
    """SQL: how many of an event's windows had closed when it came."""
    if view.kind == "transform":
        return "0"
    if view.window.size is None:
        return f"cast({time} <= {closed} as int)"
    step = int(view.window.step.total_seconds()) * 1_000_000
    first_end = f"((unix_micros({time}) div {step} + 1) * {step})"
    missed = f"((unix_micros({closed}) - {first_end}) div {step} + 1)"
    return f"(case when unix_micros({closed}) < {first_end} then 0 else least({view.window.overlap}, {missed}) end)"


def _interval(span: timedelta) -> str:
    return f"interval {int(span.total_seconds())} seconds"
