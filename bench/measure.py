"""Runs a command and measures it: wall time, and the CPU time and peak memory of all its processes together."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

SAMPLE_S = 0.2
NEWBORN_S = 1.0
"""A JVM that starts a small command is there twice for a moment, with all its memory (seen: 7 GB for a heap of 3)."""


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    seconds: float
    cpu_seconds: float
    """Tells more than the clock where other work shares the machine."""
    peak_mb: float


@dataclass(frozen=True)
class Measurement:
    """One way in one scenario."""

    scenario: str
    way: str
    rows: int
    """Lines delivered on the days that were loaded."""
    cost: Cost
    layers: dict[str, int] = field(default_factory=dict)
    """Bytes per layer afterwards."""
    note: str = ""

    @property
    def rows_per_second(self) -> float:
        """Throughput, start-up included."""
        return self.rows / self.cost.seconds

    def to_dict(self) -> dict[str, Any]:
        """As written to results.json."""
        document = asdict(self)
        costs = {name: round(value, 2) for name, value in document.pop("cost").items()}
        return document | costs | {"rows_per_second": round(self.rows_per_second)}


class CommandFailedError(RuntimeError):
    """A measured command ended badly; the message ends with what it said last."""


def run_measured(
    command: list[str], *, env: Mapping[str, str], log: Path, also: Callable[[], Iterable[int]] = tuple
) -> Cost:
    """Run a command to its end.

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
        usage = _Usage(lambda: [process.pid, *also()])
        with repeated(usage.look, SAMPLE_S):
            code = process.wait()
        seconds = time.monotonic() - started
    if code:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise CommandFailedError(f"{' '.join(command)} ended with {code}. The end of {log}:\n{tail}")
    return Cost(seconds, usage.cpu_seconds, usage.peak / 1e6)


@contextmanager
def repeated(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """While entered, look every so often, in a thread."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(every_s):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class _Usage:
    """The resident memory and the CPU time of some processes and all their children, as far as looked at."""

    def __init__(self, roots: Callable[[], Iterable[int]]) -> None:
        self.peak = 0
        self._roots = roots
        self._cpu: dict[int, tuple[float, float]] = {}
        self._began = time.time()

    @property
    def cpu_seconds(self) -> float:
        """CPU time used since the beginning, as far as seen: what lives shorter than a sample is missed."""
        return sum(latest - first for first, latest in self._cpu.values())

    def look(self) -> None:
        """Take a sample."""
        roots, resident = set(self._roots()), 0
        for process in _family(roots):
            with suppress(psutil.Error):  # it has ended since
                resident += self._sample(process, is_root=process.pid in roots)
        self.peak = max(self.peak, resident)

    def _sample(self, process: psutil.Process, *, is_root: bool) -> int:
        """Note the CPU time of a process; returns its resident memory."""
        born, times = process.create_time(), process.cpu_times()
        used = times.user + times.system
        first, _ = self._cpu.get(process.pid, (used if born < self._began - SAMPLE_S else 0.0, 0.0))
        self._cpu[process.pid] = (first, used)
        return process.memory_info().rss if is_root or time.time() - born > NEWBORN_S else 0


def _family(roots: Iterable[int]) -> set[psutil.Process]:
    """These processes and all their children, each once."""
    found: set[psutil.Process] = set()
    for root in roots:
        with suppress(psutil.Error):
            parent = psutil.Process(root)
            found |= {parent, *parent.children(recursive=True)}
    return found
