"""Days that are held as they are: what was rolled back is not computed again, what is past its retention not brought back.

A ledger entry says what its day was computed from, as `code:…:deliveries` (`inputs` in Silver, `files` in Bronze). A held
entry also says what was undone, and which part of it must change before the day is computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STAMPS = {"bronze": "files", "silver": "inputs"}
"""Where an entry of a layer says what it was computed from. Other layers are not held: they follow from these."""

CONTRACT, DELIVERIES = "the contract or the code changes", "the delivery changes"
RETENTION = "it is released: it is past its retention"


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


def let_go(entry: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """The entry of a day whose rows are past their retention."""
    return {**entry, "held": {"by": run_id, "undone": "", "until": RETENTION}}


def is_let_go(entry: Mapping[str, Any]) -> bool:
    """Whether a day is past its retention: whatever its tables hold by now, nothing is made of it any more."""
    return (entry.get("held") or {}).get("until") == RETENTION


def is_held(entry: Mapping[str, Any], inputs: str) -> bool:
    """Whether a day that would now be computed from these inputs must be left as it is."""
    held = entry.get("held")
    if not held:
        return False
    if held["until"] == RETENTION:
        return True
    law, _, deliveries = inputs.rpartition(":")
    undone_law, _, undone_deliveries = held["undone"].rpartition(":")
    return law == undone_law if held["until"] == CONTRACT else deliveries == undone_deliveries
