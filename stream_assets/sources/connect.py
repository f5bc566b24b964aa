"""Kafka Connect over REST: register, look at, pause and remove connectors."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import quote

from stream_assets.errors import AwayError, ServiceError

TIMEOUT_S = 30
BUSY_S = 60


@dataclass(frozen=True)
class ConnectorState:
    """How a connector stands."""

    state: str
    """RUNNING, PAUSED, STOPPED, UNASSIGNED, RESTARTING, FAILED, or ABSENT."""
    reason: str = ""
    """First line of what it failed with."""

    @property
    def is_running(self) -> bool:
        """Whether changes flow."""
        return self.state == "RUNNING"


ABSENT = ConnectorState("ABSENT")


class BusyError(ServiceError):
    """The worker is dividing its work or taking in a change; a moment later it answers."""


def register(url: str, name: str, config: Mapping[str, str]) -> None:
    """Make the connector, or give it this configuration, and let it run."""
    _ask(url, "PUT", f"/connectors/{quote(name)}/config", dict(config))
    _ask(url, "PUT", f"/connectors/{quote(name)}/resume")


def connector_state(url: str, name: str, patience_s: float | None = None) -> ConnectorState:
    """How a connector and its one task stand: as bad as the worse of both."""
    found = _ask(url, "GET", f"/connectors/{quote(name)}/status", missing={}, patience_s=patience_s)
    if not found:
        return ABSENT
    parts = [found["connector"], *found["tasks"]]
    worst = next((p for p in parts if p["state"] != "RUNNING"), parts[-1])
    # A connector without a task is not reading anything yet.
    state = worst["state"] if found["tasks"] or worst["state"] != "RUNNING" else "UNASSIGNED"
    return ConnectorState(state, _reason(worst.get("trace", "")))


def is_registered(url: str, name: str) -> bool:
    """Whether there is such a connector. The state of one that was just removed may still be told."""
    return _ask(url, "GET", f"/connectors/{quote(name)}", missing=None) is not None


def command(url: str, name: str, verb: Literal["pause", "resume", "stop"]) -> None:
    """Pause, resume or stop a connector."""
    _ask(url, "PUT", f"/connectors/{quote(name)}/{verb}")


def restart(url: str, name: str) -> None:
    """Start a connector and its task again, if they failed. A new one that has no state yet has not failed either."""
    _ask(url, "POST", f"/connectors/{quote(name)}/restart?includeTasks=true&onlyFailed=true", missing=None)


def forget_offsets(url: str, name: str) -> None:
    """Forget how far a stopped connector had read: it will begin with a snapshot."""
    _ask(url, "DELETE", f"/connectors/{quote(name)}/offsets")


def remove(url: str, name: str) -> None:
    """Delete a connector. What it has read stays read."""
    _ask(url, "DELETE", f"/connectors/{quote(name)}", missing=None)


def _reason(trace: str) -> str:
    """The deepest cause of a stack trace, in a line. Debezium quotes settings there, never rows; a password would be a reference."""
    causes = [
        line.removeprefix("Caused by: ") for line in trace.splitlines() if line and not line.startswith(("\t", " "))
    ]
    return causes[-1][:300] if causes else ""


_REQUIRED: Any = object()


def _ask(
    url: str, method: str, path: str, body: Any = None, *, missing: Any = _REQUIRED, patience_s: float | None = None
) -> Any:
    """Ask, and ask again while the worker is dividing its work or taking in a change: it answers 409 for those moments."""
    deadline = time.monotonic() + (patience_s or BUSY_S)
    while True:
        try:
            return _ask_once(url, method, path, body, missing, patience_s or TIMEOUT_S)
        except BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _ask_once(url: str, method: str, path: str, body: Any, missing: Any, timeout_s: float) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 settings allow only http and https
        f"{url}{path}", data=data, method=method, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.NOT_FOUND and missing is not _REQUIRED:
            return missing
        refused = BusyError if error.code == HTTPStatus.CONFLICT else ServiceError
        raise refused(f"Kafka Connect refused {method} {path} ({error.code}): {_message(error)}") from error
    except OSError as error:
        raise AwayError(
            f"Kafka Connect does not answer at {url}. Start ours with `stream services up`, or correct STREAM_CONNECT_URL."
        ) from error


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read()).get("message", ""))[:500]
    except ValueError:
        return error.reason
