"""Canary secrets through every path, the failing ones too: they are found nowhere but at their receiver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_assets.settings import FIELDS, SECRETS, Settings

from .conftest import HttpReceiver, Mailbox

STREAM = Path(sys.executable).with_name("stream")
CANARY = "canary-7f3a"


def stream(settings: Settings, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STREAM, "alerts", *args],
        env={**os.environ, **settings.to_env(), "COLUMNS": "250", **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def secrets(receiver: HttpReceiver, mailbox: Mailbox) -> dict[str, str]:
    """Every channel configured, with a canary in whatever is secret."""
    return {
        "STREAM_ALERT_SLACK_URL": f"{receiver.url}/{CANARY}",
        "STREAM_ALERT_WEBHOOK_URL": f"{receiver.url}/{CANARY}?key={CANARY}",
        "STREAM_ALERT_WEBHOOK_SECRET": CANARY,
        "STREAM_ALERT_SMTP_URL": f"smtp://{CANARY}:{CANARY}@{mailbox.address}",
        "STREAM_ALERT_EMAIL_FROM": "stream@example.com",
        "STREAM_ALERT_EMAIL_TO": "ops@example.com",
    }


def kept(home: Path) -> bytes:
    return b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())


def test_every_channel_that_works_is_named(
    configure: Callable[..., Settings], secrets: dict[str, str], receiver: HttpReceiver, mailbox: Mailbox
) -> None:
    settings = configure()
    done = stream(settings, "test", **secrets)
    assert (done.returncode, done.stdout.split()) == (0, ["✓", "file", "✓", "slack", "✓", "webhook", "✓", "email"])
    assert (len(receiver.got), len(mailbox.mails)) == (2, 1)
    seen = [str(receiver.got[1][1]), str(mailbox.mails[0]), done.stdout, done.stderr]
    assert not [text for text in seen if CANARY in text]


def test_channels_that_fail_are_named_with_the_reason_and_exit_1(
    configure: Callable[..., Settings], secrets: dict[str, str], receiver: HttpReceiver, mailbox: Mailbox
) -> None:
    receiver.status, mailbox.accepts_login = 500, False
    settings = configure()
    done = stream(settings, "test", **secrets)
    assert done.returncode == 1
    assert "✗ slack    the receiver answered HTTP 500" in done.stdout
    assert "✗ email    the mail server answered 535" in done.stdout
    listed = stream(settings, "list", "--json", **secrets)
    assert CANARY not in done.stdout + done.stderr + listed.stdout + listed.stderr
    assert CANARY.encode() not in kept(settings.home)


def test_settings_show_that_a_secret_is_set_and_not_which(tmp_path: Path, secrets: dict[str, str]) -> None:
    env = {**os.environ, "STREAM_HOME": str(tmp_path), **secrets}
    done = subprocess.run([STREAM, "settings"], env=env, capture_output=True, text=True, check=True, timeout=60)
    assert "(set)" in done.stdout
    assert "canary" not in done.stdout


def test_settings_as_text_and_as_environment_hold_no_secret(secrets: dict[str, str]) -> None:
    settings = Settings.from_env({**secrets, "STREAM_PII_SALT": CANARY})
    assert CANARY not in repr(settings) + str(settings) + str(settings.to_env()) + json.dumps(settings.to_env())


def test_every_secret_is_a_setting_and_says_so() -> None:
    assert FIELDS.keys() >= SECRETS
    assert all("secret" in FIELDS[name][1].lower() for name in SECRETS)
