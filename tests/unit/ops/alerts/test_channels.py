"""Every channel against a real receiver: what arrives, and what a failure says."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import ssl
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stream_assets.errors import ChannelError
from stream_assets.ops.alerts.channels import build_channels, file_channel
from stream_assets.ops.alerts.incidents import Condition
from stream_assets.ops.alerts.message import Alert
from stream_assets.settings import Settings

from .conftest import HttpReceiver, Mailbox

Configure = Callable[..., Settings]
AT = datetime(2026, 11, 16, 12, tzinfo=UTC)
ALERT = Alert(
    "opened",
    Condition(
        "check",
        "silver/orders",
        "validity__table__rejected_share",
        "error",
        "Few records break a validity rule.",
        "worst day 2026-11-14: 20% of <records>\nlimit 5%",
        partitions=("2026-11-14", "2026-11-15"),
        owners=("team:commerce", "commerce@example.com"),
        run_id="1234",
    ),
    AT,
    AT,
)


def test_an_alert_says_what_whose_where_and_how() -> None:
    found = ALERT.document()
    assert found["title"] == "silver/orders failed its check validity__table__rejected_share"
    assert (found["dataset"], found["severity"], found["rule"]) == ("orders", "error", ALERT.condition.rule)
    assert found["partitions"] == ["2026-11-14", "2026-11-15"]
    assert found["expected"] == "Few records break a validity rule."
    assert found["found"] == "worst day 2026-11-14: 20% of <records> limit 5%"
    assert found["owners"] == ["team:commerce", "commerce@example.com"]
    assert found["runbook"] == "docs/operations.md#alert-check"
    assert found["look"] == ["stream status", "/assets/silver/orders?view=checks", "/runs/1234"]
    assert found["repair"] == "stream run --from 2026-11-14 --to 2026-11-15 --select 'key:\"silver/orders\"+'"


def test_a_text_of_any_length_fits() -> None:
    long = replace(ALERT, condition=replace(ALERT.condition, found="x" * 10_000))
    assert len(long.document()["found"]) == 300


def test_file_gets_one_line_each(configure: Configure) -> None:
    settings = configure()
    send = build_channels(settings.alerts)["file"]
    send(ALERT)
    send(ALERT)
    lines = settings.alerts.file.read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [ALERT.id, ALERT.id]


def test_slack_gets_readable_text_that_cannot_mention_anybody(configure: Configure, receiver: HttpReceiver) -> None:
    build_channels(configure(STREAM_ALERT_SLACK_URL=receiver.url).alerts)["slack"](ALERT)
    (document,) = receiver.documents
    assert "silver/orders" in document["text"]
    assert "&lt;records&gt;" in document["text"]
    assert ALERT.id in document["text"]


def test_webhook_is_signed(configure: Configure, receiver: HttpReceiver) -> None:
    env = {"STREAM_ALERT_WEBHOOK_URL": receiver.url, "STREAM_ALERT_WEBHOOK_SECRET": "key"}
    build_channels(configure(**env).alerts)["webhook"](ALERT)
    ((headers, body),) = receiver.got
    assert headers["x-stream-signature-256"] == "sha256=" + hmac.new(b"key", body, hashlib.sha256).hexdigest()
    assert headers["idempotency-key"] == headers["x-stream-alert-id"] == json.loads(body)["id"] == ALERT.id


def test_webhook_without_a_secret_is_not_signed(configure: Configure, receiver: HttpReceiver) -> None:
    build_channels(configure(STREAM_ALERT_WEBHOOK_URL=receiver.url).alerts)["webhook"](ALERT)
    assert "x-stream-signature-256" not in receiver.got[0][0]


@pytest.mark.parametrize("status", [301, 400, 404, 429, 500, 503])
def test_an_answer_other_than_success_is_a_failure(configure: Configure, receiver: HttpReceiver, status: int) -> None:
    """A redirect too: the alert would be lost on the way."""
    receiver.status = status
    with pytest.raises(ChannelError, match=f"HTTP {status}"):
        build_channels(configure(STREAM_ALERT_SLACK_URL=receiver.url).alerts)["slack"](ALERT)
    assert receiver.tries == 1


def mail_env(mailbox: Mailbox) -> dict[str, str]:
    return {
        "STREAM_ALERT_SMTP_URL": f"smtp://user:pass%40word@{mailbox.address}",
        "STREAM_ALERT_EMAIL_FROM": "stream@example.com",
        "STREAM_ALERT_EMAIL_TO": "ops@example.com, owner",
    }


def mail_settings(configure: Configure, mailbox: Mailbox) -> Settings:
    return configure(**mail_env(mailbox))


def test_mail_reaches_the_list_and_the_owner(configure: Configure, mailbox: Mailbox) -> None:
    build_channels(mail_settings(configure, mailbox).alerts)["email"](ALERT)
    (mail,) = mailbox.mails
    assert mail["To"] == "ops@example.com, commerce@example.com"
    assert mail["Subject"].strip() == f"[error] {ALERT.title}"
    assert mail["Message-ID"] == f"<{ALERT.id}@stream.alerts>"
    assert "repair    stream run --from 2026-11-14" in mail.get_content()  # type: ignore[attr-defined]
    assert b64decode(mailbox.logins[0].split()[-1]) == b"\0user\0pass@word"


def test_a_refused_login_says_so_without_the_password(configure: Configure, mailbox: Mailbox) -> None:
    mailbox.accepts_login = False
    with pytest.raises(ChannelError, match="answered 535") as refused:
        build_channels(mail_settings(configure, mailbox).alerts)["email"](ALERT)
    assert "word" not in str(refused.value)
    assert refused.value.__suppress_context__


def offer_tls(mailbox: Mailbox, certificate: Path) -> None:
    mailbox.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    mailbox.tls.load_cert_chain(certificate)


def test_mail_goes_by_tls_to_a_server_that_offers_it(configure: Configure, mailbox: Mailbox, certificate: Path) -> None:
    """Login and mail come after STARTTLS, to a server whose certificate the settings say to trust."""
    offer_tls(mailbox, certificate)
    settings = configure(**mail_env(mailbox), STREAM_ALERT_SMTP_CA=str(certificate))
    build_channels(settings.alerts)["email"](ALERT)
    assert mailbox.spoken == ["TLSv1.3"]
    assert b64decode(mailbox.logins[0].split()[-1]) == b"\0user\0pass@word"
    assert mailbox.mails[0]["Message-ID"] == f"<{ALERT.id}@stream.alerts>"
    assert Settings.from_env(settings.to_env()).alerts.smtp_ca == certificate


def test_a_mail_server_nobody_trusts_gets_neither_password_nor_mail(
    configure: Configure, mailbox: Mailbox, certificate: Path
) -> None:
    offer_tls(mailbox, certificate)
    with pytest.raises(ChannelError, match="the mail server did not take it"):
        build_channels(configure(**mail_env(mailbox)).alerts)["email"](ALERT)
    assert (mailbox.logins, mailbox.mails) == ([], [])


def test_a_channel_that_is_not_there_is_a_failure(configure: Configure) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{unused.getsockname()[1]}"
        channels = build_channels(
            configure(
                STREAM_ALERT_SLACK_URL=f"http://{place}/canary",
                STREAM_ALERT_WEBHOOK_URL=f"http://{place}/canary",
                STREAM_ALERT_SMTP_URL=f"smtp://user:canary@{place}",
                STREAM_ALERT_EMAIL_FROM="stream@example.com",
                STREAM_ALERT_EMAIL_TO="ops@example.com",
            ).alerts
        )
        for name in ("slack", "webhook", "email"):
            with pytest.raises(ChannelError, match="Connection refused") as failure:
                channels[name](ALERT)
            assert "canary" not in str(failure.value)


def test_a_file_that_cannot_be_written_is_a_failure(configure: Configure) -> None:
    folder = configure().home
    folder.mkdir()
    with pytest.raises(ChannelError, match="directory"):
        file_channel(folder)(ALERT)
