"""Judges days before they are published: a day whose gate fails is kept in `audit`, and Silver stays as it was.

The judgements are pure functions of what was counted before anything is written, so a sound day costs nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.quality import outcomes as judge
from stream_assets.quality.drift import judge_days
from stream_assets.quality.evidence import with_evidence
from stream_assets.quality.gates import is_gate
from stream_assets.settings import Settings
from stream_assets.silver.publish import TRACE, silver_table

Entries = Mapping[str, Mapping[str, Any]]
VERDICT = "failed_gates"
"""In the ledger of `audit`: the gates that a day failed, each with what was found. Without it, the day was released."""


def judge_entries(
    contract: Contract, entries: Entries, history: Entries, landed: Mapping[str, int]
) -> list[judge.Outcome]:
    """Every check of Silver that is about the records of these days. `landed` is counted in Bronze itself."""
    limit = contract.limit
    outcomes = [
        judge.judge_reconciliation(entries, landed),
        *[
            judge.judge_rules(entries, family, limit(f"{family}__table__rejected_share", judge.MAX_REJECTED))
            for family in ("completeness", "validity")
        ],
        judge.judge_warnings(entries),
        judge.judge_drift(contract, entries),
        *([judge.judge_row_count(contract, entries)] if contract.row_counts else []),
        *judge_days(contract, entries, history),
    ]
    return [with_evidence(contract.name, outcome, entries) for outcome in outcomes]


def failed_gates(
    contract: Contract, entries: Entries, history: Entries, landed: Mapping[str, int]
) -> dict[str, dict[str, str]]:
    """Days that must not be published: per ISO day, the gates it fails and what was found.

    All days are judged at once first: as a rule they pass, and one by one they would cost a second each year of history.
    """

    def failed(judged: Entries, known: Entries) -> dict[str, str]:
        found = judge_entries(contract, judged, known, landed)
        return {o.name: o.summary for o in found if not o.passed and is_gate(contract, o.name)}

    together = failed(entries, history)
    if not together:
        return {}
    single = {day: failed({day: entry}, {**history, **entries}) for day, entry in entries.items()}
    guilty = {day: gates for day, gates in single.items() if gates}
    return guilty or dict.fromkeys(entries, together)


def audit_table(settings: Settings, contract: Contract) -> delta.Table:
    """Everything that was computed of a day: accepted, rejected and duplicate records alike."""
    silver = silver_table(settings, contract)
    kept = {name: kind for name, kind in silver.columns.items() if name not in ("valid_from", "valid_to", "is_current")}
    verdict = {
        "_raw": ("string", "The record as received, if it was rejected."),
        "_raw_bytes": ("binary", "Its bytes, only when they are not valid UTF-8, or Avro or Protobuf."),
        "_violations": ("array<string>", "Every rule it broke; null if it would have been accepted."),
        "_is_duplicate": ("boolean", "Whether a better version of it came."),
    }
    columns = {name: kind for name, kind in kept.items() if name not in TRACE} | verdict | TRACE
    return delta.table_of(
        settings, "audit", contract.name, columns, partition_by="_event_date", stats=("_delivery_date", "_position")
    )


def explain(settings: Settings, contract: Contract, withheld: Entries) -> str:
    """What a person needs to know about days that were not published."""
    gates = sorted({gate for entry in withheld.values() for gate in entry[VERDICT]})
    found = "; ".join(f"{gate}: {withheld[day][VERDICT][gate]}" for gate in gates for day in [_first(withheld, gate)])
    days = ", ".join(sorted(withheld)[:5]) + (f" and {len(withheld) - 5} more" if len(withheld) > 5 else "")
    return (
        f"{contract.name}: {days} not published, Silver stays as it was ({found}). The attempt is in audit.{contract.name} "
        f"({settings.table_path('audit', contract.name)}). Mend the source or the contract and run the days again."
    )


def _first(withheld: Entries, gate: str) -> str:
    return min(day for day, entry in withheld.items() if gate in entry[VERDICT])
