"""A server process that outlives who started it: known by its pid and birth, so that a recycled pid is never taken for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from stream_assets.engine.alive import is_alive


@dataclass(frozen=True)
class ProcessState:
    """What `process.json` in the server's folder says."""

    pid: int
    born: float


def launch(folder: Path, command: Sequence[str | Path], *, env: Mapping[str, str], user: str | None) -> None:
    """Start a server whose output goes to `server.log`, and note who it is."""
    with log_file(folder).open("ab") as log:
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **env},
            cwd=folder,
            user=user,
            extra_groups=[] if user else None,
        )
    state = ProcessState(process.pid, psutil.Process(process.pid).create_time())
    draft = folder / "process.tmp"
    draft.write_text(json.dumps(asdict(state)))
    draft.replace(folder / "process.json")


def find(folder: Path) -> psutil.Process | None:
    """The live process of this folder, if there is one."""
    try:
        state = ProcessState(**json.loads((folder / "process.json").read_text()))
        process = psutil.Process(state.pid)
        is_ours = is_alive(state.pid, state.born) and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, ValueError, TypeError, psutil.Error):
        return None
    return process if is_ours else None


def end(folder: Path, *, by: signal.Signals, timeout_s: float) -> bool:
    """Ask the process to end, and make it when it does not. True if there was one."""
    process = find(folder)
    if process is None:
        return False
    process.send_signal(by)
    try:
        process.wait(timeout_s)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait(10)
    (folder / "process.json").unlink(missing_ok=True)
    return True


def log_file(folder: Path) -> Path:
    """What the server writes."""
    return folder / "server.log"


def log_tail(folder: Path, lines: int = 15) -> str:
    """The end of what the server wrote."""
    try:
        return "\n".join(log_file(folder).read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
