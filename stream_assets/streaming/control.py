"""What a supervisor and the commands that talk to it share: files in `$STREAM_HOME/streams`.

`lock` is held by the one supervisor, `status.json` is what it last saw, `paused.json` names the streams that are to rest,
and `session` is its session on the engine, so that the next supervisor can end what a killed one left behind.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import psutil
from filelock import FileLock

from stream_assets.engine.alive import is_alive
from stream_assets.settings import Settings

State = Literal["starting", "running", "waiting", "stopped"]


@dataclass
class Facts:
    """How one stream is doing."""

    name: str
    state: State = "starting"
    batch: int | None = None
    rows: int = 0
    """Rows taken in since the supervisor started."""
    rate: float = 0.0
    """Rows taken in per second, over the last half minute."""
    lag_versions: int = 0
    """What it has not read yet: commits of its source, or messages of a topic."""
    lag_seconds: float = 0.0
    """Age of the oldest of these commits."""
    watermark: str | None = None
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    served_rows: int = 0
    position: list[int | None] = field(default_factory=list)
    """Version of each source up to which it has read."""
    restarts: int = 0
    """How often it was started again, or tried in vain to bring in messages."""
    error: str | None = None
    seen_at: str = ""
    """When it last looked at its source."""
    idle_at: str = ""
    """When it last looked and found nothing."""


@dataclass(frozen=True)
class Control:
    """The folder of the supervisor."""

    folder: Path

    @classmethod
    def of(cls, settings: Settings) -> Control:
        """The one of this STREAM_HOME."""
        folder = settings.home / "streams"
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder)

    def lock(self) -> FileLock:
        """Held by whoever supervises. The system lets go of it when its holder dies."""
        return FileLock(self.folder / "lock")

    @property
    def paused(self) -> set[str]:
        """Streams that are to rest."""
        return set(self._read("paused.json", []))

    def pause(self, names: Iterable[str]) -> None:
        """Let these rest too."""
        self._write("paused.json", sorted(self.paused | set(names)))

    def resume(self, names: Iterable[str]) -> None:
        """Let these work again."""
        self._write("paused.json", sorted(self.paused - set(names)))

    @property
    def session(self) -> str | None:
        """The supervisor's session on the engine."""
        return self._read("session", None)

    def keep_session(self, session: str | None) -> None:
        """Remember it."""
        self._write("session", session)

    def touched(self, dataset: str) -> set[date]:
        """Event days that got records and whose Silver has not been asked for yet."""
        return {date.fromisoformat(day) for day in self._read(f"touched-{dataset}.json", [])}

    def keep_touched(self, dataset: str, days: Iterable[date]) -> None:
        """Remember them, also for the next supervisor."""
        self._write(f"touched-{dataset}.json", sorted(day.isoformat() for day in days))

    def tell(self, facts: Iterable[Facts]) -> None:
        """Say how the streams are doing."""
        process = psutil.Process()
        told = {
            "pid": process.pid,
            "born": process.create_time(),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._write("status.json", {**told, "streams": [asdict(one) for one in facts]})

    def status(self) -> dict[str, Any]:
        """What the supervisor last said, and whether it is alive."""
        told = self._read("status.json", {"streams": []})
        alive = self._is_alive(told)
        if not alive:
            told["streams"] = [{**one, "state": "stopped"} for one in told["streams"]]
        return {"running": alive, **told}

    def end(self) -> bool:
        """Ask the supervisor to stop. True if there is one."""
        told = self._read("status.json", {})
        if self._is_alive(told):
            os.kill(told["pid"], signal.SIGTERM)
            return True
        return False

    def _is_alive(self, told: dict[str, Any]) -> bool:
        return "pid" in told and is_alive(told["pid"], told["born"])

    def _read(self, name: str, default: Any) -> Any:
        try:
            return json.loads((self.folder / name).read_text())
        except (OSError, ValueError):
            return default

    def _write(self, name: str, value: Any) -> None:
        temporary = self.folder / f"{name}.{os.getpid()}.tmp"
        temporary.write_text(json.dumps(value))
        temporary.replace(self.folder / name)
