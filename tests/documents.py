"""A small sound contract as a document, for tests that bend it or need a dataset of their own."""

import copy
from pathlib import Path
from typing import Any

import yaml

from stream_assets.contracts.load import load_contract
from stream_assets.contracts.model import Contract

_SOUND: dict[str, Any] = {
    "apiVersion": "v3.1.0",
    "kind": "DataContract",
    "id": "urn:test:readings",
    "name": "readings",
    "version": "1.0.0",
    "status": "active",
    "domain": "lab",
    "description": {"purpose": "Readings of instruments."},
    "servers": [{"server": "landing", "type": "local", "path": "readings", "format": "jsonl"}],
    "schema": [
        {
            "name": "readings",
            "logicalType": "object",
            "dataGranularityDescription": "One row per reading.",
            "properties": [
                {"name": "reading_id", "logicalType": "string", "primaryKey": True, "primaryKeyPosition": 1},
                {"name": "taken_at", "logicalType": "timestamp", "required": True},
                {"name": "amount", "logicalType": "number", "physicalType": "decimal(12,2)"},
                {"name": "pieces", "logicalType": "integer"},
                {"name": "ratio", "logicalType": "number"},
                {"name": "is_final", "logicalType": "boolean"},
                {"name": "due_date", "logicalType": "date"},
                {"name": "text", "logicalType": "string"},
                {"name": "detail", "logicalType": "object"},
            ],
            "quality": [
                {
                    "id": "pieces_positive",
                    "type": "custom",
                    "engine": "stream",
                    "implementation": {"expression": "pieces >= 0"},
                    "dimension": "consistency",
                    "severity": "error",
                }
            ],
        }
    ],
    "slaProperties": [
        {"property": "freshness", "value": 2, "unit": "d"},
        {"property": "retention", "value": 3, "unit": "y"},
    ],
    "team": {"name": "lab-data", "members": [{"username": "lab@example.com", "role": "owner"}]},
    "customProperties": [
        {"property": "datasetKind", "value": "event"},
        {"property": "eventTime", "value": "taken_at"},
        {"property": "orderBy", "value": "taken_at"},
        {"property": "maxLateness", "value": 2},
        {"property": "slaTier", "value": 3},
        {"property": "cadence", "value": "1d"},
        {"property": "onInvalid", "value": "quarantine"},
        {"property": "replay", "value": {"historyStart": "2025-01-01", "source": "bronze"}},
    ],
}

ABSENT = object()


def document(**custom: Any) -> dict[str, Any]:
    """A sound contract document, with custom properties set or (`ABSENT`) removed."""
    made = copy.deepcopy(_SOUND)
    kept = {item["property"]: item["value"] for item in made["customProperties"]} | custom
    made["customProperties"] = [{"property": k, "value": v} for k, v in kept.items() if v is not ABSENT]
    return made


def write(folder: Path, made: dict[str, Any], name: str = "readings") -> Path:
    """Put a document into a folder as a contract file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.odcs.yaml"
    file.write_text(yaml.safe_dump(made, sort_keys=False), encoding="utf-8")
    return file


def contract(folder: Path, made: dict[str, Any] | None = None) -> Contract:
    """The contract of a document."""
    return load_contract(write(folder, made or document()))


def bend(made: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Set one value of a document, named by its dotted path, or (`ABSENT`) remove it."""
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = made
    for part in parents:
        place = place[part]
    if value is ABSENT:
        del place[last]
    elif isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return made


def with_column(made: dict[str, Any], **column: Any) -> dict[str, Any]:
    """Add a column to a document."""
    made["schema"][0]["properties"].append({"name": "extra", "logicalType": "string"} | column)
    return made
