"""Who gets an alert, and when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from stream_assets.errors import SettingsError
from stream_assets.ops.alerts.incidents import Condition
from stream_assets.ops.alerts.routing import channels_for, held_until
from stream_assets.settings import Settings

WARNING = Condition("check", "silver/orders", "r", "warning", "", "", owners=("team:commerce", "owner@example.com"))
ERROR = replace(WARNING, severity="error")
ALL = ("file", "slack", "webhook", "email")


def alerts(**env: str):
    return Settings.from_env({f"STREAM_ALERT_{name}": value for name, value in env.items()}).alerts


def test_without_rules_everything_goes_to_all() -> None:
    assert channels_for(WARNING, {}, ALL) == ALL


def test_rules_by_severity_and_owner_add_up_and_the_file_gets_everything() -> None:
    routes = alerts(ROUTES="warning=slack, error=slack+webhook, team:commerce=email").routes
    assert channels_for(WARNING, routes, ALL) == ("file", "slack", "email")
    assert channels_for(replace(ERROR, owners=()), routes, ALL) == ("file", "slack", "webhook")
    assert channels_for(replace(ERROR, owners=(), severity="critical"), routes, ALL) == ALL


def test_a_channel_that_is_not_configured_gets_nothing() -> None:
    assert channels_for(WARNING, {"warning": ("slack",)}, ("file",)) == ("file",)


@pytest.mark.parametrize(
    ("hours", "now", "until"),
    [
        ("22:00-07:00", "2026-11-16T23:00", "2026-11-17T07:00"),
        ("22:00-07:00", "2026-11-16T06:59", "2026-11-16T07:00"),
        ("22:00-07:00", "2026-11-16T07:00", None),
        ("22:00-07:00", "2026-11-16T12:00", None),
        ("12:00-13:30", "2026-11-16T12:00", "2026-11-16T13:30"),
        ("22:00-07:00 America/New_York", "2026-11-16T03:30", "2026-11-16T12:00"),
        ("", "2026-11-16T23:00", None),
    ],
)
def test_warnings_wait_for_the_end_of_quiet_hours(hours: str, now: str, until: str | None) -> None:
    quiet = alerts(QUIET_HOURS=hours).quiet_hours
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    expected = datetime.fromisoformat(until).replace(tzinfo=UTC) if until else None
    assert held_until(WARNING, quiet, moment) == expected
    assert held_until(ERROR, quiet, moment) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("QUIET_HOURS", "late"),
        ("QUIET_HOURS", "22:00-07:00 Mars/Base"),
        ("ROUTES", "error=pigeon"),
        ("ROUTES", "eror=slack"),
        ("REMIND_HOURS", "soon"),
        ("SLACK_URL", "file:///etc/canary"),
        ("WEBHOOK_URL", "https://"),
        ("WEBHOOK_URL", "http://host:canary/"),
        ("SMTP_URL", "canary@host"),
        ("SMTP_URL", "smtp://user:canary@host:25"),
    ],
)
def test_a_setting_without_sense_is_refused_by_name_and_secrets_are_not_repeated(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match="STREAM_ALERT_") as refused:
        alerts(**{name: value})
    assert "canary" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_settings_survive_the_trip_through_the_environment() -> None:
    env = {"STREAM_ALERT_ROUTES": "error=slack+email", "STREAM_ALERT_QUIET_HOURS": "22:00-07:00 Europe/Paris"}
    settings = Settings.from_env({"STREAM_HOME": "/home", **env})
    assert Settings.from_env(settings.to_env()) == settings
