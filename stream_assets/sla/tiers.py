"""What the tiers promise, in figures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

EARLY_WARNING = 1.5
"""A dataset is worth a look when its last update is older than this many of its intervals."""


@dataclass(frozen=True)
class Tier:
    """A service level: how much of the month a dataset must be fresh."""

    name: str
    availability: float

    def budget(self, month: timedelta = timedelta(days=30.4375)) -> timedelta:
        """How long a dataset may be stale in a month."""
        return month * (1 - self.availability)


TIERS = {1: Tier("critical", 0.999), 2: Tier("important", 0.995), 3: Tier("standard", 0.99)}
