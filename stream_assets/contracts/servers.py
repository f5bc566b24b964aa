"""Refuses servers that cannot be read, or that say too little to be read unattended."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePosixPath
from typing import Any

from stream_assets.contracts.model import CHANGES, ServerKind
from stream_assets.contracts.require import require

SERVER_KINDS: dict[str, ServerKind] = {
    "local": "local",
    "kafka": "kafka",
    "postgres": "postgres",
    "postgresql": "postgres",
}
"""Types of ODCS servers that can be read, as the model calls them."""
FILE_FORMATS = ("jsonl", "csv", "parquet", CHANGES)
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


def check_servers(file: str, document: dict[str, Any]) -> None:
    """Every server has a name of its own, a type we read, and what that type needs."""
    names = [server.get("server") for server in document["servers"]]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    require(not repeated, file, "servers", f"{repeated} appears twice", "Give each server a name of its own.")
    kind_of_dataset = {i["property"]: i["value"] for i in document["customProperties"]}.get("datasetKind")
    for server in document["servers"]:
        field = f"servers.{server.get('server')}"
        kind = SERVER_KINDS.get(server["type"])
        require(kind, file, f"{field}.type", f"is {server['type']!r}", "Use local, kafka or postgres.")
        if kind == "local":
            _check_files(file, field, server)
        elif kind == "kafka":
            _check_topic(file, field, server, kind_of_dataset)
        else:
            _check_table(file, field, server, kind_of_dataset)


def _check_files(file: str, field: str, server: dict[str, Any]) -> None:
    path = str(server.get("path", ""))
    parts = PurePosixPath(path).parts
    safe = parts and not PurePosixPath(path).is_absolute() and ".." not in parts and re.fullmatch(r"[\w./-]+", path)
    known = server.get("format") in FILE_FORMATS
    require(known, file, f"{field}.format", "is not a format we read", f"Use {', '.join(FILE_FORMATS)}.")
    remedy = "Use a folder inside the landing zone, such as the dataset's name."
    require(safe, file, f"{field}.path", f"{path!r} leaves the landing zone", remedy)


def _check_topic(file: str, field: str, server: dict[str, Any], dataset: object) -> None:
    """What a topic is made from (see `sources/topics.py`), and how its messages are taken over."""
    given = server.get("format", "json")
    require(given == "json", file, f"{field}.format", f"is {given!r}", "Use json.")
    remedy = "Deliver reference data whole, as files: on a topic nobody could tell when it is complete."
    require(dataset != "reference", file, f"{field}.type", "is kafka for a dataset of kind reference", remedy)
    custom = {item["property"]: item["value"] for item in server.get("customProperties", [])}
    unknown = sorted(set(custom) - {"topic", "peakThroughput", "retentionDays", "delivery"})
    require(not unknown, file, f"{field}.customProperties", f"{unknown} means nothing here", "Correct the spelling.")
    topic = custom.get("topic", "x")
    remedy = "Use letters, digits, ., _ and -, at most 249."
    require(isinstance(topic, str) and _TOPIC.fullmatch(topic), file, f"{field}.topic", f"is {topic!r}", remedy)
    for name, remedy in (
        ("peakThroughput", "Give the most megabytes a second."),
        ("retentionDays", "Give days, or -1 for ever."),
    ):
        value = custom.get(name, 1)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_kept_for_ever = name == "retentionDays" and value == -1
        require(is_number and (value > 0 or is_kept_for_ever), file, f"{field}.{name}", f"is {value!r}", remedy)
    delivery = custom.get("delivery", DELIVERIES[0])
    require(delivery in DELIVERIES, file, f"{field}.delivery", f"is {delivery!r}", f"Use {', '.join(DELIVERIES)}.")


def _check_table(file: str, field: str, server: dict[str, Any], dataset: object) -> None:
    """How a table's changes are found, and what that way needs."""
    remedy = "Say datasetKind: entity. A table of events is an entity whose rows do not change."
    require(dataset == "entity", file, f"{field}.type", f"is postgres for a dataset of kind {dataset}", remedy)
    custom = {item["property"]: item["value"] for item in server.get("customProperties", [])}
    unknown = sorted(set(custom) - _TABLE_OPTIONS)
    require(not unknown, file, f"{field}.customProperties", f"{unknown} means nothing here", "Correct the spelling.")
    choices = {"pattern": PATTERNS, "snapshot": SNAPSHOTS, "replicaIdentity": ("full", "any")}
    for name, known in choices.items():
        value = custom.get(name, known[0])
        require(value in known, file, f"{field}.{name}", f"is {value!r}", f"Use {', '.join(known)}.")
    for name in ("table", "cursor", "topic"):
        value = custom.get(name, "x")
        is_name = isinstance(value, str) and re.fullmatch(r"[\w.$-]{1,249}", value, re.ASCII)
        require(is_name, file, f"{field}.{name}", f"is {value!r}", "Use letters, digits, _ and -.")
    if custom.get("pattern") == "timestamp":
        remedy = "Name the column that dates the last change of a row."
        require(custom.get("cursor"), file, f"{field}.cursor", "is missing", remedy)
    for name in ("overlapMinutes", "retentionDays", "peakThroughput"):
        value = custom.get(name, 1)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        require(is_number and value >= 0, file, f"{field}.{name}", f"is {value!r}", "Give a number.")
