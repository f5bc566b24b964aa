"""Whose turn it is to commit to a table that lies on this machine's disks: Spark's, or one of our own processes'.

Spark looks whether the next version is there and then puts a file in its place, which is safe among the threads of one server and
not beside another process. So everything that Spark commits is done while a lock on the table's log is shared, and what we commit
by delta-rs while we have it alone. The lock ends with the process that holds it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 2.0
PAUSE_S = 0.02


@contextmanager
def turn_of_spark(path: str) -> Iterator[None]:
    """While inside, Spark may commit to the table; others of our processes may let it do so too."""
    if "://" in path:
        yield
        return
    log = _open_log(path)
    try:
        fcntl.flock(log, fcntl.LOCK_SH)
        yield
    finally:
        os.close(log)


@contextmanager
def turn_of_ours(path: str, patience: float = PATIENCE_S) -> Iterator[bool]:
    """While inside, nobody else commits to the table. False if Spark is at it and stays at it: it may compact for minutes."""
    log = _open_log(path)
    try:
        yield _lock_soon(log, time.monotonic() + patience)
    finally:
        os.close(log)


def _open_log(path: str) -> int:
    return os.open(f"{path}/_delta_log", os.O_RDONLY | os.O_DIRECTORY)


def _lock_soon(log: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE_S)
        else:
            return True
