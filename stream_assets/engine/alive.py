"""Tells a process from a later one of the same number, by when it was born."""

from __future__ import annotations

import psutil


def is_alive(pid: int, born: float) -> bool:
    """Whether the process that had this number and was created at this time (seconds since 1970) still runs.

    One that has ended and that nobody has asked about yet (in a container, perhaps nobody ever will) does not.
    """
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - born) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
