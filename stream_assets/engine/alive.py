"""Tells a process from a later one of the same number, by when it was born."""

from __future__ import annotations

import psutil


def is_alive(pid: int, born: float) -> bool:
    """Whether the process that had this number and was created at this time (seconds since 1970) still runs."""
    try:
        return abs(psutil.Process(pid).create_time() - born) < 1
    except psutil.Error:
        return False
