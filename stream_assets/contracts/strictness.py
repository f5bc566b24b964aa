"""Refuses settings of checks that do not exist: a promise nobody would keep."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

from stream_assets.contracts.draft import Draft, is_number

FAMILIES = ("freshness", "completeness", "uniqueness", "validity", "consistency", "distribution")
ROW_RULES = ("type", "required", "allowed", "range", "length", "pattern", "format", "window")
CHECKS = (
    *("landed", "readable", "reconciled", "rejected_share", "warnings", "drift", "duplicate_share", "volume"),
    *("event_time", "row_count", "references", "arrived"),
)
"""The last word of the names of row rules and of checks: family__subject__word."""


def check_settings(draft: Draft) -> None:
    """How strictly each check is applied, as the custom property `checks` says."""
    columns = draft.columns
    promises = [str(rule.get("id")) for rule in draft.table.get("quality", [])]
    rules = _names(("record",), promises) | _names(columns, ROW_RULES)
    checks = rules | _names((*columns, "table", "schema", "delivery"), CHECKS)
    field, settings = "customProperties.checks", draft.custom.get("checks", [])
    remedy = "List {check, strictness, limit, fraction}."
    draft.require(isinstance(settings, list), field, "is not a list", remedy)
    for position, item in enumerate(settings):
        _check_setting(draft, f"{field}[{position}]", item, rules=rules, checks=checks)


def _check_setting(draft: Draft, where: str, item: Any, *, rules: set[str], checks: set[str]) -> None:
    names_one = isinstance(item, dict) and isinstance(item.get("check"), str)
    draft.require(names_one, where, "names no check", "Say {check: NAME, strictness: gate}.")
    strictness, fraction, limit = item.get("strictness"), item.get("fraction"), item.get("limit")
    is_sample = strictness == "sample"
    known = any(fnmatchcase(name, item["check"]) for name in (rules if is_sample else checks))
    problem = f"{item['check']!r} is no {'row rule' if is_sample else 'check or rule'} of this dataset"
    remedy = "Use a name the Dagster UI or quarantine shows; * stands for any text."
    draft.require(known, f"{where}.check", problem, remedy)
    unknown = sorted(set(item) - {"check", "strictness", "limit", "fraction"})
    draft.require(not unknown, where, f"{unknown} means nothing here", "Correct the spelling or remove it.")
    is_known = strictness in (None, "gate", "warn", "sample")
    draft.require(is_known, f"{where}.strictness", f"is {strictness!r}", "Use gate, warn or sample.")
    problem = "belongs to strictness sample, and sample needs it"
    remedy = "Say {strictness: sample, fraction: 0.1}."
    draft.require(is_sample == (fraction is not None), f"{where}.fraction", problem, remedy)
    is_share = fraction is None or (is_number(fraction) and 0 < fraction <= 1)
    draft.require(is_share, f"{where}.fraction", f"is {fraction!r}", "Use a share above 0 and up to 1.")
    is_limit = limit is None or (is_number(limit) and limit >= 0)
    draft.require(is_limit, f"{where}.limit", f"is {limit!r}", "Use a number.")


def _names(subjects: Iterable[str], words: Iterable[str]) -> set[str]:
    return {"__".join(parts) for parts in product(FAMILIES, subjects, words)}
