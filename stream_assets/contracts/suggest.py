"""Suggests rules that the history of a dataset has always kept, with the evidence for each.

Decisions only: what is known of the history comes as a `Survey`. What the contract already promises is not suggested, and
no value of a personal column is ever shown. Whether a habit is a promise is for people to say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from stream_assets.contracts.evidence import (
    MAX_VALUES,
    SHAPES,
    STRUCTURED,
    TAGGED,
    ColumnFacts,
    Shape,
    Survey,
    is_identifier,
    is_number,
    is_open,
    surveyed,
)
from stream_assets.contracts.model import Column, Contract

Confidence = Literal["high", "medium", "low"]

ENOUGH_ROWS = 1_000
"""What fewer rows have in common may be chance."""
ENOUGH_FOR_REQUIRED = 100
"""A value in each of so many rows is a habit, even if a weak one."""
ENOUGH_DAYS = 3
"""Fewer days have no last third in which something new could have come."""
MANY_ROWS, MANY_DAYS = 10_000, 14
MARGIN = 1.25
"""Extremes of the past are not those of the future: bounds leave a quarter more, then round outward."""
MAX_BOUND = 2**63
MAX_VALUE_TEXT = 60
MAX_ID = 63


@dataclass(frozen=True)
class Suggestion:
    """A rule that could be promised."""

    rule: str
    """The id it would have."""
    fragment: dict[str, Any]
    """What to add to the table's `properties` or `quality`, in the contract's own form."""
    evidence: str
    confidence: Confidence


def suggest(contract: Contract, survey: Survey) -> list[Suggestion]:
    """Every rule that the history has kept and the contract does not promise yet."""
    columns = [(column, survey.columns[column.name]) for column in surveyed(contract)]
    return [
        *(made for column, facts in columns for made in _column_suggestions(contract, column, facts, survey)),
        *_orders(contract, survey),
        *_references(contract, survey),
    ]


def _column_suggestions(contract: Contract, column: Column, facts: ColumnFacts, survey: Survey) -> Iterator[Suggestion]:
    yield from _required(column, facts, survey)
    if not is_open(column) or facts.present < ENOUGH_ROWS:
        return
    yield from _unique(contract, column, facts, survey)
    if is_number(column) and not is_identifier(column, contract):
        yield from _range(column, facts, survey)
    if column.type == "string" and not column.allowed and not facts.matching.get(STRUCTURED):
        # The first that fits says most; the others would repeat it.
        listed = [] if is_identifier(column, contract) else _allowed(column, facts, survey)
        yield from listed or _shape(column, facts, survey) or _length(column, facts, survey)


def _required(column: Column, facts: ColumnFacts, survey: Survey) -> Iterator[Suggestion]:
    if not column.required and facts.present == survey.rows >= ENOUGH_FOR_REQUIRED:
        evidence = f"No null in {_scope(survey.rows, survey)}."
        fragment = _property(column, required=True)
        yield Suggestion(f"completeness__{column.name}__required", fragment, evidence, _confidence(survey.rows, survey))


def _unique(contract: Contract, column: Column, facts: ColumnFacts, survey: Survey) -> Iterator[Suggestion]:
    """Versions of an entity repeat its values, so only events and reference data can tell."""
    is_known = column.unique or contract.key == (column.name,)
    if facts.is_unique and not is_known and contract.kind != "entity" and not is_number(column):
        evidence = f"No value twice in {_scope(facts.present, survey)}. Stated for readers: records are only deduplicated by key."
        fragment = _property(column, unique=True)
        yield Suggestion(f"uniqueness__{column.name}__unique", fragment, evidence, _confidence(facts.present, survey))


def _range(column: Column, facts: ColumnFacts, survey: Survey) -> Iterator[Suggestion]:
    if facts.smallest is None or facts.largest is None or facts.smallest == facts.largest:
        return
    options = column.options
    bounds: dict[str, float | int] = {}
    if not {"minimum", "exclusiveMinimum"} & options.keys():
        bounds["minimum"] = lower_bound(facts.smallest)
    if not {"maximum", "exclusiveMaximum"} & options.keys():
        bounds["maximum"] = upper_bound(facts.largest)
    if bounds and all(math.isfinite(bound) and abs(bound) < MAX_BOUND for bound in bounds.values()):
        seen = f"Between {facts.smallest:,} and {facts.largest:,} in {_scope(facts.present, survey)}."
        fragment = _property(column, logicalTypeOptions=bounds)
        yield Suggestion(f"validity__{column.name}__range", fragment, seen, _guess(facts.present, survey))


def lower_bound(smallest: float) -> float | int:
    """A friendly number that leaves room below: zero for amounts, else one below with a margin."""
    return 0 if smallest >= 0 else -_friendly(-smallest * MARGIN)


def upper_bound(largest: float) -> float | int:
    """A friendly number that leaves room above: zero for negative amounts, else one above with a margin."""
    return 0 if largest <= 0 else _friendly(largest * MARGIN)


def _friendly(size: float) -> float | int:
    """The smallest of 1, 2 and 5 times a power of ten that is not below."""
    if not math.isfinite(size):
        return size
    power = math.floor(math.log10(size))
    steps = [float(f"{step}e{power}") for step in (1, 2, 5, 10)]
    found = next((step for step in steps if step >= size), float(f"1e{power + 2}"))
    return int(found) if found.is_integer() else found


def _allowed(column: Column, facts: ColumnFacts, survey: Survey) -> list[Suggestion]:
    """A list of values, if nothing new came in the last third of the days."""
    is_short = 0 < len(facts.values) <= MAX_VALUES and all(len(value) <= MAX_VALUE_TEXT for value in facts.values)
    if not is_short or len(survey.days) < ENOUGH_DAYS:
        return []
    days = sorted(survey.days)
    last_third = days[len(days) - len(days) // 3 :]
    if max(facts.values.values()) >= last_third[0]:
        return []
    rule = {
        "id": f"{column.name}_known"[:MAX_ID],
        "metric": "invalidValues",
        "arguments": {"validValues": sorted(facts.values)},
        "mustBe": 0,
        "dimension": "conformity",
        "severity": "error",
    }
    evidence = (
        f"{len(facts.values)} distinct values in {_scope(facts.present, survey)}, none of them new in the last "
        f"{len(last_third)} days."
    )
    fragment = _property(column, quality=[rule])
    return [Suggestion(f"validity__{column.name}__allowed", fragment, evidence, _confidence(facts.present, survey))]


def _shape(column: Column, facts: ColumnFacts, survey: Survey) -> list[Suggestion]:
    if {"pattern", "format"} & column.options.keys():
        return []
    fitting = next((shape for shape in SHAPES if facts.matching.get(shape) == facts.present), None)
    promised = _narrowed(fitting, facts.prefix) if fitting else None
    if promised is None:
        return []
    evidence = f"100% of {_scope(facts.present, survey)} have this form."
    fragment = _property(column, logicalTypeOptions={promised.option: promised.argument})
    rule = f"validity__{column.name}__{promised.option}"
    return [Suggestion(rule, fragment, evidence, _confidence(facts.present, survey))]


def _narrowed(shape: Shape, prefix: str) -> Shape | None:
    """Identifiers that all begin alike promise that beginning; without one there is nothing in common."""
    if shape != TAGGED:
        return shape
    tag = re.match("[a-z]{2,8}_", prefix)
    return Shape("pattern", f"^{tag[0]}[0-9a-z]+$") if tag else None


def _length(column: Column, facts: ColumnFacts, survey: Survey) -> list[Suggestion]:
    options = column.options
    if not facts.longest or {"pattern", "format", "minLength", "maxLength"} & options.keys():
        return []
    is_fixed = facts.shortest == facts.longest
    longest = facts.longest if is_fixed else int(upper_bound(facts.longest))
    shortest = facts.longest if is_fixed else min(facts.shortest or 0, 1)
    lengths = {"minLength": shortest, "maxLength": longest} if shortest else {"maxLength": longest}
    seen = f"Always {facts.longest}" if is_fixed else f"{facts.shortest} to {facts.longest}"
    evidence = f"{seen} characters in {_scope(facts.present, survey)}."
    fragment = _property(column, logicalTypeOptions=lengths)
    return [Suggestion(f"validity__{column.name}__length", fragment, evidence, _guess(facts.present, survey))]


def _orders(contract: Contract, survey: Survey) -> Iterator[Suggestion]:
    """Two columns of which one was never above the other; always equal ones say nothing of their order."""
    for (one, other), facts in survey.orders.items():
        if facts.rows < ENOUGH_ROWS or (facts.not_above == facts.rows) == (facts.not_below == facts.rows):
            continue
        low, high = (one, other) if facts.not_above == facts.rows else (other, one)
        if _promises_order(contract, low, high):
            continue
        rule = {
            "id": f"{low}_within_{high}"[:MAX_ID],
            "type": "custom",
            "engine": "stream",
            "implementation": {"expression": f"{low} <= {high}"},
            "dimension": "consistency",
            "severity": "error",
        }
        evidence = f"It held in 100% of {_scope(facts.rows, survey)} that have both."
        yield Suggestion(
            f"consistency__record__{rule['id']}", {"quality": [rule]}, evidence, _confidence(facts.rows, survey)
        )


def _promises_order(contract: Contract, low: str, high: str) -> bool:
    stated = rf"\b{low}\s*<=?\s*{high}\b|\b{high}\s*>=?\s*{low}\b"
    return any(re.search(stated, expression.sql, re.IGNORECASE) for expression in contract.expressions)


def _references(contract: Contract, survey: Survey) -> Iterator[Suggestion]:
    for (name, target), facts in survey.references.items():
        present = survey.columns[name].present
        if present < ENOUGH_ROWS or facts.orphans or contract.column(name).references:
            continue
        where = f"{target.dataset}.{target.column}"
        evidence = f"All {facts.values:,} distinct values in {_scope(present, survey)} are in {where}."
        fragment = _property(contract.column(name), relationships=[{"to": where}])
        yield Suggestion(f"consistency__{name}__reference", fragment, evidence, _confidence(present, survey))


def _property(column: Column, **promise: Any) -> dict[str, Any]:
    return {"properties": [{"name": column.name, **promise}]}


def _scope(rows: int, survey: Survey) -> str:
    """The rows that speak for a rule: how many, over how many days, and their share if it is not all."""
    days = f"{len(survey.days)} {'day' if len(survey.days) == 1 else 'days'}"
    share = "" if rows == survey.rows else f", {rows / survey.rows:.1%} of all"
    return f"{rows:,} rows ({days}{share})"


def _confidence(rows: int, survey: Survey) -> Confidence:
    if rows >= MANY_ROWS and len(survey.days) >= MANY_DAYS:
        return "high"
    return "medium" if rows >= ENOUGH_ROWS and len(survey.days) >= ENOUGH_DAYS else "low"


def _guess(rows: int, survey: Survey) -> Confidence:
    """Where a bound lies is never certain."""
    found = _confidence(rows, survey)
    return "medium" if found == "high" else found
