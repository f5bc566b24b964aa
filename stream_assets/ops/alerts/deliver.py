"""Hands alerts over to their channels: oldest first, each channel on its own, one process at a time.

A channel that fails is left alone for longer and longer, and its alerts wait in order. After some failures in a row its
breaker is open: one alert is tried after each pause, and the first that arrives closes it. Nothing sleeps here: the
sensor comes back every half minute and asks again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from filelock import FileLock, Timeout

from stream_assets.errors import ChannelError
from stream_assets.ops.alerts.channels import Channel, build_channels
from stream_assets.ops.alerts.message import Alert, notice_of_test
from stream_assets.ops.alerts.outbox import Health, Outbox
from stream_assets.settings import AlertSettings

FIRST_PAUSE = timedelta(seconds=20)
LONGEST_PAUSE = timedelta(minutes=15)
BREAKER = 5
"""Failures in a row that open the breaker."""
BUDGET = 8.0
"""Seconds one channel may take in one go."""

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The present, in UTC."""
    return datetime.now(UTC)


def is_open(health: Health) -> bool:
    """Whether the breaker of a channel is open."""
    return health.failures >= BREAKER


def after_failure(health: Health, now: datetime, problem: str) -> Health:
    """The state of a channel that failed once more: pauses double, and an open breaker waits the longest."""
    failures = health.failures + 1
    pause = LONGEST_PAUSE if failures >= BREAKER else min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE)
    return Health(failures, now + pause, problem)


def deliver(outbox: Outbox, channels: Mapping[str, Channel], clock: Clock = utc_now) -> dict[str, int]:
    """Send what waits. Returns how many alerts each channel took; nothing if another process is at it."""
    outbox.folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(outbox.folder / "deliver.lock", timeout=0):
            return {name: _drain(outbox, name, channel, clock) for name, channel in channels.items()}
    except Timeout:
        return {}


def _drain(outbox: Outbox, name: str, channel: Channel, clock: Clock) -> int:
    """Send one channel's alerts in order, until none waits, one fails or the time is up."""
    health, sent, until = outbox.health(name), 0, time.monotonic() + BUDGET
    if health.retry_at and clock() < health.retry_at:
        return 0
    for alert in outbox.waiting(name, clock()):
        try:
            channel(alert)
        except ChannelError as error:
            outbox.mark_failed(name, after_failure(outbox.health(name), clock(), str(error)))
            break
        outbox.mark_sent(alert, name, clock())
        sent += 1
        if time.monotonic() > until:
            break
    return sent


def try_channels(settings: AlertSettings) -> dict[str, str]:
    """Send a test alert to every channel, past the outbox. Returns what was wrong with each, nothing if it took it."""
    alert = Alert.of(notice_of_test(utc_now()))
    return {name: _problem(channel, alert) for name, channel in build_channels(settings).items()}


def _problem(channel: Channel, alert: Alert) -> str:
    try:
        channel(alert)
    except ChannelError as error:
        return str(error)
    return ""
