"""Refuses contracts that are wrong, incomplete or dangerous, with the file, the field and the remedy.

Two laws apply: the official ODCS JSON schema, and our own list of what a contract must say to run unattended.
"""

from __future__ import annotations

import importlib.resources
import json
import re
from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from typing import Any

import jsonschema
from jsonschema.exceptions import best_match

from stream_assets.contracts.model import ENVELOPE, HISTORY_COLUMNS, RESERVED_COLUMNS
from stream_assets.contracts.require import require
from stream_assets.contracts.servers import check_servers
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
CUSTOM_PROPERTIES = frozenset(
    [
        "datasetKind",
        "envelope",
        "eventTime",
        "orderBy",
        "maxLateness",
        "slaTier",
        "cadence",
        "onInvalid",
        "replay",
        "minKeep",
        "schemaDrift",
        "nullValues",
        "checks",
    ]
)
ROW_COUNT_BOUNDS = {
    "mustBe",
    "mustBeBetween",
    "mustBeGreaterThan",
    "mustBeGreaterOrEqualTo",
    "mustBeLessThan",
    "mustBeLessOrEqualTo",
}
FAMILIES = ("freshness", "completeness", "uniqueness", "validity", "consistency", "distribution")
ROW_RULES = ("type", "required", "allowed", "range", "length", "pattern", "format", "window")
CHECKS = (
    *("landed", "readable", "reconciled", "rejected_share", "warnings", "drift", "duplicate_share", "volume"),
    *("event_time", "row_count", "references", "arrived"),
)
"""The last word of the names of row rules and of checks: family__subject__word."""
MAX_COLUMNS = 1_000
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,62}")
_LOOKS_PERSONAL = re.compile(
    r"(^|_)(e?mail|phone|mobile|ssn|iban|passport|full_name|first_name|last_name|birth_date|ip_address|card_number|card_holder)($|_)"
)
_SQL_WORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "is",
        "null",
        "in",
        "between",
        "like",
        "rlike",
        "case",
        "when",
        "then",
        "else",
        "end",
        "true",
        "false",
        "cast",
        "as",
        "date",
        "timestamp",
        "string",
        "bigint",
        "double",
        "coalesce",
        "nullif",
        "abs",
        "length",
        "lower",
        "upper",
        "trim",
        "least",
        "greatest",
        "round",
        "floor",
        "ceil",
        "datediff",
        "to_date",
        "year",
        "month",
        "day",
        "hour",
        "substring",
        "startswith",
        "endswith",
        "contains",
        "concat",
        "interval",
        "days",
        "hours",
        "minutes",
        "if",
    ]
)


_QUERY_WORDS = frozenset({"select", "from", "table", "values", "with"})


def validate(file: str, document: dict[str, Any]) -> None:
    """Raise `ContractError` for the first thing that is wrong with a contract document."""
    _check_standard(file, document)
    _check_identity(file, document)
    _check_ownership(file, document)
    _check_repeats(file, document)
    _check_promises(file, document)
    check_servers(file, document)
    for position, prop in enumerate(document["schema"][0]["properties"]):
        _check_property(file, f"schema[0].properties[{position}]", prop)
    _check_times(file, document)
    _check_columns(file, document)
    _check_expressions(file, document)


def parse_duration(text: object) -> timedelta | None:
    """Read `30m`, `2h`, `7d`, `3y`; None if it is none of these, or longer than anyone keeps anything."""
    match = re.fullmatch(r"(\d{1,6})\s*([mhdy])", str(text), re.ASCII)
    if not match:
        return None
    count = int(match[1])
    return {
        "m": timedelta(minutes=count),
        "h": timedelta(hours=count),
        "d": timedelta(days=count),
        "y": timedelta(days=365 * count),
    }[match[2]]


def sla_duration(item: dict[str, Any]) -> timedelta | None:
    """Read the value and unit of a service level; None if there is no such unit (a month has no fixed length)."""
    unit = str(item.get("unit", ""))
    known = re.fullmatch(r"m|min|minutes?|h|hours?|d|days?|y|yr|years?", unit)
    return parse_duration(f"{item['value']}{unit[0]}") if known else None


def looks_personal(name: str) -> bool:
    """Whether a column of this name must say how it is protected."""
    return bool(_LOOKS_PERSONAL.search(name))


