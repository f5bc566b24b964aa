"""From conditions to receivers: nothing lost, nothing told twice, in order, whatever breaks on the way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from stream_assets.ops.alerts.channels import build_channels
from stream_assets.ops.alerts.deliver import BREAKER, LONGEST_PAUSE, after_failure, deliver, is_open
from stream_assets.ops.alerts.incidents import Condition
from stream_assets.ops.alerts.message import Alert
from stream_assets.ops.alerts.outbox import Health, Outbox
from stream_assets.settings import Settings

from .conftest import HttpReceiver

Configure = Callable[..., Settings]
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
FAILED = Condition("check", "silver/orders", "r", "warning", "", "")


def failures(count: int) -> list[Condition]:
    return [replace(FAILED, subject=f"silver/d{n:03}") for n in range(count)]


@dataclass
class Watchman:
    """Records and delivers as the sensor does, at a time of his own."""

    settings: Settings
    now: datetime = NOON

    @property
    def outbox(self) -> Outbox:
        return Outbox(self.settings.home)

    def look(self, *conditions: Condition) -> list[Alert]:
        channels = build_channels(self.settings.alerts)
        told = self.outbox.record(conditions, self.settings.alerts, channels=channels, now=self.now)
        deliver(self.outbox, channels, lambda: self.now)
        return told

    def wait(self, **span: float) -> Watchman:
        self.now += timedelta(**span)
        return self


@pytest.fixture
def watchman(configure: Configure, receiver: HttpReceiver) -> Watchman:
    return Watchman(configure(STREAM_ALERT_WEBHOOK_URL=receiver.url))


def news(receiver: HttpReceiver) -> list[str]:
    return [document["news"] for document in receiver.documents]


def test_one_alert_under_fifty_evaluations_and_one_recovery(watchman: Watchman, receiver: HttpReceiver) -> None:
    for _ in range(50):
        watchman.look(FAILED)
    for _ in range(3):
        watchman.look()
    assert news(receiver) == ["opened", "recovered"]
    assert len(set(receiver.ids)) == 2


def test_reminder_and_escalation_arrive(watchman: Watchman, receiver: HttpReceiver) -> None:
    watchman.look(FAILED)
    watchman.wait(hours=24).look(FAILED)
    watchman.wait(minutes=1).look(replace(FAILED, severity="error"))
    assert news(receiver) == ["opened", "reminder", "escalated"]


def test_the_reminder_interval_is_a_setting(configure: Configure, receiver: HttpReceiver) -> None:
    watchman = Watchman(configure(STREAM_ALERT_WEBHOOK_URL=receiver.url, STREAM_ALERT_REMIND_HOURS="1"))
    for _ in range(5):
        watchman.look(FAILED)
        watchman.wait(minutes=30)
    assert news(receiver) == ["opened", "reminder", "reminder"]


def test_quiet_hours_hold_warnings_back_and_let_errors_through(configure: Configure, receiver: HttpReceiver) -> None:
    watchman = Watchman(configure(STREAM_ALERT_WEBHOOK_URL=receiver.url, STREAM_ALERT_QUIET_HOURS="22:00-07:00"))
    watchman.wait(hours=11)
    error = replace(FAILED, subject="silver/stores", severity="error")
    watchman.look(FAILED, error)
    assert [document["asset"] for document in receiver.documents] == ["silver/stores"]
    watchman.wait(hours=8).look(FAILED, error)
    assert [document["asset"] for document in receiver.documents] == ["silver/stores", "silver/orders"]


def test_a_warning_that_became_an_error_at_night_is_told_once_as_an_error(
    configure: Configure, receiver: HttpReceiver
) -> None:
    watchman = Watchman(configure(STREAM_ALERT_WEBHOOK_URL=receiver.url, STREAM_ALERT_QUIET_HOURS="22:00-07:00"))
    worse = replace(FAILED, severity="error")
    watchman.wait(hours=11).look(FAILED)
    watchman.wait(hours=1).look(worse)
    watchman.wait(hours=8).look(worse)
    assert [(d["news"], d["severity"]) for d in receiver.documents] == [("escalated", "error")]


def test_a_channel_that_was_down_gets_everything_in_order(watchman: Watchman, receiver: HttpReceiver) -> None:
    receiver.status = 500
    told = [alert for n in range(1, 6) for alert in watchman.wait(minutes=1).look(*failures(n))]
    assert (receiver.got, len(told)) == ([], 5)
    receiver.status = 200
    watchman.wait(hours=1).look(*failures(5))
    assert receiver.ids == [alert.id for alert in told]
    assert watchman.outbox.backlog() == {}


def test_a_channel_that_is_down_does_not_hold_up_the_others(watchman: Watchman, receiver: HttpReceiver) -> None:
    receiver.status = 500
    watchman.look(FAILED)
    assert len(watchman.settings.alerts.file.read_text().splitlines()) == 1


def test_pauses_grow_and_the_breaker_opens() -> None:
    health, pauses = Health(), []
    for _ in range(7):
        health = after_failure(health, NOON, "down")
        pauses.append((health.retry_at or NOON) - NOON)
    assert [pause.total_seconds() for pause in pauses[:4]] == [20, 40, 80, 160]
    assert pauses[4:] == [LONGEST_PAUSE] * 3
    assert is_open(health)


def test_an_open_breaker_tries_one_alert_per_pause_and_closes_with_the_first_that_arrives(
    watchman: Watchman, receiver: HttpReceiver
) -> None:
    receiver.status = 503
    while not is_open(watchman.outbox.health("webhook")):
        watchman.wait(minutes=5).look(*failures(3))
    assert receiver.tries == BREAKER
    for _ in range(20):
        watchman.wait(seconds=30).look(*failures(3))
    assert receiver.tries == BREAKER
    watchman.wait(minutes=6).look(*failures(3))
    assert receiver.tries == BREAKER + 1
    receiver.status = 200
    watchman.wait(minutes=16).look(*failures(3))
    assert (len(receiver.got), watchman.outbox.health("webhook")) == (3, Health())


def test_routes_decide_who_gets_it(configure: Configure, receiver: HttpReceiver) -> None:
    env = {"STREAM_ALERT_WEBHOOK_URL": receiver.url, "STREAM_ALERT_ROUTES": "warning=file, team:finance=webhook"}
    watchman = Watchman(configure(**env))
    watchman.look(FAILED, replace(FAILED, subject="silver/payments", owners=("team:finance",)))
    assert [document["asset"] for document in receiver.documents] == ["silver/payments"]


def test_what_is_old_is_forgotten(watchman: Watchman) -> None:
    watchman.look(FAILED)
    watchman.look()
    watchman.wait(days=100).look()
    assert watchman.outbox.waiting("webhook", watchman.now) == []


DELIVERER = """
import sys
from stream_assets.ops.alerts.channels import build_channels
from stream_assets.ops.alerts.deliver import deliver
from stream_assets.ops.alerts.outbox import Outbox
from stream_assets.settings import Settings
settings = Settings.from_env()
outbox = Outbox(settings.home)
print("ready", flush=True)
sys.stdin.readline()
while outbox.backlog():
    deliver(outbox, build_channels(settings.alerts))
