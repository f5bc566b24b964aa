"""Holds a change of contracts to semantic versions: what breaks somebody needs a major step, and so on.

A breaking change without a major step fails. A smaller step that is missing is only a warning: nobody is hurt by it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from stream_assets.contracts.change import BUMPS, Bump, Change
from stream_assets.contracts.diff import diff_contracts
from stream_assets.contracts.model import Contract

Verdict = Literal["ok", "warning", "failure"]

REMOVED = Change("dataset", "removed", "major", "neutral", "Its readers find nothing, and no version can tell them.")
ADDED = Change("dataset", "added", "minor", "neutral", "Nobody depends on it yet.")


@dataclass(frozen=True)
class DatasetDiff:
    """What became of one dataset, and whether its version says so."""

    name: str
    old_version: str | None
    new_version: str | None
    changes: tuple[Change, ...]
    is_allowed: bool = False
    """Whether a removal was asked for by name."""

    @property
    def needs(self) -> Bump:
        """The step that the changes ask for."""
        return BUMPS[max((BUMPS.index(change.needs) for change in self.changes), default=0)]

    @property
    def has(self) -> Bump:
        """The step that was made."""
        return version_step(self.old_version, self.new_version) if self.old_version and self.new_version else "none"

    @property
    def verdict(self) -> Verdict:
        """Whether the step is large enough for the changes."""
        if self.old_version is None or self.is_allowed or BUMPS.index(self.has) >= BUMPS.index(self.needs):
            return "ok"
        return "failure" if self.needs == "major" else "warning"

    @property
    def advice(self) -> str:
        """What to do, if anything."""
        if self.verdict == "ok":
            return ""
        if self.new_version is None:
            return f"Keep it until nobody reads it, then say --allow-removed {self.name}."
        return f"Set version to {next_version(str(self.old_version), self.needs)} or later."


def diff_datasets(
    old: Mapping[str, Contract], new: Mapping[str, Contract], *, allow_removed: Collection[str] = ()
) -> list[DatasetDiff]:
    """What became of every dataset of two sets of contracts. Those that are the same are left out."""
    found = [_diff(name, old.get(name), new.get(name), allow_removed) for name in sorted({*old, *new})]
    return [diff for diff in found if diff.changes]


def _diff(name: str, old: Contract | None, new: Contract | None, allow_removed: Collection[str]) -> DatasetDiff:
    versions = (old.version if old else None, new.version if new else None)
    changes = diff_contracts(old, new) if old and new else [REMOVED if old else ADDED]
    return DatasetDiff(name, *versions, tuple(changes), is_allowed=new is None and name in allow_removed)


def version_step(old: str, new: str) -> Bump:
    """The largest part of a version that was raised; `none` if it stayed or went down."""
    before, after = _parts(old), _parts(new)
    if after <= before:
        return "none"
    steps: tuple[Bump, ...] = ("major", "minor", "patch")
    return next(step for step, b, a in zip(steps, before, after, strict=True) if a != b)


def next_version(version: str, step: Bump) -> str:
    """The version after a step."""
    major, minor, patch = _parts(version)
    after = {"major": (major + 1, 0, 0), "minor": (major, minor + 1, 0), "patch": (major, minor, patch + 1)}
    return ".".join(map(str, after.get(step, (major, minor, patch))))


def _parts(version: str) -> tuple[int, int, int]:
    major, minor, patch = map(int, version.split("."))
    return major, minor, patch
