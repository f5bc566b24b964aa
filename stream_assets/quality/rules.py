"""The row rules a contract implies, as data. Nothing here knows Spark: `evaluate.py` turns a rule into an expression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from stream_assets.contracts.model import Column, Contract, Severity

Check = Literal[
    "type", "required", "allowed", "range", "length", "pattern", "format", "window", "expression", "unknown_field"
]

_OF_TEXT = ("malformed", "empty", "encoding", "repeated_key")
_OF_BYTES = ("unframed", "unknown_schema", "unsupported_schema", "undecodable")
RECORD_RULES = tuple(f"validity__record__{name}" for name in (*_OF_TEXT, *_OF_BYTES))
"""Rules every record is held to before its fields are looked at; at most one of them is broken."""
UNKNOWN_FIELD = "validity__record__unknown_field"
"""Broken by a record with a field the contract does not have, where the contract says so."""


@dataclass(frozen=True)
class Rule:
    """One promise about a record. Its id is what quarantine shows."""

    id: str
    check: Check
    column: str | None
    argument: Any = None
    severity: Severity = "error"
    fraction: float = 1.0
    """The share of records it looks at."""


def build_rules(contract: Contract) -> tuple[Rule, ...]:
    """Every field rule of a contract, in column order."""
    rules = [rule for column in contract.record for rule in _column_rules(column)]
    if contract.event_time:
        rules.append(
            Rule(f"validity__{contract.event_time}__window", "window", contract.event_time, contract.max_lateness)
        )
    if contract.drift == "quarantine_row":
        rules.append(Rule(UNKNOWN_FIELD, "unknown_field", None))
    families = {"consistency": "consistency", "completeness": "completeness", "uniqueness": "uniqueness"}
    for item in contract.expressions:
        family = families.get(item.dimension, "validity")
        rules.append(Rule(f"{family}__record__{item.id}", "expression", None, item.sql, item.severity))
    return tuple(replace(rule, fraction=contract.setting(rule.id).fraction or 1.0) for rule in rules)


def _column_rules(column: Column) -> list[Rule]:
    options, name = column.options, column.name
    rules = [] if column.type == "string" else [Rule(f"validity__{name}__type", "type", name)]
    if column.required:
        rules.append(Rule(f"completeness__{name}__required", "required", name))
    if column.allowed:
        rules.append(Rule(f"validity__{name}__allowed", "allowed", name, column.allowed))
    if bounds := {
        k: v for k, v in options.items() if k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    }:
        rules.append(Rule(f"validity__{name}__range", "range", name, bounds))
    if lengths := {k: v for k, v in options.items() if k in ("minLength", "maxLength")}:
        rules.append(Rule(f"validity__{name}__length", "length", name, lengths))
    patterns: tuple[Check, ...] = ("pattern", "format")
    rules += [Rule(f"validity__{name}__{check}", check, name, options[check]) for check in patterns if check in options]
    return rules