"""


def deliverer(settings: Settings, receiver: HttpReceiver) -> subprocess.Popen[str]:
    """A process that has loaded everything and waits for a word to begin."""
    process = subprocess.Popen(
        [sys.executable, "-c", DELIVERER],
        env={**os.environ, **settings.to_env(), "STREAM_ALERT_WEBHOOK_URL": receiver.url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == "ready\n"
    return process


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def queue(settings: Settings, count: int) -> list[str]:
    """Put alerts in line without sending them."""
    alerts = Outbox(settings.home).record(
        failures(count), settings.alerts, channels=build_channels(settings.alerts), now=NOON
    )
    return [alert.id for alert in alerts]


def test_killed_while_delivering_every_alert_arrives_under_its_own_id(
    watchman: Watchman, receiver: HttpReceiver
) -> None:
    """Kill -9 at random moments: at least once, in order, and at most one repeated per kill."""
    ids = queue(watchman.settings, 60)
    chance, kills = random.Random(7), 4
    for _ in range(kills):
        process, before = deliverer(watchman.settings, receiver), len(receiver.got)
        goal = before + chance.randint(1, 12)
        begin(process)
        while len(receiver.got) < goal and process.poll() is None:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    last = deliverer(watchman.settings, receiver)
    begin(last)
    assert last.wait(timeout=60) == 0
    assert list(dict.fromkeys(receiver.ids)) == ids
    assert len(receiver.ids) <= len(ids) + kills


def test_two_processes_at_once_send_each_alert_once(watchman: Watchman, receiver: HttpReceiver) -> None:
    ids = queue(watchman.settings, 40)
    processes = [deliverer(watchman.settings, receiver) for _ in range(2)]
    for process in processes:
        begin(process)
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    assert receiver.ids == ids


RECORDER = """
from datetime import UTC, datetime
from stream_assets.ops.alerts.incidents import Condition
from stream_assets.ops.alerts.outbox import Outbox
from stream_assets.settings import Settings
settings = Settings.from_env()
condition = Condition("check", "silver/orders", "r", "warning", "", "")
print("ready", flush=True)
for n in range(10_000):
    found = [condition] if n % 2 == 0 else []
    Outbox(settings.home).record(found, settings.alerts, channels=["file"], now=datetime.now(UTC))
    if n == 2: print("under way", flush=True)
"""


def test_killed_while_recording_incident_and_alert_agree(configure: Configure) -> None:
    """An incident without its alert, or an alert without its incident, would be lost or told twice."""
    settings = configure()
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", RECORDER], env={**os.environ, **settings.to_env()}, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "under way\n"]
        process.send_signal(signal.SIGKILL)
        process.wait()
        outbox = Outbox(settings.home)
        told = [alert.news for alert in outbox.waiting("file", datetime.now(UTC))]
        assert told == ["opened", "recovered"] * (len(told) // 2) + ["opened"] * len(outbox.incidents())
