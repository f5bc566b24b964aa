"""Runs a command and measures it: wall time, and the peak of the memory its processes hold together."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

SAMPLE_S = 0.2
NEWBORN_S = 1.0
"""A JVM that starts a small command is there twice for a moment, with all its memory (seen: 7 GB for a heap of 3)."""


@dataclass(frozen=True)
class Measurement:
    """One way in one scenario."""

    scenario: str
    way: str
    seconds: float
    rows: int
    """Lines delivered that the run had to look at."""
    peak_mb: float
    layers: dict[str, int] = field(default_factory=dict)
    """Bytes per layer afterwards."""
    note: str = ""

    @property
    def rows_per_second(self) -> float:
        """Throughput, start-up included."""
        return self.rows / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """As written to results.json."""
        return asdict(self) | {"rows_per_second": round(self.rows_per_second)}


class CommandFailedError(RuntimeError):
    """A measured command ended badly; the message ends with what it said last."""


def run_measured(
    command: list[str], *, env: Mapping[str, str], log: Path, also: Callable[[], Iterable[int]] = tuple
) -> tuple[float, float]:
    """Run a command to its end. Returns seconds and peak MB.

    Args:
        command: What to run.
        env: Its whole environment.
        log: File that gets its output.
        also: Gives the ids of further processes that work for it, such as a server that outlives it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        started = time.monotonic()
        process = subprocess.Popen(command, env=dict(env), stdout=output, stderr=subprocess.STDOUT)
        with _Watch(lambda: [process.pid, *also()]) as watch:
            code = process.wait()
        seconds = time.monotonic() - started
    if code:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise CommandFailedError(f"{' '.join(command)} ended with {code}. The end of {log}:\n{tail}")
    return seconds, watch.peak / 1e6


class _Watch:
    """While entered, samples the resident memory of some processes and all their children."""

    def __init__(self, roots: Callable[[], Iterable[int]]) -> None:
        self.peak = 0
        self._roots = roots
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self.peak = max(self.peak, resident(self._roots()))


def resident(roots: Iterable[int]) -> int:
    """Bytes held by these processes and their children; a page two of them share counts twice."""
    found: dict[int, int] = {}
    for root in roots:
        try:
            parent = psutil.Process(root)
            for process in (parent, *parent.children(recursive=True)):
                if process.pid == root or time.time() - process.create_time() > NEWBORN_S:
                    found[process.pid] = process.memory_info().rss
        except psutil.Error:
            continue  # it has ended since
    return sum(found.values())
