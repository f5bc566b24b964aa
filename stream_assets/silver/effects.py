"""What another contract would change, as values: rows by their fate under both contracts, added up per day and in all.

No Spark here: `simulate.py` finds the rows. How it is shown is up to `ops`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["accepted", "quarantined", "duplicates"]
"""What becomes of a record, named as the ledger names it."""


@dataclass(frozen=True)
class Group:
    """Rows of one day that meet the same fate under both contracts, for the same reasons."""

    day: str
    before: Verdict
    after: Verdict
    rows: int
    broken_before: tuple[str, ...] = ()
    broken_after: tuple[str, ...] = ()
    warned_before: tuple[str, ...] = ()
    """Rules that are only warned about."""
    warned_after: tuple[str, ...] = ()
    changed: int = 0
    """Rows that stay in Silver with other values."""
    columns: Mapping[str, int] = field(default_factory=dict)
    """Those rows by column that differs."""

    @property
    def is_rejected(self) -> bool:
        """Whether the proposed contract quarantines rows that are sound today."""
        return self.before != "quarantined" and self.after == "quarantined"

    @property
    def is_recovered(self) -> bool:
        """Whether the proposed contract takes rows out of quarantine; a better version of them may still win."""
        return self.before == "quarantined" and self.after != "quarantined"


@dataclass(frozen=True)
class Tally:
    """Rows by verdict."""

    accepted: int = 0
    quarantined: int = 0
    duplicates: int = 0


@dataclass(frozen=True)
class RuleEffect:
    """Rows by one rule. A row that breaks two rules counts for both."""

    rule: str
    before: int
    """Rows that break it under the contract in force."""
    after: int
    newly_rejected: int
    recovered: int
    warned_before: int
    """Rows for which it is only a warning."""
    warned_after: int

    @property
    def differs(self) -> bool:
        """Whether the rule meets other rows, or other numbers of them."""
        moved = self.newly_rejected or self.recovered
        return bool(moved) or (self.before, self.warned_before) != (self.after, self.warned_after)


@dataclass(frozen=True)
class Effects:
    """What the proposed contract does to some rows."""

    before: Tally
    after: Tally
    newly_rejected: int
    recovered: int
    changed: int
    moves: Mapping[str, int]
    """Rows whose verdict changes, by `old → new`."""
    rules: tuple[RuleEffect, ...]
    columns: Mapping[str, int]
    """Rows that stay in Silver with another value, by column."""


@dataclass(frozen=True)
class DayEffects:
    """The effects on one day, beside what the ledger says happened on it."""

    day: str
    ledger: Tally | None
    """None for a day that was never refined."""
    effects: Effects

    @property
    def is_stale(self) -> bool:
        """Whether Silver is not what the contract in force makes of today's Bronze."""
        return self.ledger != self.effects.before


@dataclass(frozen=True)
class SchemaChange:
    """A column of Silver that comes, goes or gets another type."""

    column: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Simulation:
    """What a proposed contract would have done to a range of days."""

    dataset: str
    version_before: str
    version_after: str
    days: tuple[DayEffects, ...]
    total: Effects
    schema: tuple[SchemaChange, ...]
    notes: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether anything at all would be different."""
        total = self.total
        return bool(total.moves or total.changed or self.schema or any(rule.differs for rule in total.rules))


def add_up(groups: Sequence[Group]) -> Effects:
    """The effects on all these rows."""
    moves = _count((f"{g.before} → {g.after}", g.rows) for g in groups if g.before != g.after)
    columns = _count((name, rows) for g in groups for name, rows in g.columns.items() if rows)
    return Effects(
        before=_tally(groups, lambda g: g.before),
        after=_tally(groups, lambda g: g.after),
        newly_rejected=sum(g.rows for g in groups if g.is_rejected),
        recovered=sum(g.rows for g in groups if g.is_recovered),
        changed=sum(g.changed for g in groups),
        moves=dict(sorted(moves.items())),
        rules=tuple(_rule_effects(groups)),
        columns=dict(sorted(columns.items())),
    )


def _tally(groups: Sequence[Group], verdict: Callable[[Group], Verdict]) -> Tally:
    return Tally(**_count((verdict(g), g.rows) for g in groups))


def _rule_effects(groups: Sequence[Group]) -> Iterable[RuleEffect]:
    before = _count((rule, g.rows) for g in groups for rule in g.broken_before)
    after = _count((rule, g.rows) for g in groups for rule in g.broken_after)
    rejected = _count((rule, g.rows) for g in groups if g.is_rejected for rule in g.broken_after)
    recovered = _count((rule, g.rows) for g in groups if g.is_recovered for rule in g.broken_before)
    noted = _count((rule, g.rows) for g in groups for rule in g.warned_before)
    warned = _count((rule, g.rows) for g in groups for rule in g.warned_after)
    for rule in sorted({*before, *after, *noted, *warned}):
        rows = (before[rule], after[rule], rejected[rule], recovered[rule], noted[rule], warned[rule])
        yield RuleEffect(rule, *rows)


def _count(pairs: Iterable[tuple[str, int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, rows in pairs:
        counts[name] += rows
    return counts


def add_up_days(
    groups: Sequence[Group], days: Iterable[str], ledger: Mapping[str, Mapping[str, Any]]
) -> tuple[DayEffects, ...]:
    """The effects on each of these days, beside the ledger's own counts."""
    return tuple(
        DayEffects(day, _ledger_tally(ledger.get(day)), add_up([g for g in groups if g.day == day])) for day in days
    )


def _ledger_tally(entry: Mapping[str, Any] | None) -> Tally | None:
    return None if entry is None else Tally(entry["accepted"], entry["quarantined"], entry["duplicates"])


def schema_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[SchemaChange, ...]:
    """How the columns of Silver change, by name and type."""
    names = [*before, *[name for name in after if name not in before]]
    pairs = [SchemaChange(name, before.get(name), after.get(name)) for name in names]
    return tuple(change for change in pairs if change.before != change.after)
