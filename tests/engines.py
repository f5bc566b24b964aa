"""A stand-in for the engine, where only its life matters, and waiting for what other processes do."""

import sys
import time
from collections.abc import Callable

import pytest

from stream_assets.engine import server

LISTENER = """
import signal, socket, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(600)
"""


def put_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a small listener stand for the JVM. Everything else, the keeper process included, is the real thing."""
    monkeypatch.setattr(server, "_command", lambda _, port, __: [sys.executable, "-c", LISTENER, str(port)])


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait until something is so, and fail if it takes longer."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
