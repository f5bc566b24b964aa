"""Refuses servers that cannot be read, or that say too little to be read unattended."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePosixPath
from typing import Any

from stream_assets.contracts.draft import Draft, custom_properties, is_number
from stream_assets.contracts.model import CHANGES, REGISTERED, ServerKind

SERVER_KINDS: dict[str, ServerKind] = {
    "local": "local",
    "kafka": "kafka",
    "postgres": "postgres",
    "postgresql": "postgres",
}
"""Types of ODCS servers that can be read, as the model calls them."""
FILE_FORMATS = ("jsonl", "csv", "parquet", CHANGES)
MESSAGE_FORMATS = ("json", *REGISTERED)
PATTERNS = ("log", "timestamp", "full")
"""How changes of a table are found: in the database's log, by a column that dates them, or by comparing all rows."""
SNAPSHOTS = ("initial", "initial_only", "never", "schema_only")
_TABLE_OPTIONS = {
    "pattern",
    "table",
    "snapshot",
    "replicaIdentity",
    "cursor",
    "overlapMinutes",
    "topic",
    "retentionDays",
    "peakThroughput",
}
DELIVERIES = ("exactly-once", "at-least-once", "at-most-once")
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def check_servers(draft: Draft) -> None:
    """Every server has a name of its own, a type we read, and what that type needs."""
    names = [server.get("server") for server in draft.document["servers"]]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    draft.require(not repeated, "servers", f"{repeated} appears twice", "Give each server a name of its own.")
    kind_of_dataset = draft.custom.get("datasetKind")
    for server in draft.document["servers"]:
        field = f"servers.{server.get('server')}"
        kind = SERVER_KINDS.get(server["type"])
        draft.require(kind, f"{field}.type", f"is {server['type']!r}", "Use local, kafka or postgres.")
        if kind == "local":
            _check_files(draft, field, server)
        elif kind == "kafka":
            _check_topic(draft, field, server, kind_of_dataset)
        else:
            _check_table(draft, field, server, kind_of_dataset)


def _check_files(draft: Draft, field: str, server: dict[str, Any]) -> None:
    path = str(server.get("path", ""))
    parts = PurePosixPath(path).parts
    safe = parts and not PurePosixPath(path).is_absolute() and ".." not in parts and re.fullmatch(r"[\w./-]+", path)
    known = server.get("format") in FILE_FORMATS
    draft.require(known, f"{field}.format", "is not a format we read", f"Use {', '.join(FILE_FORMATS)}.")
    remedy = "Use a folder inside the landing zone, such as the dataset's name."
    draft.require(safe, f"{field}.path", f"{path!r} leaves the landing zone", remedy)


def _check_topic(draft: Draft, field: str, server: dict[str, Any], dataset: object) -> None:
    """What a topic is made from (see `sources/topics.py`), and how its messages are taken over."""
    given = server.get("format", "json")
    draft.require(given in MESSAGE_FORMATS, f"{field}.format", f"is {given!r}", f"Use {' or '.join(MESSAGE_FORMATS)}.")
    remedy = "Deliver reference data whole, as files: on a topic nobody could tell when it is complete."
    draft.require(dataset != "reference", f"{field}.type", "is kafka for a dataset of kind reference", remedy)
    custom = custom_properties(server)
    unknown = sorted(set(custom) - {"topic", "peakThroughput", "retentionDays", "delivery"})
    draft.require(not unknown, f"{field}.customProperties", f"{unknown} means nothing here", "Correct the spelling.")
    topic = custom.get("topic", "x")
    remedy = "Use letters, digits, ., _ and -, at most 249."
    draft.require(isinstance(topic, str) and _TOPIC.fullmatch(topic), f"{field}.topic", f"is {topic!r}", remedy)
    for name, remedy in (
        ("peakThroughput", "Give the most megabytes a second."),
        ("retentionDays", "Give days, or -1 for ever."),
    ):
        value = custom.get(name, 1)
        is_kept_for_ever = name == "retentionDays" and value == -1
        draft.require(is_number(value) and (value > 0 or is_kept_for_ever), f"{field}.{name}", f"is {value!r}", remedy)
    delivery = custom.get("delivery", DELIVERIES[0])
    draft.require(delivery in DELIVERIES, f"{field}.delivery", f"is {delivery!r}", f"Use {', '.join(DELIVERIES)}.")


def _check_table(draft: Draft, field: str, server: dict[str, Any], dataset: object) -> None:
    """How a table's changes are found, and what that way needs."""
    remedy = "Say datasetKind: entity. A table of events is an entity whose rows do not change."
    draft.require(dataset == "entity", f"{field}.type", f"is postgres for a dataset of kind {dataset}", remedy)
    custom = custom_properties(server)
    unknown = sorted(set(custom) - _TABLE_OPTIONS)
    draft.require(not unknown, f"{field}.customProperties", f"{unknown} means nothing here", "Correct the spelling.")
    choices = {"pattern": PATTERNS, "snapshot": SNAPSHOTS, "replicaIdentity": ("full", "any")}
    for name, known in choices.items():
        value = custom.get(name, known[0])
        draft.require(value in known, f"{field}.{name}", f"is {value!r}", f"Use {', '.join(known)}.")
    for name in ("table", "cursor", "topic"):
        value = custom.get(name, "x")
        is_name = isinstance(value, str) and re.fullmatch(r"[\w.$-]{1,249}", value, re.ASCII)
        draft.require(is_name, f"{field}.{name}", f"is {value!r}", "Use letters, digits, _ and -.")
    if custom.get("pattern") == "timestamp":
        remedy = "Name the column that dates the last change of a row."
        draft.require(custom.get("cursor"), f"{field}.cursor", "is missing", remedy)
    for name in ("overlapMinutes", "retentionDays", "peakThroughput"):
        value = custom.get(name, 1)
        draft.require(is_number(value) and value >= 0, f"{field}.{name}", f"is {value!r}", "Give a number.")
