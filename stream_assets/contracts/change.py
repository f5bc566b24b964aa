"""The vocabulary of differences between two versions of a contract. `diff.py` and `diff_columns.py` find them.

A change is looked at from both sides. Who delivers is hurt when more is asked; who reads is hurt when less is promised,
or when what is there has another name, type or meaning. Whatever hurts either side is breaking.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Literal

Bump = Literal["none", "patch", "minor", "major"]
BUMPS: tuple[Bump, ...] = ("none", "patch", "minor", "major")
"""Steps of a semantic version, smallest first."""

Direction = Literal["tightens", "loosens", "neutral"]
"""Whether the new contract promises more (and asks more of who delivers), less, or something else."""


@dataclass(frozen=True)
class Change:
    """One difference: where, what, the version it needs, whether more or less is promised, and whom it hurts."""

    field: str
    what: str
    needs: Bump
    direction: Direction
    reason: str

    @property
    def kind(self) -> Literal["breaking", "non-breaking"]:
        """Breaking, if somebody has to do something about it."""
        return "breaking" if self.needs == "major" else "non-breaking"


@dataclass(frozen=True)
class Effect:
    """What a kind of change does to the people on both sides."""

    needs: Bump
    direction: Direction
    reason: str

    def change(self, field: str, what: str) -> Change:
        """This effect, at a field."""
        return Change(field, what, self.needs, self.direction, self.reason)


def fact_change(field: str, old: Any, new: Any, effect: Effect) -> Iterator[Change]:
    """A value that is simply another one."""
    if old != new:
        yield effect.change(field, f"{show(old)} → {show(new)}")


def scale_change(field: str, old: Any, new: Any, *, up: Effect, down: Effect) -> Iterator[Change]:
    """A value that went up or down."""
    if old != new:
        yield (up if new > old else down).change(field, f"{show(old)} → {show(new)}")


TUNED = Effect("minor", "neutral", "A setting of the pipeline; the promises stay as they are.")


def other_changes(prefix: str, old: Any, new: Any, known: Collection[str]) -> Iterator[Change]:
    """Fields of a dataclass that nobody has given a meaning here: a new one is told from its first day."""
    for name in [field.name for field in fields(new) if field.name not in known]:
        yield from fact_change(f"{prefix}{name}", getattr(old, name), getattr(new, name), TUNED)


def show(value: Any) -> str:
    """A value as the contract writes it."""
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None or value == "" else str(value)


def duration_text(span: timedelta) -> str:
    """A duration in the largest unit that holds it whole: `30m`, `2h`, `7d`, `3y`."""
    minutes = int(span.total_seconds() // 60)
    units = {"y": 365 * 24 * 60, "d": 24 * 60, "h": 60}
    unit = next((name for name, size in units.items() if minutes and minutes % size == 0), "m")
    return f"{minutes // units.get(unit, 1)}{unit}"
