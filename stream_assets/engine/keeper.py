"""The keeper of our Spark server: a process that starts the JVM, stops it when idle and tidies up after it.

It runs detached from whoever started it, so that a server outlives the run that needed it first. It learns its orders
from STREAM_KEEPER and imports as little as possible, because it stays in memory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil

POLL_S = 2.0


def main() -> None:
    """Start the server of STREAM_KEEPER and stay until it ends."""
    plan = json.loads(os.environ.pop("STREAM_KEEPER"))
    state_file = Path(plan["folder"]) / "server.json"
    server = subprocess.Popen(plan["command"])
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    jvm = psutil.Process(server.pid)
    state = {"pid": jvm.pid, "born": jvm.create_time(), "keeper": os.getpid(), "port": plan["port"]}
    temporary = state_file.with_suffix(".tmp")
    temporary.write_text(json.dumps(state))
    temporary.replace(state_file)
    try:
        _wait(server, jvm, plan["port"], plan["idle_s"])
    finally:
        _forget(state_file, state)


def _forget(state_file: Path, state: dict[str, float]) -> None:
    """Remove our state. After a crash, the state may already be that of the next server: that one stays."""
    try:
        if json.loads(state_file.read_text()) == state:
            state_file.unlink()
    except (OSError, ValueError):
        return


def _wait(server: subprocess.Popen[bytes], jvm: psutil.Process, port: int, idle_s: float) -> None:
    """Return when the server has ended; end it when no client has been connected for `idle_s` seconds."""
    last_used = time.monotonic()
    while server.poll() is None:
        time.sleep(POLL_S)
        if _has_clients(jvm, port):
            last_used = time.monotonic()
        elif idle_s and time.monotonic() - last_used > idle_s:
            server.terminate()
            server.wait(30)


def _has_clients(jvm: psutil.Process, port: int) -> bool:
    try:
        return any(c.status == psutil.CONN_ESTABLISHED and c.laddr.port == port for c in jvm.net_connections("tcp"))
    except psutil.Error:
        return False
