"""Ways to reach people: a file, Slack, a signed webhook, e-mail. A channel sends one alert or raises `ChannelError`.

Addresses and passwords stay inside the functions made here: what is raised names the kind of failure only, and hides the
error it came from, whose text may quote an address.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import smtplib
import ssl
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from stream_assets.errors import ChannelError
from stream_assets.ops.alerts.message import Alert
from stream_assets.settings import AlertSettings

Channel = Callable[[Alert], None]

TIMEOUT = 5.0
"""Seconds a channel may keep silent. Four of them fit into the minute Dagster gives a sensor."""
SIGNATURE = "X-Stream-Signature-256"
ALERT_ID = "X-Stream-Alert-Id"
COLOURS = {"warning": "⚠️", "error": "🔴", "critical": "🚨"}


def build_channels(settings: AlertSettings) -> dict[str, Channel]:
    """The channels that are configured, by name. The file is always one."""
    channels = {"file": file_channel(settings.file)}
    if settings.slack_url:
        channels["slack"] = slack_channel(settings.slack_url)
    if settings.webhook_url:
        channels["webhook"] = webhook_channel(settings.webhook_url, settings.webhook_secret)
    if settings.smtp_url and settings.email_from:
        channels["email"] = email_channel(settings.smtp_url, settings.email_from, settings.email_to, settings.smtp_ca)
    return channels


def file_channel(file: Path) -> Channel:
    """Append one JSON line per alert, on the disk when it returns."""

    def send(alert: Alert) -> None:
        line = json.dumps(alert.document(), ensure_ascii=False) + "\n"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("ab", buffering=0) as handle:
                handle.write(line.encode())
                os.fsync(handle.fileno())
        except OSError as error:
            raise ChannelError(f"the file cannot be written: {error.strerror}") from None

    return send


def slack_channel(url: str) -> Channel:
    """A Slack incoming webhook."""

    def send(alert: Alert) -> None:
        mark = "✅" if alert.news == "recovered" else COLOURS[alert.condition.severity]
        facts = "\n".join(f"*{label}*  {_escape(text)}" for label, text in alert.lines().items())
        _post(url, {"text": f"{mark} *{_escape(alert.title)}*\n{facts}"}, {ALERT_ID: alert.id})

    return send


def _escape(text: str) -> str:
    """Text that Slack shows as it is, and cannot take for a mention of everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def webhook_channel(url: str, secret: str | None) -> Channel:
    """Any HTTP receiver. With a secret, a header signs the body: `sha256=` and the HMAC in hex."""

    def send(alert: Alert) -> None:
        document = alert.document()
        headers = {ALERT_ID: alert.id, "Idempotency-Key": alert.id}
        _post(url, document, headers | ({SIGNATURE: signature(secret, _body(document))} if secret else {}))

    return send


def signature(secret: str, body: bytes) -> str:
    """What the webhook's receiver computes from the body it got, to compare in constant time."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _body(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


class _NoRedirects(HTTPRedirectHandler):
    """An alert goes to the address that was configured or nowhere: urllib would turn a redirected POST into a GET."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow nothing."""


def _post(url: str, document: Mapping[str, object], headers: Mapping[str, str]) -> None:
    request = Request(  # noqa: S310 - settings accept http and https only
        url, _body(document), {"Content-Type": "application/json; charset=utf-8", **headers}
    )
    try:
        with build_opener(_NoRedirects).open(request, timeout=TIMEOUT) as response:
            response.read()
    except HTTPError as error:
        error.close()
        raise ChannelError(f"the receiver answered HTTP {error.code}") from None
    except URLError as error:
        raise ChannelError(f"the receiver cannot be reached: {_reason(error.reason)}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise ChannelError(f"the receiver cannot be reached: {_reason(error)}") from None


def _reason(error: object) -> str:
    """The system's own words for an error, or its class."""
    return getattr(error, "strerror", None) or type(error).__name__


def email_channel(smtp_url: str, sender: str, receivers: tuple[str, ...], trusted: Path | None = None) -> Channel:
    """Mail through an SMTP server: `smtps` speaks TLS from the start, `smtp` as soon as the server offers it."""

    def send(alert: Alert) -> None:
        message = _mail(alert, sender, receivers)
        try:
            with _log_in(smtp_url, trusted) as server:
                server.send_message(message)
        except smtplib.SMTPResponseException as error:
            raise ChannelError(f"the mail server answered {error.smtp_code}") from None
        except (smtplib.SMTPException, OSError, ValueError) as error:
            raise ChannelError(f"the mail server did not take it: {_reason(error)}") from None

    return send


def _mail(alert: Alert, sender: str, receivers: tuple[str, ...]) -> EmailMessage:
    owners = [owner for owner in alert.condition.owners if "@" in owner]
    to = [address for name in receivers for address in (owners if name == "owner" else [name])]
    message = EmailMessage()
    message["Subject"] = f"[{alert.condition.severity}] {alert.title}"
    message["From"] = sender
    message["To"] = ", ".join(dict.fromkeys(to)) or sender
    message["Date"] = alert.at
    message["Message-ID"] = f"<{alert.id}@stream.alerts>"
    message[ALERT_ID] = alert.id
    message.set_content(alert.text())
    return message


def _log_in(smtp_url: str, trusted: Path | None) -> smtplib.SMTP:
    """A connection ready to send. A password crosses a network only under TLS."""
    url, tls = urlsplit(smtp_url), ssl.create_default_context(cafile=trusted)
    host = url.hostname or ""
    if url.scheme == "smtps":
        server = smtplib.SMTP_SSL(host, url.port or 465, timeout=TIMEOUT, context=tls)
    else:
        server = smtplib.SMTP(host, url.port or 587, timeout=TIMEOUT)
        server.ehlo()
        if server.has_extn("starttls"):
            server.starttls(context=tls)
        elif url.password and not _is_loopback(host):
            server.close()
            raise ChannelError("the mail server offers no TLS, so the password was not sent")
    if url.username:
        server.login(unquote(url.username), unquote(url.password or ""))
    return server


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
