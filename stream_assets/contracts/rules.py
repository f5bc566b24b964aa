"""Refuses rules that cannot be enforced: a rule nobody runs is worse than none."""

from __future__ import annotations

import re
from typing import Any

from stream_assets.contracts.draft import Draft, is_identifier

ROW_COUNT_BOUNDS = frozenset(
    {
        *("mustBe", "mustBeBetween", "mustBeGreaterThan", "mustBeGreaterOrEqualTo"),
        *("mustBeLessThan", "mustBeLessOrEqualTo"),
    }
)
_SQL_WORDS = frozenset(
    {
        *("and", "or", "not", "is", "null", "in", "between", "like", "rlike"),
        *("case", "when", "then", "else", "end", "true", "false", "cast", "as"),
        *("date", "timestamp", "string", "bigint", "double", "coalesce", "nullif", "abs", "length"),
        *("lower", "upper", "trim", "least", "greatest", "round", "floor", "ceil", "datediff"),
        *("to_date", "year", "month", "day", "hour", "substring", "startswith", "endswith", "contains"),
        *("concat", "interval", "days", "hours", "minutes", "if"),
    }
)
_QUERY_WORDS = frozenset({"select", "from", "table", "values", "with"})


def check_allowed_values(draft: Draft, field: str, rules: list[dict[str, Any]]) -> None:
    """The rules of a column: lists of allowed values."""
    for position, rule in enumerate(rules):
        where = f"{field}.quality[{position}]"
        _check_form(draft, where, rule)
        values = (rule.get("arguments") or {}).get("validValues")
        is_list = isinstance(values, list) and values
        is_rule = rule.get("metric") == "invalidValues" and is_list and rule.get("mustBe") == 0
        # YAML reads an unquoted NO as false: a list of countries would lose Norway.
        odd = (
            [v for v in values or () if isinstance(v, bool) or not isinstance(v, str | int | float)] if is_rule else []
        )
        draft.require(not odd, f"{where}.arguments.validValues", f"holds {odd}", "Quote it as text.")
        remedy = "Use metric: invalidValues with arguments.validValues and mustBe: 0."
        draft.require(is_rule, where, "cannot be enforced", remedy)


def check_rules(draft: Draft) -> None:
    """The rules of the table: expressions over its columns, and bounds of its row count."""
    for position, rule in enumerate(draft.table.get("quality", [])):
        where = f"schema[0].quality[{position}]"
        _check_form(draft, where, rule)
        if rule.get("metric") == "rowCount":
            _check_row_count(draft, where, rule)
        else:
            _check_expression(draft, where, rule)


def _check_form(draft: Draft, where: str, rule: dict[str, Any]) -> None:
    is_severe = rule.get("severity") in ("error", "warning")
    draft.require(is_severe, f"{where}.severity", "is missing", "Use error or warning.")
    is_named = is_identifier(rule.get("id"))
    draft.require(is_named, f"{where}.id", "is missing or not an identifier", "Name the rule.")


def _check_row_count(draft: Draft, where: str, rule: dict[str, Any]) -> None:
    given = [name for name in rule if name.startswith("mustBe")]
    values = [v for name in given for v in (rule[name] if isinstance(rule[name], list) else [rule[name]])]
    whole = all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in values)
    is_bounded = given and set(given) <= ROW_COUNT_BOUNDS and whole
    remedy = f"Use whole numbers with {', '.join(sorted(ROW_COUNT_BOUNDS))}."
    draft.require(is_bounded, where, "bounds no row count", remedy)
    draft.require(rule.get("unit", "rows") == "rows", f"{where}.unit", "is not rows", "Leave it out.")


def _check_expression(draft: Draft, where: str, rule: dict[str, Any]) -> None:
    """Allow only columns, literals, operators and known-harmless functions: an expression cannot call into the JVM or run a query."""
    body = rule.get("implementation")
    text = body.get("expression") if isinstance(body, dict) else None
    is_ours = rule.get("type") == "custom" and rule.get("engine") == "stream" and rule.get("dimension")
    remedy = "Use engine: stream with implementation.expression and a dimension, or metric: rowCount with a bound."
    draft.require(is_ours and isinstance(text, str) and text.strip(), where, "cannot be enforced", remedy)
    where = f"{where}.implementation.expression"
    bare = re.sub(r"'(?:[^'\\]|'')*'", "''", str(text))
    odd = re.search(r"--|/\*|[;`\"\\{}\[\]$@#]", bare) or bare.count("'") % 2
    remedy = "Use columns, literals and plain operators."
    draft.require(not odd, where, "holds characters a rule never needs", remedy)
    strange = _strange_words(bare, set(draft.columns))
    problem = f"uses {strange}, which is neither a column nor an allowed function"
    draft.require(not strange, where, problem, "Use columns of this contract.")


def _strange_words(expression: str, columns: set[str]) -> list[str]:
    """Words that are neither columns nor allowed. A column may be called reflect or select: as a function it is strange all the same."""
    words = set(re.findall(r"[A-Za-z_]\w*", expression))
    called = set(re.findall(r"([A-Za-z_]\w*)\s*\(", expression))
    called |= {word for word in words if word.lower() in _QUERY_WORDS}
    is_column = columns - called
    return sorted(word for word in words if word.lower() not in _SQL_WORDS and word not in is_column)
