"""Refuses contracts that say too little to run unattended: kind, times, tier, lateness, freshness, replay and retention."""

from __future__ import annotations

from datetime import date

from stream_assets.contracts.draft import Draft, custom_properties
from stream_assets.contracts.durations import parse_duration, sla_duration
from stream_assets.contracts.strictness import check_settings
from stream_assets.errors import ContractError

CUSTOM_PROPERTIES = frozenset(
    {
        *("datasetKind", "envelope", "eventTime", "orderBy", "maxLateness", "slaTier", "cadence"),
        *("onInvalid", "replay", "minKeep", "schemaDrift", "nullValues", "checks"),
    }
)
DRIFT_REACTIONS = ("evolve", "freeze", "discard_column", "quarantine_row")
_FIELD = "customProperties.{}".format


def check_promises(draft: Draft) -> None:
    """Everything a contract promises about the dataset as a whole."""
    unknown = sorted(set(draft.custom) - CUSTOM_PROPERTIES)
    remedy = "Correct the spelling or remove it."
    draft.require(not unknown, "customProperties", f"{unknown} means nothing here", remedy)
    _check_kind(draft)
    _check_handling(draft)
    check_settings(draft)
    _check_replay(draft)
    _check_service_levels(draft)
    keys = [prop for prop in draft.properties if prop.get("primaryKey")]
    draft.require(keys, "schema[0].properties", "has no primaryKey", "Mark the columns that identify a row.")


def _check_kind(draft: Draft) -> None:
    """What kind of dataset it is, and what dates and orders its records."""
    custom = draft.custom
    kind, envelope = custom.get("datasetKind"), custom.get("envelope", False)
    is_known = kind in ("event", "entity", "reference")
    draft.require(is_known, _FIELD("datasetKind"), f"is {kind!r}", "Use event, entity or reference.")
    draft.require(isinstance(envelope, bool), _FIELD("envelope"), f"is {envelope!r}", "Use true or false.")
    for name in ("eventTime", "orderBy"):
        value = custom.get(name)
        remedy = f"Name the column that gives the {name} of a record."
        draft.require(value or kind == "reference", _FIELD(name), "is missing", remedy)
        is_column = value is None or (isinstance(value, str) and value in draft.columns)
        draft.require(is_column, _FIELD(name), f"names no column: {value!r}", "Use a column of the schema.")
    lateness = custom.get("maxLateness", None if kind == "event" else 0)
    is_days = isinstance(lateness, int) and not isinstance(lateness, bool) and 0 <= lateness <= 365
    remedy = "Give the days a record may arrive late, 0 to 365."
    draft.require(is_days, _FIELD("maxLateness"), f"is {lateness!r}", remedy)


def _check_handling(draft: Draft) -> None:
    """What happens to records that are missing values, invalid, new in shape or too few; and how much the dataset matters."""
    custom = draft.custom
    nulls, tier, invalid = custom.get("nullValues", []), custom.get("slaTier"), custom.get("onInvalid")
    drift, keep = custom.get("schemaDrift", "evolve"), custom.get("minKeep", 0.8)
    remedy = "List the texts that mean missing."
    draft.require(isinstance(nulls, list), _FIELD("nullValues"), "is not a list", remedy)
    remedy = "Use 1 (critical), 2 (important) or 3 (standard)."
    draft.require(tier in (1, 2, 3), _FIELD("slaTier"), f"is {tier!r}", remedy)
    remedy = "Say quarantine: an invalid record is kept apart, never dropped."
    draft.require(invalid == "quarantine", _FIELD("onInvalid"), f"is {invalid!r}", remedy)
    remedy = f"Use one of {', '.join(DRIFT_REACTIONS)}."
    draft.require(drift in DRIFT_REACTIONS, _FIELD("schemaDrift"), f"is {drift!r}", remedy)
    is_share = isinstance(keep, int | float) and 0 <= keep <= 1
    draft.require(is_share, _FIELD("minKeep"), f"is {keep!r}", "Give a fraction from 0 to 1.")


def _check_replay(draft: Draft) -> None:
    replay, field = draft.custom.get("replay"), _FIELD("replay")
    remedy = "Say {historyStart: YYYY-MM-DD, source: bronze}."
    draft.require(isinstance(replay, dict), field, "is missing", remedy)
    try:
        date.fromisoformat(str(replay.get("historyStart")))  # pyright: ignore[reportOptionalMemberAccess]
    except ValueError as error:
        remedy = "Use YYYY-MM-DD: the first day data exists."
        raise ContractError(draft.file, f"{field}.historyStart", "is not a date", remedy) from error


def _check_service_levels(draft: Draft) -> None:
    levels = {item["property"]: item for item in draft.document["slaProperties"]}
    durations = {}
    for name in ("freshness", "retention"):
        item, field = levels.get(name), f"slaProperties.{name}"
        draft.require(item, field, "is missing", "Give it a value and a unit (m, h, d, y).")
        durations[name] = sla_duration(item)  # pyright: ignore[reportArgumentType]
        remedy = "Use for example value: 1, unit: h."
        draft.require(durations[name], field, "has no usable value and unit", remedy)
    given = draft.custom.get("cadence")
    cadence = parse_duration(given)
    draft.require(cadence, _FIELD("cadence"), f"is {given!r}", "Say how often data arrives: 30m, 1h, 1d.")
    warns_in_time = cadence * 1.5 < durations["freshness"]  # pyright: ignore
    remedy = "Raise the freshness target above 1.5 × the cadence, or deliver more often."
    draft.require(warns_in_time, "slaProperties.freshness", "leaves no room for an early warning", remedy)


def check_times(draft: Draft) -> None:
    """What dates and orders records must be comparable, and stay so: a masked moment orders nothing."""
    custom = draft.custom
    kinds = {prop["name"]: prop.get("logicalType") for prop in draft.properties}
    for name in ("eventTime", "orderBy") if custom["datasetKind"] == "entity" else ("eventTime",):
        kind = kinds.get(custom.get(name), "timestamp")
        is_time = kind in ("date", "timestamp")
        draft.require(is_time, _FIELD(name), f"names a column of {kind}", "Name a date or timestamp.")
    for position, prop in enumerate(draft.properties):
        pii = custom_properties(prop).get("pii")
        is_hidden = pii is not None and not (isinstance(pii, dict) and pii.get("strategy") == "keep")
        is_needed = prop["name"] in (custom.get("eventTime"), custom.get("orderBy"))
        field = f"schema[0].properties[{position}] ({prop['name']}).pii"
        remedy = "Order by another column."
        draft.require(not (is_hidden and is_needed), field, "hides what orders the records", remedy)
