"""Days that were rolled back and are held: the next run must not compute again what was just undone.

A ledger entry says what its day was computed from, as `code:…:deliveries` (`inputs` in Silver, `files` in Bronze). A held
entry also says what was undone, and which part of it must change before the day is computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STAMPS = {"bronze": "files", "silver": "inputs"}
"""Where an entry of a layer says what it was computed from. Other layers are not held: they follow from these."""

CONTRACT, DELIVERIES = "the contract or the code changes", "the delivery changes"


def hold(entry: Mapping[str, Any], undone: Mapping[str, Any], stamp: str, run_id: str) -> dict[str, Any]:
    """A restored entry that keeps what was undone from being computed again."""
    before = entry.get(stamp) or ""
    rejected = (undone.get("held") or {}).get("undone") or undone.get(stamp) or ""
    free = {key: value for key, value in entry.items() if key != "held"}
    if not rejected or before == rejected:  # the next run would compute what is restored here, if anything
        return free
    is_same_law = before.rpartition(":")[0] == rejected.rpartition(":")[0]
    until = DELIVERIES if is_same_law or stamp == STAMPS["bronze"] else CONTRACT
    return {**free, "held": {"by": run_id, "undone": rejected, "until": until}}


def is_held(entry: Mapping[str, Any], inputs: str) -> bool:
    """Whether a day that would now be computed from these inputs must be left as it is."""
    held = entry.get("held")
    if not held:
        return False
    law, _, deliveries = inputs.rpartition(":")
    undone_law, _, undone_deliveries = held["undone"].rpartition(":")
    return law == undone_law if held["until"] == CONTRACT else deliveries == undone_deliveries
