"""The door of `stream`: hands a command over to the process on standby, or runs it here and leaves one on standby for the next.

Whoever waits for the command notices no difference: the other process has our terminal, folder and environment, gets our
signals, dies with us, and we end as it did. Nothing heavy may be imported here before that is decided.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from stream_assets.errors import SettingsError
from stream_assets.settings import Settings

ITSELF = {"engine", "prepare", "services", "streams"}
"""Commands that start or stop long-lived processes, or are one."""
TAKEN = b"+"
"""What the other process says once it has taken a command over."""
PROGRAM = [sys.executable, str(Path(__file__).parent)]
"""Whose code runs a command: another checkout that shares our STREAM_HOME is not us."""
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Run the command line."""
    settings = _settings()
    if settings and not ITSELF & set(sys.argv[1:2]):
        code = hand_over(settings, sys.argv[1:])
        if code is not None:
            sys.exit(code)
    from stream_assets.cli import main as run

    try:
        run()
    finally:
        if settings:
            leave_one_ready(settings)


def _settings() -> Settings | None:
    """The settings if a process may be on standby: for our own engine on this kind of system, unless told otherwise."""
    try:
        settings = Settings.from_env()
    except SettingsError:  # the command will say it
        return None
    return settings if settings.standby and not settings.spark_remote and sys.platform == "linux" else None


def place(settings: Settings) -> Path:
    """The socket of the process on standby."""
    return settings.home / "spark" / "standby.sock"


def reach(settings: Settings, folder: int) -> str:
    """The address of the socket, by an open descriptor of its folder: an address is at most 107 bytes long."""
    return f"/proc/self/fd/{folder}/{place(settings).name}"


def hand_over(settings: Settings, arguments: Sequence[str]) -> int | None:
    """Let the process on standby run the command. Returns its exit code, or None if nobody took it."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            folder = os.open(place(settings).parent, os.O_PATH)
            try:
                line.connect(reach(settings, folder))
            finally:
                os.close(folder)
            socket.send_fds(line, [b"?"], [0, 1, 2])
            line.sendall(json.dumps(_request(arguments)).encode() + b"\n")
            if line.recv(1) != TAKEN:
                return None
        except OSError:
            return None
        passed = [signal.SIGKILL]

        def pass_on(number: int, _: object) -> None:
            passed.append(signal.Signals(number))
            with suppress(OSError):
                line.send(bytes([number]))

        for number in PASSED_ON:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, pass_on)
        with suppress(ConnectionError):
            if answer := line.recv(1):
                return answer[0]
    return 128 + passed[-1]


def _request(arguments: Sequence[str]) -> dict[str, Any]:
    """What makes another process the command that was called here."""
    os.umask(mask := os.umask(0))
    return {
        "program": PROGRAM,
        "arguments": list(arguments),
        "folder": str(Path.cwd()),
        "environment": dict(os.environ),
        "umask": mask,
    }


def leave_one_ready(settings: Settings) -> None:
    """Start a process on standby after a command that had to load everything, if the engine stays."""
    if "dagster" not in sys.modules or not (settings.home / "spark" / "server.json").exists():
        return
    log = place(settings).with_suffix(".log")
    with open(log, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
        subprocess.Popen(
            [sys.executable, "-P", "-m", "stream_assets.standby.server"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=os.environ | {"STREAM_HOME": str(settings.home)},  # it may be given as seen from here
            cwd="/",
        )