@cache
def _schema_validator() -> jsonschema.Draft201909Validator:
    schema = (
        importlib.resources.files("open_data_contract_standard").joinpath("schema.json").read_text(encoding="utf-8")
    )
    return jsonschema.Draft201909Validator(json.loads(schema))


def _check_standard(file: str, document: dict[str, Any]) -> None:
    """The official schema. A misspelt nested key is an error here, where the pydantic model would drop it silently."""
    tables = document.get("schema")
    table = tables[0] if isinstance(tables, list) and tables else None
    properties = table.get("properties") if isinstance(table, dict) else None
    many = isinstance(properties, list) and len(properties) > MAX_COLUMNS
    require(not many, file, "schema[0].properties", f"more than {MAX_COLUMNS} columns", "Split the dataset.")
    error = best_match(_schema_validator().iter_errors(json.loads(json.dumps(document, default=str))))
    if error:
        path = (
            "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path).lstrip(".") or "document"
        )
        message = error.message if len(error.message) < 200 else error.message[:200] + "…"
        raise ContractError(
            file, path, f"breaks the Open Data Contract Standard: {message}", "See docs/contracts.md for the form."
        )


def _check_identity(file: str, document: dict[str, Any]) -> None:
    name = document.get("name")
    require(
        _is_identifier(name),
        file,
        "name",
        f"{name!r} is not a plain identifier",
        "Use lower-case letters, digits and _, at most 63.",
    )
    for field in ("domain", "description", "servers", "schema", "slaProperties", "team", "customProperties"):
        require(document.get(field), file, field, "is missing", "Every contract needs it.")
    require(
        re.fullmatch(r"[\w.-]{1,63}", str(document["domain"]), re.ASCII),
        file,
        "domain",
        f"{document['domain']!r} cannot be a tag",
        "Use letters, digits, _, - and ., at most 63.",
    )
    require(
        document["description"].get("purpose"),
        file,
        "description.purpose",
        "is missing",
        "Say in a sentence what the data is.",
    )
    require(
        re.fullmatch(r"\d+\.\d+\.\d+", str(document["version"])),
        file,
        "version",
        "is not semantic",
        "Use MAJOR.MINOR.PATCH.",
    )
    require(
        len(document["schema"]) == 1, file, "schema", "must describe exactly one table", "Use one contract per dataset."
    )
    table = document["schema"][0]
    require(
        table["name"] == name,
        file,
        "schema[0].name",
        f"is {table['name']!r}, the contract is {name!r}",
        "Use the same name.",
    )
    require(
        table.get("dataGranularityDescription"),
        file,
        "schema[0].dataGranularityDescription",
        "is missing",
        "State the grain: one row per …",
    )
    require(table.get("properties"), file, "schema[0].properties", "is missing", "List the columns.")
    require(
        not table.get("relationships"),
        file,
        "schema[0].relationships",
        "cannot be checked",
        "Give the column itself a relationship: {to: dataset.column}.",
    )


def _check_ownership(file: str, document: dict[str, Any]) -> None:
    team = document["team"]
    require(
        isinstance(team, dict) and team.get("name"),
        file,
        "team.name",
        "is missing",
        "Name the team that answers for the data.",
    )
    owners = [m for m in team.get("members", []) if m.get("role") == "owner"]
    require(owners, file, "team.members", "names no owner", "Give one member the role owner.")
    for owner in owners:
        reachable = re.fullmatch(r"[\w.%+-]+@[\w-]+(\.[\w-]+)+", str(owner.get("username")), re.ASCII)
        require(
            reachable, file, "team.members", "gives its owner no e-mail address", "Use the address as the username."
        )


def _check_repeats(file: str, document: dict[str, Any]) -> None:
    """A property given twice has two values, and nobody could say which one counts."""
    for field in ("customProperties", "slaProperties"):
        counts = Counter(item["property"] for item in document[field])
        repeated = [name for name, count in counts.items() if count > 1]
        require(not repeated, file, field, f"{repeated} appears twice", "Keep one.")


