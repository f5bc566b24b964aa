"""Puts a few offending records beside a failed check, and the commands that show them and judge them again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stream_assets.quality.outcomes import Entries, Outcome

DUPLICATE = "duplicate"
"""Stands for a rule in the samples of a day: records of which a better version came."""
MOST = 3
"""Records that are named of each rule and day, and of each failed check."""
SAMPLE, LOOK, REPLAY = "sample", "look", "replay"
"""Facts of an outcome: names of records, the command that shows them, the command that judges them again."""


def with_evidence(dataset: str, outcome: Outcome, entries: Entries) -> Outcome:
    """A failed outcome with some of the records that made it fail; others as they are."""
    rules = _rules(outcome)
    days = [day for day in sorted(_days(outcome) & set(entries) or entries) if _names(entries[day], rules)]
    if outcome.passed or not days:
        return outcome
    names = dict.fromkeys(name for day in days for name in _names(entries[day], rules))
    rejected = any(rule in entries[day]["violations"] for day in days for rule in rules)
    commands = commands_for(dataset, days) if rejected else {}
    return replace(outcome, facts={**outcome.facts, SAMPLE: [*names][:MOST], **commands})


def commands_for(dataset: str, days: Sequence[str]) -> dict[str, str]:
    """How to see the rejected records of these days, and how to judge them again once the cause is mended."""
    first, last = min(days), max(days)
    return {
        LOOK: f"stream quarantine show {dataset} --day {first if first == last else f'{first}..{last}'}",
        REPLAY: f"stream replay {dataset} --from {first} --to {last}",
    }


def _rules(outcome: Outcome) -> list[str]:
    """The rules an outcome is about, the most broken first."""
    if outcome.name.startswith("uniqueness__"):
        return [DUPLICATE]
    counts: Mapping[str, int] = outcome.facts.get("rows_per_rule", {})
    return sorted(counts, key=lambda rule: (-counts[rule], rule))


def _days(outcome: Outcome) -> set[str]:
    return set(outcome.facts.get("days_above", ()))


def _names(entry: Mapping[str, Any], rules: Iterable[str]) -> list[str]:
    return [name for rule in rules for name in entry.get("samples", {}).get(rule, ())]
