"""Refuses columns that could not be read, checked or protected as they are described."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from stream_assets.contracts.draft import Draft, custom_properties, is_identifier
from stream_assets.contracts.model import HISTORY_COLUMNS, RESERVED_COLUMNS
from stream_assets.contracts.rules import check_allowed_values
from stream_assets.errors import ContractError

SPARK_TYPES = {
    "string": "string",
    "integer": "bigint",
    "number": "double",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "time": "string",
    "object": "string",
    "array": "string",
}
"""Objects and arrays stay JSON text in Silver: nothing of them is lost, and Gold takes out what it needs."""
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
OPTIONS = {
    "string": {"minLength", "maxLength", "pattern", "format"},
    "integer": set(BOUNDS),
    "number": set(BOUNDS),
    "date": {"format"},
    "timestamp": {"format"},
}
FORMATS = {"email", "uuid"}
STRATEGIES = ("hash", "tokenize", "mask", "drop", "keep")
MAX_COLUMNS = 1_000
_LOOKS_PERSONAL = re.compile(
    r"(^|_)(e?mail|phone|mobile|ssn|iban|passport|full_name|first_name|last_name|birth_date|ip_address|card_number|card_holder)($|_)"
)


def looks_personal(name: str) -> bool:
    """Whether a column of this name must say how it is protected."""
    return bool(_LOOKS_PERSONAL.search(name))


def check_columns(draft: Draft) -> None:
    """Each column by itself, then their names together."""
    for position, prop in enumerate(draft.properties):
        _check_property(draft, f"schema[0].properties[{position}]", prop)
    names = draft.columns
    repeated = [name for name, count in Counter(names).items() if count > 1]
    remedy = "Rename one; the envelope's names are taken."
    draft.require(not repeated, "schema[0].properties", f"column {repeated} appears twice", remedy)
    added = HISTORY_COLUMNS if draft.custom.get("datasetKind") == "entity" else ()
    reserved = set(names) & {*RESERVED_COLUMNS, *added}
    draft.require(not reserved, "schema[0].properties", f"{sorted(reserved)} is reserved", "Rename it.")


def _check_property(draft: Draft, field: str, prop: dict[str, Any]) -> None:
    name = prop["name"]
    remedy = "Use lower-case letters, digits and _; physicalName may hold the source's spelling."
    draft.require(is_identifier(name), field, f"{name!r} is not a plain identifier", remedy)
    field = f"{field} ({name})"
    _check_type(draft, field, prop)
    _check_options(draft, field, prop)
    check_allowed_values(draft, field, prop.get("quality", []))
    unknown = set(custom_properties(prop)) - {"pii", "profile"}
    remedy = "Remove it or correct the spelling."
    draft.require(not unknown, f"{field}.customProperties", f"{sorted(unknown)} means nothing here", remedy)
    _check_profile(draft, field, prop)
    _check_pii(draft, field, prop)
    _check_relationship(draft, f"{field}.relationships", prop.get("relationships", []))


def _check_type(draft: Draft, field: str, prop: dict[str, Any]) -> None:
    kind, physical = prop.get("logicalType"), str(prop.get("physicalType", ""))
    draft.require(kind in SPARK_TYPES, field, "has no logicalType", "Give it one.")
    if kind == "number" and physical.lower().startswith("decimal"):
        match = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", physical.lower())
        fits = match and 0 <= int(match[2]) <= int(match[1]) <= 38
        remedy = "Use decimal(p,s) with s ≤ p ≤ 38."
        draft.require(fits, f"{field}.physicalType", f"{physical!r} is no decimal Spark holds", remedy)


def _check_options(draft: Draft, field: str, prop: dict[str, Any]) -> None:
    options, kind, field = prop.get("logicalTypeOptions", {}), prop["logicalType"], f"{field}.logicalTypeOptions"
    unknown = set(options) - OPTIONS.get(str(kind), set())
    problem = f"{sorted(unknown)} cannot be enforced on {kind}"
    draft.require(not unknown, field, problem, "Remove it or correct the spelling.")
    if kind == "string" and "format" in options:
        known, remedy = options["format"] in FORMATS, f"Use one of {', '.join(sorted(FORMATS))}."
        draft.require(known, f"{field}.format", f"{options['format']!r} is not known", remedy)
    sane = all(-(2**63) <= options[name] < 2**63 for name in BOUNDS if name in options)
    draft.require(sane, field, "has a bound that is no number we hold", "Correct it.")
    try:
        re.compile(options.get("pattern", ""))
    except re.error as error:
        problem = f"is no regular expression: {error}"
        raise ContractError(draft.file, f"{field}.pattern", problem, "Correct it.") from error


def _check_profile(draft: Draft, field: str, prop: dict[str, Any]) -> None:
    custom = custom_properties(prop)
    watched = custom.get("profile", False)
    draft.require(isinstance(watched, bool), f"{field}.profile", f"is {watched!r}", "Use true or false.")
    is_safe = not (watched and custom.get("pii"))
    draft.require(is_safe, f"{field}.profile", "would count personal values", "Watch another column.")


def _check_pii(draft: Draft, field: str, prop: dict[str, Any]) -> None:
    declared, field = custom_properties(prop).get("pii"), f"{field}.pii"
    if declared is None:
        is_tagged = "pii" in prop.get("tags", []) or prop.get("classification") == "restricted"
        remedy = "Add the custom property pii with a strategy: hash, tokenize, mask, drop, or keep with a reason."
        is_plain = not (is_tagged or looks_personal(prop["name"]))
        draft.require(is_plain, field, "looks personal and says nothing of its handling", remedy)
        return
    strategy = declared.get("strategy") if isinstance(declared, dict) else None
    remedy = "Use hash, tokenize, mask, drop or keep."
    draft.require(strategy in STRATEGIES, f"{field}.strategy", f"is {strategy!r}", remedy)
    is_explained = strategy != "keep" or declared.get("reason")
    draft.require(is_explained, f"{field}.reason", "is missing", "Say why personal data is kept in the clear.")
    keeps_apart = strategy not in ("drop", "mask") or not prop.get("primaryKey")
    draft.require(keeps_apart, field, "makes different keys equal", "Hash it instead.")


def _check_relationship(draft: Draft, field: str, relations: list[dict[str, Any]]) -> None:
    draft.require(len(relations) < 2, field, "points at two columns", "Keep one.")
    for relation in relations:
        target = relation.get("to")
        is_column = isinstance(target, str) and target.count(".") == 1
        draft.require(is_column, field, f"{target!r} names no column", "Use dataset.column.")
