"""Refuses contracts that are wrong, incomplete or dangerous, with the file, the field and the remedy.

Two laws apply: the official ODCS JSON schema, and our own of what a contract must say to run unattended. Ours is in one file
per part of a contract: its promises, its servers, its columns, its rules, and how strictly checks are applied.
"""

from __future__ import annotations

import importlib.resources
import json
import re
from collections import Counter
from functools import cache
from typing import Any

import jsonschema
from jsonschema.exceptions import best_match

from stream_assets.contracts.columns import MAX_COLUMNS, check_columns
from stream_assets.contracts.draft import Draft, is_identifier
from stream_assets.contracts.promises import check_promises, check_times
from stream_assets.contracts.rules import check_rules
from stream_assets.contracts.servers import check_servers
from stream_assets.errors import ContractError


def validate(file: str, document: dict[str, Any]) -> None:
    """Raise `ContractError` for the first thing that is wrong with a contract document."""
    draft = Draft(file, document)
    _check_standard(draft)
    _check_identity(draft)
    _check_table(draft)
    _check_ownership(draft)
    _check_repeats(draft)
    check_promises(draft)
    check_servers(draft)
    check_columns(draft)
    check_times(draft)
    check_rules(draft)


@cache
def _schema_validator() -> jsonschema.Draft201909Validator:
    schema = (
        importlib.resources.files("open_data_contract_standard").joinpath("schema.json").read_text(encoding="utf-8")
    )
    return jsonschema.Draft201909Validator(json.loads(schema))


def _check_standard(draft: Draft) -> None:
    """The official schema. A misspelt nested key is an error here, where the pydantic model would drop it silently."""
    tables = draft.document.get("schema")
    table = tables[0] if isinstance(tables, list) and tables else None
    properties = table.get("properties") if isinstance(table, dict) else None
    many = isinstance(properties, list) and len(properties) > MAX_COLUMNS
    draft.require(not many, "schema[0].properties", f"more than {MAX_COLUMNS} columns", "Split the dataset.")
    error = best_match(_schema_validator().iter_errors(json.loads(json.dumps(draft.document, default=str))))
    if error:
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path).lstrip(".")
        message = error.message if len(error.message) < 200 else error.message[:200] + "…"
        problem = f"breaks the Open Data Contract Standard: {message}"
        raise ContractError(draft.file, path or "document", problem, "See docs/contracts.md for the form.")


def _check_identity(draft: Draft) -> None:
    document, name = draft.document, draft.document.get("name")
    remedy = "Use lower-case letters, digits and _, at most 63."
    draft.require(is_identifier(name), "name", f"{name!r} is not a plain identifier", remedy)
    for field in ("domain", "description", "servers", "schema", "slaProperties", "team", "customProperties"):
        draft.require(document.get(field), field, "is missing", "Every contract needs it.")
    is_tag = re.fullmatch(r"[\w.-]{1,63}", str(document["domain"]), re.ASCII)
    remedy = "Use letters, digits, _, - and ., at most 63."
    draft.require(is_tag, "domain", f"{document['domain']!r} cannot be a tag", remedy)
    purpose = document["description"].get("purpose")
    draft.require(purpose, "description.purpose", "is missing", "Say in a sentence what the data is.")
    is_semantic = re.fullmatch(r"\d+\.\d+\.\d+", str(document["version"]))
    draft.require(is_semantic, "version", "is not semantic", "Use MAJOR.MINOR.PATCH.")


def _check_table(draft: Draft) -> None:
    is_one = len(draft.document["schema"]) == 1
    draft.require(is_one, "schema", "must describe exactly one table", "Use one contract per dataset.")
    table, name = draft.table, draft.document["name"]
    problem = f"is {table['name']!r}, the contract is {name!r}"
    draft.require(table["name"] == name, "schema[0].name", problem, "Use the same name.")
    field, remedy = "schema[0].dataGranularityDescription", "State the grain: one row per …"
    draft.require(table.get("dataGranularityDescription"), field, "is missing", remedy)
    draft.require(table.get("properties"), "schema[0].properties", "is missing", "List the columns.")
    remedy = "Give the column itself a relationship: {to: dataset.column}."
    draft.require(not table.get("relationships"), "schema[0].relationships", "cannot be checked", remedy)


def _check_ownership(draft: Draft) -> None:
    team = draft.document["team"]
    is_named = isinstance(team, dict) and team.get("name")
    draft.require(is_named, "team.name", "is missing", "Name the team that answers for the data.")
    owners = [m for m in team.get("members", []) if m.get("role") == "owner"]
    draft.require(owners, "team.members", "names no owner", "Give one member the role owner.")
    for owner in owners:
        reachable = re.fullmatch(r"[\w.%+-]+@[\w-]+(\.[\w-]+)+", str(owner.get("username")), re.ASCII)
        remedy = "Use the address as the username."
        draft.require(reachable, "team.members", "gives its owner no e-mail address", remedy)


def _check_repeats(draft: Draft) -> None:
    """A property given twice has two values, and nobody could say which one counts."""
    for field in ("customProperties", "slaProperties"):
        counts = Counter(item["property"] for item in draft.document[field])
        repeated = [name for name, count in counts.items() if count > 1]
        draft.require(not repeated, field, f"{repeated} appears twice", "Keep one.")
