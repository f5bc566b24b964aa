"""Which channels an alert goes to, and how long it is held back. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

from stream_assets.ops.alerts.incidents import Condition
from stream_assets.settings import QuietHours


def channels_for(
    condition: Condition, routes: Mapping[str, tuple[str, ...]], configured: Collection[str]
) -> tuple[str, ...]:
    """The channels of every rule that names the severity or an owner; all of them when no rule does. The file gets everything."""
    rules = [routes[who] for who in (condition.severity, *condition.owners) if who in routes]
    wanted = {"file"}.union(*rules) if rules else set(configured)
    return tuple(name for name in configured if name in wanted)


def held_until(condition: Condition, quiet: QuietHours | None, now: datetime) -> datetime | None:
    """When a warning of the quiet hours may go out; None if it may now."""
    if quiet is None or condition.severity != "warning" or not _is_quiet(quiet, now):
        return None
    local = now.astimezone(quiet.zone)
    end = datetime.combine(local.date(), quiet.end, quiet.zone)
    return (end if end > local else end + timedelta(days=1)).astimezone(UTC)


def _is_quiet(quiet: QuietHours, now: datetime) -> bool:
    clock = now.astimezone(quiet.zone).time()
    if quiet.start <= quiet.end:
        return quiet.start <= clock < quiet.end
    return clock >= quiet.start or clock < quiet.end
