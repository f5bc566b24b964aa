"""Which process works on a run, written into its tags: a run whose process is dead will never end by itself."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import psutil

from stream_assets.engine.alive import is_alive

PROCESS = "stream/process"


def this_process() -> str:
    """This machine and process. The time of birth tells it from a later process of the same number."""
    me = psutil.Process()
    return f"{socket.gethostname()}:{me.pid}:{me.create_time():.2f}"


def is_dead(tags: Mapping[str, str]) -> bool:
    """Whether the process of a run was on this machine and is gone. Unknown processes count as alive."""
    host, _, process = tags.get(PROCESS, "").partition(":")
    if host != socket.gethostname() or not process:
        return False
    number, born = process.split(":")
    return not is_alive(int(number), float(born))
