"""The process on standby: loads what commands need, waits, and becomes each command in a process forked for it.

A fork has everything loaded and nothing of another command: settings, contracts and the dbt project are read anew by each. It takes
over terminal, folder and environment of whoever asked, and ends with him.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import stream_assets
from stream_assets.engine.alive import is_alive
from stream_assets.engine.server import ServerState, running
from stream_assets.settings import Settings
from stream_assets.standby.entry import PROGRAM, TAKEN, place, reach

POLL_S = 2.0
LOADED = (
    "dbt.adapters.spark.impl",
    "dbt.cli.main",
    "pyspark.sql.connect.session",
    "stream_assets.build",
    "stream_assets.ops.run",
    "stream_assets.ops.show",
    "stream_assets.ops.show_status",
)
"""`stream_assets.cli` is left to the forks: it looks at the terminal when it is imported."""


def main() -> None:
    """Wait for commands as long as the engine runs and the code is what was loaded."""
    settings = Settings.from_env()
    engine, code = running(settings), code_version()
    # A lock of this process alone: that a fork ends does not release it.
    with place(settings).with_suffix(".pid").open("a") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # there is one
        lock.truncate(0)
        print(os.getpid(), file=lock, flush=True)
        if engine:
            _load()
            _serve(settings, engine, code)


def code_version() -> tuple[float, int]:
    """Tells whether our code, or a library, was changed: when last, and how many files there are."""
    ours = [file.stat().st_mtime for file in Path(stream_assets.__file__).parent.rglob("*.py")]
    libraries = [Path(folder).stat().st_mtime for folder in sys.path if folder.endswith("site-packages")]
    return max([*ours, *libraries]), len(ours)


def _load() -> None:
    """Import what the commands that people wait for need."""
    for module in LOADED:
        import_module(module)
    gc.collect()
    gc.freeze()  # what is shared with the forks stays shared


def _serve(settings: Settings, engine: ServerState, code: tuple[float, int]) -> None:
    own = place(settings)
    own.unlink(missing_ok=True)
    folder = os.open(own.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.umask(0o177)
        listener.bind(reach(settings, folder))
        os.umask(before)
        listener.listen()
        listener.settimeout(POLL_S)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are nobody's to wait for
        while is_alive(engine.pid, engine.born) and own.exists():
            try:
                line, _ = listener.accept()
            except TimeoutError:
                continue
            if code_version() != code:
                break
            if os.fork() == 0:
                listener.close()
                _become(line)
            line.close()
    own.unlink(missing_ok=True)


def _become(line: socket.socket) -> None:
    """Be the command that is asked for on this line, from its terminal to its exit code."""
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    line.settimeout(None)
    _, given, _, _ = socket.recv_fds(line, 1, 3)
    with line.makefile("rb") as reader:
        request = json.loads(reader.readline())
    if request["program"] != PROGRAM:
        sys.exit()
    for number, descriptor in enumerate(given):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # pyright: ignore[reportAttributeAccessIssue]
    os.umask(request["umask"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    sys.argv = ["stream", *request["arguments"]]
    line.sendall(TAKEN)
    is_over = threading.Event()
    threading.Thread(target=_obey, args=(line, is_over), daemon=True).start()
    code = 1

    def tell() -> None:
        for output in (sys.stdout, sys.stderr):
            with suppress(OSError):
                output.flush()
        is_over.set()
        with suppress(OSError):
            line.sendall(bytes([code]))

    atexit.register(tell)
    try:
        _run()
        code = 0
    except SystemExit as leaving:
        code = _number(leaving.code)
    sys.exit(code)


def _run() -> None:
    from stream_assets.cli import main

    main()


def _number(code: Any) -> int:
    """The exit code that Python makes of what `sys.exit` was given; text is an error to be shown."""
    if isinstance(code, str):
        print(code, file=sys.stderr)
    return code & 0xFF if isinstance(code, int) else int(code is not None)


def _obey(line: socket.socket, is_over: threading.Event) -> None:
    """Get the signals that whoever waits for us gets; if he is killed, end at once, as if he had run the command himself."""
    while number := line.recv(1):
        os.kill(os.getpid(), number[0])
    if not is_over.is_set():
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
