"""Judges a run by what it counted: each check is a pure function of ledger entries, no table is read again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from stream_assets.contracts.model import Contract
from stream_assets.quality.words import span_text

Entries = Mapping[str, Mapping[str, Any]]

MAX_REJECTED = 0.05
MAX_ORPHANS = 0.01
"""What a record points at may come a little later than the record."""
MOST_ROWS = 0.5
"""A column that most records lack, or have with another type, has drifted; fewer are just bad records."""


@dataclass(frozen=True)
class Outcome:
    """Verdict of one check, with what a person needs to act."""

    name: str
    passed: bool
    summary: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Orphans:
    """Rows that point at nothing: how many per ISO day, and some of them by name."""

    rows: Mapping[str, int]
    names: tuple[str, ...]


def judge_references(contract: Contract, column: str, orphans: Orphans | None, entries: Entries) -> Outcome:
    """Few rows of a day point at nothing. None while there is nothing to compare with, which the outcome says."""
    name, target = reference_check(column), ".".join(contract.column(column).references or ())
    if orphans is None:
        return Outcome(name, True, f"there is no {target} yet to compare with", {"points_at": target})
    limit = contract.limit(name, MAX_ORPHANS)
    high = {day: n for day, n in sorted(orphans.rows.items()) if n > limit * _accepted(entries, day)}
    worst = max(high, key=lambda day: high[day], default=None)
    summary = f"every {column} is a {target}" if not orphans.rows else f"few records without their {target}"
    if worst:
        summary = f"{worst}: {high[worst]:,} of {_accepted(entries, worst):,} records point at no {target}"
    facts = {"points_at": target, "limit": limit, "orphans": dict(orphans.rows), "days_above": high}
    return Outcome(name, not high, summary, facts | ({"sample": [*orphans.names]} if high else {}))


def reference_check(column: str) -> str:
    """The name of the check that what a column points at exists."""
    return f"consistency__{column}__references"


def _accepted(entries: Entries, day: str) -> int:
    return entries.get(day, {}).get("accepted", 0)


def judge_reconciliation(entries: Entries, landed: Mapping[str, int]) -> Outcome:
    """Every record Bronze holds for a day is accepted, quarantined or a duplicate. `landed` is counted in Bronze itself."""
    wrong = {}
    for day, e in entries.items():
        parts = e["accepted"] + e["quarantined"] + e["duplicates"]
        if not parts == e["rows_in"] == landed.get(day, 0):
            wrong[day] = {"in_bronze": landed.get(day, 0), "rows_in": e["rows_in"], "accounted_for": parts}
    totals = {
        name: sum(e[name] for e in entries.values()) for name in ("rows_in", "accepted", "quarantined", "duplicates")
    }
    summary = "{rows_in:,} in = {accepted:,} accepted + {quarantined:,} quarantined + {duplicates:,} duplicates".format(
        **totals
    )
    return Outcome(
        "completeness__table__reconciled",
        not wrong,
        summary if not wrong else f"{len(wrong)} days do not add up",
        totals | {"wrong_days": wrong},
    )


def judge_rules(entries: Entries, family: str, limit: float = MAX_REJECTED) -> Outcome:
    """The share of records that broke a rule of this family stays small, day by day."""
    shares = {day: _broken(e, family) / e["rows_in"] for day, e in entries.items() if e["rows_in"]}
    worst = max(shares, key=lambda day: shares[day], default=None)
    high = {day: round(share, 4) for day, share in shares.items() if share > limit}
    rules: dict[str, int] = {}
    for e in entries.values():
        for rule, count in _of_family(e, family).items():
            rules[rule] = rules.get(rule, 0) + count
    summary = f"worst day {worst}: {shares[worst]:.2%} of records (limit {limit:.1%})" if worst else "no records"
    return Outcome(
        f"{family}__table__rejected_share",
        not high,
        summary,
        {"limit": limit, "days_above": high, "rows_per_rule": rules},
    )


def _broken(entry: Mapping[str, Any], family: str) -> int:
    """Upper bound of the records that broke a rule of the family (one record may break several)."""
    return min(sum(_of_family(entry, family).values()), entry["quarantined"])


def _of_family(entry: Mapping[str, Any], family: str) -> dict[str, int]:
    """The broken rules of a family. What is not about missing values is about validity, promises between fields included."""
    is_missing = family == "completeness"
    return {rule: n for rule, n in entry["violations"].items() if rule.startswith("completeness__") == is_missing}


def judge_warnings(entries: Entries) -> Outcome:
    """No record broke a rule of severity warning. Such records are accepted; somebody should know."""
    rules: dict[str, int] = {}
    for e in entries.values():
        for rule, count in e.get("warnings", {}).items():
            rules[rule] = rules.get(rule, 0) + count
    summary = f"{sum(rules.values()):,} times a rule of severity warning was broken" if rules else "no warnings"
    return Outcome("validity__table__warnings", not rules, summary, {"rows_per_rule": rules})


def judge_freshness(contract: Contract, newest: datetime | None, now: datetime) -> Outcome:
    """The newest event is not older than the target, whatever was materialized when."""
    age = now - newest if newest else None
    limit = contract.freshness_limit
    passed = age is not None and age <= limit
    summary = (
        f"newest event {newest:%Y-%m-%d %H:%M} UTC, {span_text(age)} old (target {span_text(limit)})"
        if newest and age is not None
        else "no event yet"
    )
    return Outcome(
        "freshness__table__event_time", passed, summary, {"newest_event": newest.isoformat() if newest else None}
    )


def judge_arrival(contract: Contract, newest: datetime | None, now: datetime) -> Outcome:
    """The newest delivery arrived within the target, whatever its records are about."""
    age = now - newest if newest else None
    limit = contract.freshness_limit
    summary = f"last file {span_text(age)} ago (target {span_text(limit)})" if age is not None else "no delivery yet"
    facts = {"last_arrival": newest.isoformat() if newest else None}
    return Outcome("freshness__delivery__arrived", age is not None and age <= limit, summary, facts)


def judge_delivery(rows: Mapping[Any, int], expected: Mapping[Any, int]) -> Outcome:
    """Bronze holds as many records as the files do, counted without Spark."""
    wrong = {
        str(day): {"in_files": n, "in_bronze": rows.get(day, 0)} for day, n in expected.items() if rows.get(day, 0) != n
    }
    summary = (
        f"{sum(expected.values()):,} records in the files, all in Bronze" if not wrong else f"{len(wrong)} days differ"
    )
    return Outcome("completeness__delivery__landed", not wrong, summary, {"wrong_days": wrong})


def judge_files(problems: Sequence[Any], incomplete: Sequence[Any]) -> Outcome:
    """Every file of the delivery could be read and the producer had finished."""
    facts = {
        "unreadable": {p.source: p.problem for p in problems},
        "still_being_written": [str(day) for day in incomplete],
    }
    summary = (
        "every file was read"
        if not problems and not incomplete
        else f"{len(problems)} files set aside, {len(incomplete)} deliveries still being written"
    )
    return Outcome("validity__delivery__readable", not problems and not incomplete, summary, facts)


def judge_row_count(contract: Contract, entries: Entries) -> Outcome:
    """Each day has as many accepted records as the contract promises."""
    low = max((b.minimum for b in contract.row_counts if b.minimum is not None), default=0)
    high = min((b.maximum for b in contract.row_counts if b.maximum is not None), default=math.inf)
    odd = {day: e["accepted"] for day, e in entries.items() if not low <= e["accepted"] <= high}
    promised = f"at least {low:,.0f}" if high == math.inf else f"{low:,.0f} to {high:,.0f}"
    summary = f"{len(odd)} days without the promised {promised} records" if odd else f"{promised} records on every day"
    return Outcome("completeness__table__row_count", not odd, summary, {"promised": promised, "odd_days": odd})


def judge_drift(contract: Contract, entries: Entries) -> Outcome:
    """Records carry the contract's columns, no more and no less, with values of their types.

    Where the contract discards unknown columns, they are told and nothing fails.
    """
    drifted = {day: found for day, e in entries.items() if (found := _drift_of(contract, e))}
    tolerated = contract.drift == "discard_column" and all(set(found) == {"new"} for found in drifted.values())
    last = max(drifted, default=None)
    summary = "columns as promised"
    if last:
        told = "; ".join(f"{kind} {', '.join(names)}" for kind, names in drifted[last].items())
        summary = f"{len(drifted)} days differ from the contract, last {last}: {told}"
        summary += " (discarded, as the contract says)" if tolerated else ""
    facts = {"drift": drifted, "reaction": contract.drift}
    if drifted and not tolerated:
        facts["proposal"] = f"stream contracts propose {contract.name}"
    return Outcome("validity__schema__drift", not drifted or tolerated, summary, facts)


def _drift_of(contract: Contract, entry: Mapping[str, Any]) -> dict[str, list[str]]:
    """What differs on one day, by kind: new, missing, retyped and renamed-looking columns."""
    broken, rows = entry["violations"], max(entry["rows_in"], 1)
    gone = [c.name for c in contract.record if broken.get(f"completeness__{c.name}__required", 0) / rows > MOST_ROWS]
    missing, new = [*entry["missing_columns"], *gone], list(entry["new_columns"])
    renamed = [f"{old} → {close[0]}" for old in missing if (close := get_close_matches(old, new, n=1, cutoff=0.6))]
    retyped = [c.name for c in contract.record if broken.get(f"validity__{c.name}__type", 0) / rows > MOST_ROWS]
    found = {"new": new, "missing": missing, "retyped": retyped, "renamed-looking": renamed}
    return {kind: names for kind, names in found.items() if names}
