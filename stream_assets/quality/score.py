"""One figure for the quality of everything: the weighted share of checks whose latest result passed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

GATE_WEIGHT = 3
"""A gate says that data cannot be accounted for; any other check that something looks odd."""


@dataclass(frozen=True)
class CheckResult:
    """The latest result of one check."""

    asset: str
    name: str
    passed: bool
    is_gate: bool


def quality_score(results: Iterable[CheckResult]) -> float | None:
    """From 0 to 1: weight of the passed checks over the weight of all. None before any check has run."""
    weighed = [(GATE_WEIGHT if result.is_gate else 1, result.passed) for result in results]
    total = sum(weight for weight, _ in weighed)
    return sum(weight for weight, passed in weighed if passed) / total if total else None