def _check_promises(file: str, document: dict[str, Any]) -> None:
    """Kind, keys, time, tier, freshness, invalid records, replay and retention (what lets it run unattended)."""
    custom = {item["property"]: item["value"] for item in document["customProperties"]}
    columns = {p["name"] for p in document["schema"][0]["properties"]} | {
        c.name for c in ENVELOPE if custom.get("envelope")
    }
    field = "customProperties.{}".format
    unknown = sorted(set(custom) - CUSTOM_PROPERTIES)
    require(
        not unknown, file, "customProperties", f"{unknown} means nothing here", "Correct the spelling or remove it."
    )
    nulls = custom.get("nullValues", [])
    require(isinstance(nulls, list), file, field("nullValues"), "is not a list", "List the texts that mean missing.")
    kind = custom.get("datasetKind")
    require(
        kind in ("event", "entity", "reference"),
        file,
        field("datasetKind"),
        f"is {kind!r}",
        "Use event, entity or reference.",
    )
    envelope = custom.get("envelope", False)
    require(isinstance(envelope, bool), file, field("envelope"), f"is {envelope!r}", "Use true or false.")
    needed = () if kind == "reference" else ("eventTime", "orderBy")
    for name in needed:
        require(
            custom.get(name), file, field(name), "is missing", f"Name the column that gives the {name} of a record."
        )
    for name in ("eventTime", "orderBy"):
        value = custom.get(name)
        require(
            value is None or (isinstance(value, str) and value in columns),
            file,
            field(name),
            f"names no column: {custom.get(name)!r}",
            "Use a column of the schema.",
        )
    tier = custom.get("slaTier")
    require(
        tier in (1, 2, 3), file, field("slaTier"), f"is {tier!r}", "Use 1 (critical), 2 (important) or 3 (standard)."
    )
    lateness = custom.get("maxLateness", None if kind == "event" else 0)
    is_days = isinstance(lateness, int) and not isinstance(lateness, bool) and 0 <= lateness <= 365
    require(
        is_days, file, field("maxLateness"), f"is {lateness!r}", "Give the days a record may arrive late, 0 to 365."
    )
    invalid = custom.get("onInvalid")
    require(
        invalid == "quarantine",
        file,
        field("onInvalid"),
        f"is {invalid!r}",
        "Say quarantine: an invalid record is kept apart, never dropped.",
    )
    drift = custom.get("schemaDrift", "evolve")
    reactions = ("evolve", "freeze", "discard_column", "quarantine_row")
    require(drift in reactions, file, field("schemaDrift"), f"is {drift!r}", f"Use one of {', '.join(reactions)}.")
    keep = custom.get("minKeep", 0.8)
    require(
        isinstance(keep, int | float) and 0 <= keep <= 1,
        file,
        field("minKeep"),
        f"is {keep!r}",
        "Give a fraction from 0 to 1.",
    )
    _check_settings(file, document, custom)
    _check_replay(file, custom)
    _check_service_levels(file, document, custom)
    keys = [p for p in document["schema"][0]["properties"] if p.get("primaryKey")]
    require(keys, file, "schema[0].properties", "has no primaryKey", "Mark the columns that identify a row.")


def _check_times(file: str, document: dict[str, Any]) -> None:
    """What dates and orders records must be comparable, and stay so: a masked moment orders nothing."""
    custom = {item["property"]: item["value"] for item in document["customProperties"]}
    kinds = {p["name"]: p.get("logicalType") for p in document["schema"][0]["properties"]}
    for name in ("eventTime", "orderBy") if custom["datasetKind"] == "entity" else ("eventTime",):
        kind = kinds.get(custom.get(name), "timestamp")
        field = f"customProperties.{name}"
        require(kind in ("date", "timestamp"), file, field, f"names a column of {kind}", "Name a date or timestamp.")
    for position, prop in enumerate(document["schema"][0]["properties"]):
        pii = next((i["value"] for i in prop.get("customProperties", []) if i["property"] == "pii"), None)
        hidden = pii is not None and not (isinstance(pii, dict) and pii.get("strategy") == "keep")
        needed = prop["name"] in (custom.get("eventTime"), custom.get("orderBy"))
        where = f"schema[0].properties[{position}] ({prop['name']}).pii"
        require(not (hidden and needed), file, where, "hides what orders the records", "Order by another column.")


def _check_replay(file: str, custom: dict[str, Any]) -> None:
    replay = custom.get("replay")
    field = "customProperties.replay"
    require(isinstance(replay, dict), file, field, "is missing", "Say {historyStart: YYYY-MM-DD, source: bronze}.")
    try:
        date.fromisoformat(str(replay.get("historyStart")))  # pyright: ignore[reportOptionalMemberAccess]
    except ValueError as error:
        raise ContractError(
            file, f"{field}.historyStart", "is not a date", "Use YYYY-MM-DD: the first day data exists."
        ) from error


