"""Compares two versions of a contract: what changed, which way, and why that matters to whom. Columns: `diff_columns.py`.

Nothing is read here (see `revisions.py`) and nothing judged (see `versions.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stream_assets.contracts.change import Change, Effect, fact_change, other_changes, scale_change
from stream_assets.contracts.diff_columns import column_changes, find_renames
from stream_assets.contracts.model import Contract, DriftReaction, Expression

DOCS = Effect("patch", "neutral", "Words and names of people: the rows stay as they are.")
DETAILS = Effect("patch", "neutral", "Something was edited that the pipeline does not read.")

FACTS: Mapping[str, Effect] = {
    "kind": Effect("major", "neutral", "Each kind keeps other rows and columns in Silver: readers meet another table."),
    "envelope": Effect(
        "major", "neutral", "Producers have to wrap records another way, and the envelope's columns come or go."
    ),
    "landing_path": Effect("major", "neutral", "Producers have to deliver to another place; the old one is not read."),
    "format": Effect("major", "neutral", "Producers have to deliver files of another format; others are set aside."),
    "live_servers": Effect(
        "minor", "neutral", "The same records can be read from another place, or no longer from one."
    ),
    "purpose": DOCS,
    "grain": DOCS,
    "domain": DOCS,
    "team": DOCS,
    "owner": DOCS,
}
"""Values that are simply others."""

ROLES: Mapping[str, Effect] = {
    "key": Effect("major", "neutral", "Other records count as the same one: the rows of the table are others."),
    "event_time": Effect("major", "neutral", "Records belong to other days: history moves between partitions."),
    "order_by": Effect("major", "neutral", "Another version of a record may win: readers see other values."),
}
"""Values that name columns; a column that was renamed plays the same role."""

SCALES: Mapping[str, tuple[Effect, Effect]] = {
    "freshness": (
        Effect("major", "loosens", "Readers may get older data than they were promised."),
        Effect("minor", "tightens", "Readers are promised newer data; alarms come sooner."),
    ),
    "tier": (
        Effect("major", "loosens", "Readers are promised fewer fresh hours a month."),
        Effect("minor", "tightens", "Readers are promised more fresh hours a month; the error budget shrinks."),
    ),
    "cadence": (
        Effect("minor", "loosens", "Producers may deliver less often; the freshness target still holds."),
        Effect("major", "tightens", "Producers have to deliver more often."),
    ),
    "max_lateness": (
        Effect("major", "loosens", "Days that readers took for final can change for longer."),
        Effect("major", "tightens", "Late records that were accepted are quarantined."),
    ),
    "retention": (
        Effect("minor", "tightens", "History is kept for longer."),
        Effect("major", "loosens", "History that readers may use is deleted earlier."),
    ),
    "history_start": (
        Effect("major", "loosens", "Days at the start of history go away."),
        Effect("minor", "tightens", "History begins earlier."),
    ),
    "min_keep": (
        Effect("major", "tightens", "A smaller delivery that was accepted is refused."),
        Effect("minor", "loosens", "A smaller delivery may replace the last one."),
    ),
}
"""Ordered values, with the effect of more and of less."""

STRICTNESS: Mapping[DriftReaction, int] = {"evolve": 0, "discard_column": 0, "quarantine_row": 1, "freeze": 2}
"""How much a reaction to unknown columns asks of who delivers."""


COMPARED = {*FACTS, *ROLES, *SCALES, "servers", "columns", "expressions", "drift", "null_values"}
IDENTITY = {"name", "version", "file", "fingerprint"}
"""What a contract is called, not what it says."""


def diff_contracts(old: Contract, new: Contract) -> list[Change]:
    """Every difference between two versions of one contract, in the order a contract is read."""
    changes = [
        *_fact_changes(old, new),
        *_role_changes(old, new),
        *column_changes(old.columns, new.columns),
        *_expression_changes(old.expressions, new.expressions),
        *_scale_changes(old, new),
        *_drift_change(old.drift, new.drift),
        *_null_changes(old, new),
        *other_changes("", old, new, COMPARED | IDENTITY),
    ]
    unexplained = not changes and old.version == new.version and old.fingerprint != new.fingerprint
    return [DETAILS.change("document", "edited")] if unexplained else changes


def _fact_changes(old: Contract, new: Contract) -> Iterator[Change]:
    for name, effect in FACTS.items():
        yield from fact_change(name, getattr(old, name), getattr(new, name), effect)


def _role_changes(old: Contract, new: Contract) -> Iterator[Change]:
    renames = {before.name: after.name for before, after in find_renames(old.columns, new.columns)}
    for name, effect in ROLES.items():
        before, after = _names(getattr(old, name)), _names(getattr(new, name))
        yield from fact_change(name, tuple(renames.get(column, column) for column in before), after, effect)


def _names(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,) if value else ()


def _scale_changes(old: Contract, new: Contract) -> Iterator[Change]:
    for name, (up, down) in SCALES.items():
        yield from scale_change(name, getattr(old, name), getattr(new, name), up=up, down=down)


def _drift_change(old: DriftReaction, new: DriftReaction) -> Iterator[Change]:
    asked = STRICTNESS[new] - STRICTNESS[old]
    if asked > 0:
        effect = Effect("major", "tightens", "Records with unknown columns that were accepted are stopped.")
    elif asked < 0:
        effect = Effect("minor", "loosens", "Records with unknown columns are let in; known columns stay as they are.")
    elif new == "discard_column":
        effect = Effect("major", "neutral", "Columns that came in by drift stop: readers of them find nothing.")
    else:
        effect = Effect("minor", "neutral", "Unknown columns are kept instead of dropped.")
    yield from fact_change("drift", old, new, effect)


def _null_changes(old: Contract, new: Contract) -> Iterator[Change]:
    before, after = set(old.null_values), set(new.null_values)
    if added := after - before:
        reason = "These texts are read as missing: required columns reject them, readers find null in their place."
        yield Effect("major", "tightens", reason).change("null_values", f"added {_quoted(added)}")
    if removed := before - after:
        reason = "These texts are read as values again: readers meet them where they found null."
        yield Effect("major", "loosens", reason).change("null_values", f"removed {_quoted(removed)}")


def _quoted(texts: set[str]) -> str:
    return ", ".join(map(repr, sorted(texts)))


def _expression_changes(old: tuple[Expression, ...], new: tuple[Expression, ...]) -> Iterator[Change]:
    before, after = {rule.id: rule for rule in old}, {rule.id: rule for rule in new}
    for name in [*before, *[name for name in after if name not in before]]:
        field = f"rules.{name}"
        if name not in after:
            yield _removed_rule(before[name]).change(field, f"removed: {before[name].sql}")
        elif name not in before:
            yield _added_rule(after[name]).change(field, f"added: {after[name].sql}")
        else:
            yield from _rule_changes(field, before[name], after[name])


def _added_rule(rule: Expression) -> Effect:
    if rule.severity == "error":
        return Effect("major", "tightens", "Records that were accepted are quarantined when they break it.")
    return Effect("minor", "tightens", "Records that break it are still accepted; somebody is told.")


def _removed_rule(rule: Expression) -> Effect:
    if rule.severity == "error":
        return Effect("major", "loosens", "Readers meet records that were kept from them.")
    return Effect("minor", "loosens", "Nobody is told any more; the rows stay as they are.")


def _rule_changes(field: str, old: Expression, new: Expression) -> Iterator[Change]:
    rejects = "error" in (old.severity, new.severity)
    other = (
        Effect("major", "neutral", "Other records are rejected: producers and readers may both meet a surprise.")
        if rejects
        else Effect("minor", "neutral", "Other records raise the warning; the rows stay as they are.")
    )
    renamed = Effect("minor", "neutral", "The rule is counted under another name.")
    effect = _added_rule(new) if new.severity == "error" else _removed_rule(old)
    yield from fact_change(field, old.sql, new.sql, other)
    yield from fact_change(f"{field}.severity", old.severity, new.severity, effect)
    yield from fact_change(f"{field}.dimension", old.dimension, new.dimension, renamed)
    yield from fact_change(f"{field}.description", old.description, new.description, DOCS)
