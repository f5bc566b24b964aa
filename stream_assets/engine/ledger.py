"""What a commit says about itself. The Delta log is the ledger: this metadata is written in the same atomic commit as the data.

One commit covers a range of days and has one entry per day. `log.py` reads it: for each day, the newest commit that has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1


@dataclass(frozen=True)
class Commit:
    """The ledger page of one commit."""

    run_id: str
    dataset: str
    layer: str
    contract_version: str
    days: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Per ISO day: rows in, accepted, quarantined, duplicates, source positions, input fingerprints."""
    positions: Mapping[str, Any] = field(default_factory=dict)
    """How far a topic has been taken over, with this commit."""
    recent: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What earlier commits say of the last days, as of their `version`: a table with a commit every few seconds is then
    known from its newest page alone."""
    code: Mapping[str, str] = field(default_factory=dict)
    """Gold: fingerprint of the code of each model of the run."""
    inputs: Mapping[str, int] = field(default_factory=dict)
    """Gold: version that each table (`silver/orders`) had when the run began."""
    restored: Mapping[str, Any] = field(default_factory=dict)
    """Of a rollback: who asked for it, when and why, which runs it undid, and the version of each day it went back to."""

    def to_json(self) -> str:
        """The text stored as the commit's user metadata."""
        seldom = ("code", "inputs", "restored")
        page = {name: value for name, value in asdict(self).items() if value or name not in seldom}
        return json.dumps({"stream": FORMAT, **page}, sort_keys=True, separators=(",", ":"))


def parse_page(metadata: str | None) -> dict[str, Any]:
    """What a commit's user metadata says of itself; nothing if it is not ours."""
    try:
        page = json.loads(metadata or "null")
    except ValueError:
        return {}
    return page if isinstance(page, dict) and page.get("stream") == FORMAT else {}