def _check_service_levels(file: str, document: dict[str, Any], custom: dict[str, Any]) -> None:
    sla = {item["property"]: item for item in document["slaProperties"]}
    durations = {}
    for name in ("freshness", "retention"):
        item = sla.get(name)
        require(item, file, f"slaProperties.{name}", "is missing", "Give it a value and a unit (m, h, d, y).")
        durations[name] = sla_duration(item)  # pyright: ignore[reportArgumentType]
        require(
            durations[name],
            file,
            f"slaProperties.{name}",
            "has no usable value and unit",
            "Use for example value: 1, unit: h.",
        )
    cadence = parse_duration(custom.get("cadence"))
    require(
        cadence,
        file,
        "customProperties.cadence",
        f"is {custom.get('cadence')!r}",
        "Say how often data arrives: 30m, 1h, 1d.",
    )
    warns_in_time = cadence * 1.5 < durations["freshness"]  # pyright: ignore
    remedy = "Raise the freshness target above 1.5 × the cadence, or deliver more often."
    require(warns_in_time, file, "slaProperties.freshness", "leaves no room for an early warning", remedy)


def _check_property(file: str, field: str, prop: dict[str, Any]) -> None:
    name, kind = prop["name"], prop.get("logicalType")
    require(
        _is_identifier(name),
        file,
        field,
        f"{name!r} is not a plain identifier",
        "Use lower-case letters, digits and _; physicalName may hold the source's spelling.",
    )
    field = f"{field} ({name})"
    require(kind in SPARK_TYPES, file, field, "has no logicalType", "Give it one.")
    physical = str(prop.get("physicalType", ""))
    if kind == "number" and physical.lower().startswith("decimal"):
        match = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", physical.lower())
        fits = match and 0 <= int(match[2]) <= int(match[1]) <= 38
        require(
            fits,
            file,
            f"{field}.physicalType",
            f"{physical!r} is no decimal Spark holds",
            "Use decimal(p,s) with s ≤ p ≤ 38.",
        )
    unknown = set(prop.get("logicalTypeOptions", {})) - OPTIONS.get(str(kind), set())
    require(
        not unknown,
        file,
        f"{field}.logicalTypeOptions",
        f"{sorted(unknown)} cannot be enforced on {kind}",
        "Remove it or correct the spelling.",
    )
    _check_options(file, field, prop)
    _check_quality(file, field, prop.get("quality", []), table=False)
    _check_pii(file, field, prop)
    relations = prop.get("relationships", [])
    require(len(relations) < 2, file, f"{field}.relationships", "points at two columns", "Keep one.")
    for relation in relations:
        target = relation.get("to")
        require(
            isinstance(target, str) and target.count(".") == 1,
            file,
            f"{field}.relationships",
            f"{target!r} names no column",
            "Use dataset.column.",
        )


def _check_options(file: str, field: str, prop: dict[str, Any]) -> None:
    options = prop.get("logicalTypeOptions", {})
    if prop["logicalType"] == "string" and "format" in options:
        known = options["format"] in FORMATS
        require(
            known,
            file,
            f"{field}.logicalTypeOptions.format",
            f"{options['format']!r} is not known",
            f"Use one of {', '.join(sorted(FORMATS))}.",
        )
    bounds = [options[name] for name in BOUNDS if name in options]
    sane = all(-(2**63) <= bound < 2**63 for bound in bounds)
    require(sane, file, f"{field}.logicalTypeOptions", "has a bound that is no number we hold", "Correct it.")
    if "pattern" in options:
        try:
            re.compile(options["pattern"])
        except re.error as error:
            raise ContractError(
                file, f"{field}.logicalTypeOptions.pattern", f"is no regular expression: {error}", "Correct it."
            ) from error


