"""Compares the columns of two versions of a contract, renamed ones included."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from stream_assets.contracts.change import Change, Effect, fact_change, other_changes, show
from stream_assets.contracts.model import Column

ADDED = Effect("minor", "neutral", "Records without it are still accepted, and no reader depends on it yet.")
ADDED_REQUIRED = Effect("major", "tightens", "Producers have to send it: records without it are rejected.")
REMOVED = Effect("major", "neutral", "Readers of it find nothing; what producers still send is an unknown column.")
REMOVED_REQUIRED = Effect("major", "loosens", "Readers of it find nothing, and records need not carry it any more.")
RENAMED = Effect("major", "neutral", "Producers have to send it, and readers to ask for it, under another name.")
RENAMED_HERE = Effect(
    "major", "neutral", "Readers have to ask for it under another name; producers send what they did."
)
REQUIRED = Effect("major", "tightens", "Records without a value were accepted and are rejected.")
OPTIONAL = Effect("major", "loosens", "Readers meet nulls where they were promised a value.")
WIDENED = Effect(
    "major", "loosens", "More values are accepted, but Silver's type changes: readers and stored rows have to follow."
)
NARROWED = Effect("major", "tightens", "Values that fitted are rejected, and Silver's type changes.")
RETYPED = Effect("major", "neutral", "Values are read as something else: producers and readers both have to follow.")
PROTECTED = Effect("major", "neutral", "Readers find other values in Silver: hashed, masked, absent or in the clear.")
PROTECTED_AS_TEXT = Effect("major", "neutral", "Readers find other values, and of another type, in Silver.")
SOURCE = Effect("major", "neutral", "Producers have to send the field under another name.")
TIMESTAMP_FORMAT = Effect("major", "neutral", "Producers have to write times another way; others are rejected.")
STRICTER = Effect("major", "tightens", "Values that were accepted are rejected.")
LAXER = Effect("major", "loosens", "Readers meet values they were promised not to.")
OTHERWISE = Effect(
    "major", "neutral", "Other values are accepted: some of the old are rejected, readers meet new ones."
)
LINKED = Effect("minor", "tightens", "Orphans are reported; no row is rejected for it.")
UNLINKED = Effect("minor", "loosens", "Orphans are not reported any more; no row changes.")
RELINKED = Effect("major", "neutral", "Readers who join by it have to join with something else.")
DESCRIBED = Effect("patch", "neutral", "Words: the rows stay as they are.")
EXPLAINED = Effect("patch", "neutral", "It is in the clear as before; now the contract says so, or no longer does.")


COMPARED = frozenset(
    ("name", "type", "source", "description", "required", "pii", "timestamp_format", "options", "allowed", "references")
)


def column_changes(old: Sequence[Column], new: Sequence[Column]) -> Iterator[Change]:
    """Every difference between two lists of columns. Their order means nothing."""
    renames = find_renames(old, new)
    before, after = {column.name: column for column in old}, {column.name: column for column in new}
    moved = {column.name for pair in renames for column in pair}
    for name, column in before.items():
        if name in after:
            yield from _source_change(column, after[name])
            yield from _promise_changes(name, column, after[name])
        elif name not in moved:
            effect = REMOVED_REQUIRED if column.required else REMOVED
            yield effect.change(_field(name), f"removed ({column.type})")
    for was, now in renames:
        yield _rename(was, now)
        yield from _promise_changes(now.name, was, now)
    for name, column in after.items():
        if name not in before and name not in moved:
            effect = ADDED_REQUIRED if column.required else ADDED
            what = f"added ({column.type}, {'required' if column.required else 'optional'})"
            yield effect.change(_field(name), what)


def find_renames(old: Sequence[Column], new: Sequence[Column]) -> list[tuple[Column, Column]]:
    """Pairs of a column that went and one that came which look like the same: same type, and same words or same source."""
    kept = {column.name for column in old} & {column.name for column in new}
    came = [column for column in new if column.name not in kept]
    pairs: list[tuple[Column, Column]] = []
    for column in old:
        twin = (
            next((other for other in came if _looks_renamed(column, other)), None) if column.name not in kept else None
        )
        if twin:
            came.remove(twin)
            pairs.append((column, twin))
    return pairs


def _looks_renamed(old: Column, new: Column) -> bool:
    same_words = bool(old.description) and old.description == new.description
    return old.type == new.type and (same_words or old.source == new.source)


def _rename(old: Column, new: Column) -> Change:
    effect = RENAMED_HERE if old.source == new.source else RENAMED
    return effect.change(_field(new.name), f"renamed: {old.name} → {new.name}")


def _source_change(old: Column, new: Column) -> Iterator[Change]:
    yield from fact_change(f"{_field(new.name)}.source", old.source, new.source, SOURCE)


def _promise_changes(name: str, old: Column, new: Column) -> Iterator[Change]:
    """What a column promises, whatever it is called."""
    field = _field(name)
    yield from fact_change(f"{field}.type", old.type, new.type, _retyping(old.type, new.type))
    yield from fact_change(f"{field}.required", old.required, new.required, REQUIRED if new.required else OPTIONAL)
    yield from _allowed_changes(f"{field}.allowed", old.allowed, new.allowed)
    for bound, weights in BOUNDS.items():
        yield from _bound_change(f"{field}.{bound}", _tightest(old.options, weights), _tightest(new.options, weights))
    for option in ("pattern", "format"):
        yield from _rule_change(f"{field}.{option}", old.options.get(option), new.options.get(option))
    yield from fact_change(
        f"{field}.timestamp_format",
        old.timestamp_format or "ISO 8601",
        new.timestamp_format or "ISO 8601",
        TIMESTAMP_FORMAT,
    )
    yield from fact_change(f"{field}.pii", old.pii, new.pii, _protection(old, new))
    yield from _reference_change(f"{field}.references", old.references, new.references)
    yield from fact_change(f"{field}.description", old.description, new.description, DESCRIBED)
    yield from other_changes(f"{field}.", old, new, COMPARED)


def _field(name: str) -> str:
    return f"columns.{name}"


def _retyping(old: str, new: str) -> Effect:
    return WIDENED if is_wider(new, old) else NARROWED if is_wider(old, new) else RETYPED


def is_wider(wide: str, narrow: str) -> bool:
    """Whether a type takes every value of another. Text takes all; a double takes any number, with 15 digits."""
    if narrow in (wide, "string"):
        return False
    if wide == "string" or (wide, narrow) == ("timestamp", "date"):
        return True
    held, needed = _digits(wide, bigint=18), _digits(narrow, bigint=19)
    return held is not None and needed is not None and held[0] >= needed[0] and held[1] >= needed[1]


def _digits(kind: str, *, bigint: int) -> tuple[float, float] | None:
    """Digits before and after the point. A bigint holds any number of 18 digits, and some of 19."""
    if decimal := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
        precision, scale = int(decimal[1]), int(decimal[2])
        return precision - scale, scale
    return {"bigint": (bigint, 0), "double": (float("inf"), float("inf"))}.get(kind)


def _protection(old: Column, new: Column) -> Effect:
    """What another handling of personal data does to Silver: hashed numbers are text."""
    if {old.pii, new.pii} <= {None, "keep"}:
        return EXPLAINED
    return PROTECTED if old.silver_type == new.silver_type else PROTECTED_AS_TEXT


def _allowed_changes(field: str, old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[Change]:
    if not old or not new:
        what = f"{show(old) if old else 'any value'} → {show(new) if new else 'any value'}"
        if old != new:
            yield (STRICTER if new else LAXER).change(field, what)
        return
    if gone := [value for value in old if value not in new]:
        yield STRICTER.change(field, f"removed {', '.join(gone)}")
    if came := [value for value in new if value not in old]:
        yield LAXER.change(field, f"added {', '.join(came)}")


BOUNDS = {
    "minimum": {"minimum": 1, "exclusiveMinimum": 1},
    "maximum": {"maximum": -1, "exclusiveMaximum": -1},
    "min_length": {"minLength": 1},
    "max_length": {"maxLength": -1},
}
"""The options that bound a value, and the sign by which the tighter of two is the larger."""

Bound = tuple[float, bool, str]
"""Signed value, whether the value itself is excluded, and the bound as text. The larger is the tighter."""


def _tightest(options: dict[str, Any], signs: dict[str, int]) -> Bound | None:
    """The bound that counts when several are given."""
    given = [
        (sign * options[name], name.startswith("exclusive"), f"{name} {options[name]}")
        for name, sign in signs.items()
        if name in options
    ]
    return max(given, default=None)


def _bound_change(field: str, old: Bound | None, new: Bound | None) -> Iterator[Change]:
    if (old and old[:2]) != (new and new[:2]):
        tighter = old is None or (new is not None and new[:2] > old[:2])
        what = f"{old[2] if old else 'none'} → {new[2] if new else 'none'}"
        yield (STRICTER if tighter else LAXER).change(field, what)


def _rule_change(field: str, old: str | None, new: str | None) -> Iterator[Change]:
    """A rule of which nobody can say whether the new one is stricter than the old."""
    yield from fact_change(field, old, new, STRICTER if old is None else LAXER if new is None else OTHERWISE)


def _reference_change(field: str, old: tuple[str, str] | None, new: tuple[str, str] | None) -> Iterator[Change]:
    before, after = (".".join(target) if target else None for target in (old, new))
    yield from fact_change(field, before, after, LINKED if old is None else UNLINKED if new is None else RELINKED)