def _check_quality(file: str, field: str, rules: list[dict[str, Any]], *, table: bool) -> None:
    """Every rule must be one we can enforce: a rule nobody runs is worse than none."""
    for position, rule in enumerate(rules):
        where = f"{field}.quality[{position}]"
        require(
            rule.get("severity") in ("error", "warning"),
            file,
            f"{where}.severity",
            "is missing",
            "Use error or warning.",
        )
        require(
            _is_identifier(rule.get("id")), file, f"{where}.id", "is missing or not an identifier", "Name the rule."
        )
        body = rule.get("implementation")
        text = body.get("expression") if isinstance(body, dict) else None
        expression = isinstance(text, str) and text.strip()
        if table and rule.get("metric") == "rowCount":
            _check_row_count(file, where, rule)
            continue
        if table:
            ok = (
                rule.get("type") == "custom" and rule.get("engine") == "stream" and expression and rule.get("dimension")
            )
        else:
            values = (rule.get("arguments") or {}).get("validValues")
            ok = (
                rule.get("metric") == "invalidValues"
                and isinstance(values, list)
                and values
                and rule.get("mustBe") == 0
            )
            # YAML reads an unquoted NO as false: a list of countries would lose Norway.
            odd = [v for v in values or () if isinstance(v, bool) or not isinstance(v, str | int | float)] if ok else []
            require(not odd, file, f"{where}.arguments.validValues", f"holds {odd}", "Quote it as text.")
        form = (
            "engine: stream with implementation.expression and a dimension, or metric: rowCount with a bound"
            if table
            else "metric: invalidValues with arguments.validValues and mustBe: 0"
        )
        require(ok, file, where, "cannot be enforced", f"Use {form}.")


def _check_row_count(file: str, where: str, rule: dict[str, Any]) -> None:
    given = [name for name in rule if name.startswith("mustBe")]
    values = [v for name in given for v in (rule[name] if isinstance(rule[name], list) else [rule[name]])]
    whole = all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in values)
    require(
        given and set(given) <= ROW_COUNT_BOUNDS and whole,
        file,
        where,
        "bounds no row count",
        f"Use whole numbers with {', '.join(sorted(ROW_COUNT_BOUNDS))}.",
    )
    require(rule.get("unit", "rows") == "rows", file, f"{where}.unit", "is not rows", "Leave it out.")


def _check_settings(file: str, document: dict[str, Any], custom: dict[str, Any]) -> None:
    """How strictly checks are applied. A setting for a check that does not exist would be a promise nobody keeps."""
    table = document["schema"][0]
    columns = [*[p["name"] for p in table["properties"]], *[c.name for c in ENVELOPE if custom.get("envelope")]]
    promises = [str(rule.get("id")) for rule in table.get("quality", [])]
    rules = _names(("record",), promises) | _names(columns, ROW_RULES)
    checks = rules | _names((*columns, "table", "schema", "delivery"), CHECKS)
    field, settings = "customProperties.checks", custom.get("checks", [])
    require(isinstance(settings, list), file, field, "is not a list", "List {check, strictness, limit, fraction}.")
    for position, item in enumerate(settings):
        where = f"{field}[{position}]"
        ok = isinstance(item, dict) and isinstance(item.get("check"), str)
        require(ok, file, where, "names no check", "Say {check: NAME, strictness: gate}.")
        is_sample = item.get("strictness") == "sample"
        known = any(fnmatchcase(name, item["check"]) for name in (rules if is_sample else checks))
        require(
            known,
            file,
            f"{where}.check",
            f"{item['check']!r} is no {'row rule' if is_sample else 'check or rule'} of this dataset",
            "Use a name the Dagster UI or quarantine shows; * stands for any text.",
        )
        unknown = sorted(set(item) - {"check", "strictness", "limit", "fraction"})
        require(not unknown, file, where, f"{unknown} means nothing here", "Correct the spelling or remove it.")
        strictness, fraction = item.get("strictness"), item.get("fraction")
        require(
            strictness in (None, "gate", "warn", "sample"),
            file,
            f"{where}.strictness",
            f"is {strictness!r}",
            "Use gate, warn or sample.",
        )
        require(
            (strictness == "sample") == (fraction is not None),
            file,
            f"{where}.fraction",
            "belongs to strictness sample, and sample needs it",
            "Say {strictness: sample, fraction: 0.1}.",
        )
        require(
            fraction is None or (_is_number(fraction) and 0 < fraction <= 1),
            file,
            f"{where}.fraction",
            f"is {fraction!r}",
            "Use a share above 0 and up to 1.",
        )
        limit = item.get("limit")
        require(
            limit is None or (_is_number(limit) and limit >= 0),
            file,
            f"{where}.limit",
            f"is {limit!r}",
            "Use a number.",
        )


def _names(subjects: Iterable[str], words: Iterable[str]) -> set[str]:
    return {"__".join(parts) for parts in product(FAMILIES, subjects, words)}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_pii(file: str, field: str, prop: dict[str, Any]) -> None:
    custom = {item["property"]: item["value"] for item in prop.get("customProperties", [])}
    unknown = set(custom) - {"pii", "profile"}
    require(
        not unknown,
        file,
        f"{field}.customProperties",
        f"{sorted(unknown)} means nothing here",
        "Remove it or correct the spelling.",
    )
    declared, watched = custom.get("pii"), custom.get("profile", False)
    require(isinstance(watched, bool), file, f"{field}.profile", f"is {watched!r}", "Use true or false.")
    require(
        not (watched and declared), file, f"{field}.profile", "would count personal values", "Watch another column."
    )
    personal = (
        "pii" in prop.get("tags", []) or prop.get("classification") == "restricted" or looks_personal(prop["name"])
    )
    if declared is None:
        require(
            not personal,
            file,
            f"{field}.pii",
            "looks personal and says nothing of its handling",
            "Add the custom property pii with a strategy: hash, tokenize, mask, drop, or keep with a reason.",
        )
        return
    strategy = declared.get("strategy") if isinstance(declared, dict) else None
    known = strategy in ("hash", "tokenize", "mask", "drop", "keep")
    require(known, file, f"{field}.pii.strategy", f"is {strategy!r}", "Use hash, tokenize, mask, drop or keep.")
    require(
        strategy != "keep" or declared.get("reason"),
        file,
        f"{field}.pii.reason",
        "is missing",
        "Say why personal data is kept in the clear.",
    )
    require(
        not (strategy in ("drop", "mask") and prop.get("primaryKey")),
        file,
        f"{field}.pii",
        "makes different keys equal",
        "Hash it instead.",
    )


def _check_columns(file: str, document: dict[str, Any]) -> None:
    envelope = any(i["property"] == "envelope" and i["value"] for i in document["customProperties"])
    names = [p["name"] for p in document["schema"][0]["properties"]] + [c.name for c in ENVELOPE if envelope]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    require(
        not repeated,
        file,
        "schema[0].properties",
        f"column {repeated} appears twice",
        "Rename one; the envelope's names are taken.",
    )
    is_entity = any(i["property"] == "datasetKind" and i["value"] == "entity" for i in document["customProperties"])
    reserved = set(names) & {*RESERVED_COLUMNS, *(HISTORY_COLUMNS if is_entity else ())}
    require(not reserved, file, "schema[0].properties", f"{sorted(reserved)} is reserved", "Rename it.")


def _check_expressions(file: str, document: dict[str, Any]) -> None:
    """Allow only columns, literals, operators and known-harmless functions: an expression cannot call into the JVM or run a query."""
    table = document["schema"][0]
    _check_quality(file, "schema[0]", table.get("quality", []), table=True)
    envelope = any(i["property"] == "envelope" and i["value"] for i in document["customProperties"])
    known = {p["name"] for p in table["properties"]} | {c.name for c in ENVELOPE if envelope} | _SQL_WORDS
    for position, rule in enumerate(table.get("quality", [])):
        where = f"schema[0].quality[{position}].implementation.expression"
        if rule.get("metric") == "rowCount":
            continue
        text = str(rule["implementation"]["expression"])
        bare = re.sub(r"'(?:[^'\\]|'')*'", "''", text)
        odd = re.search(r"--|/\*|[;`\"\\{}\[\]$@#]", bare)
        require(
            not odd and bare.count("'") % 2 == 0,
            file,
            where,
            "holds characters a rule never needs",
            "Use columns, literals and plain operators.",
        )
        words = set(re.findall(r"[A-Za-z_]\w*", bare))
        # A column may be called reflect or select; then the name alone would let the function or a query through.
        called = set(re.findall(r"([A-Za-z_]\w*)\s*\(", bare)) | {
            word for word in words if word.lower() in _QUERY_WORDS
        }
        strange = sorted(
            word for word in words if word.lower() not in _SQL_WORDS and (word not in known or word in called)
        )
        require(
            not strange,
            file,
            where,
            f"uses {strange}, which is neither a column nor an allowed function",
            "Use columns of this contract.",
        )


def _is_identifier(name: object) -> bool:
    return isinstance(name, str) and bool(_IDENTIFIER.fullmatch(name))
