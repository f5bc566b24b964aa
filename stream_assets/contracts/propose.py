"""Proposes the next version of a contract from what its records have been carrying lately.

A field the contract does not know becomes an optional text column. A required column that the records come
without becomes optional. Whether to accept that is for people: nothing here changes a file (see `edit.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stream_assets.contracts.change import BUMPS, Change
from stream_assets.contracts.columns import looks_personal
from stream_assets.contracts.diff import diff_contracts
from stream_assets.contracts.model import HISTORY_COLUMNS, RESERVED_COLUMNS, Column, Contract
from stream_assets.contracts.versions import next_version

MAX_NAME = 63
ABSENT_SHARE = 0.9
"""A required column is taken for gone when so many of the readable records of a day lack it; late ones may still have it."""


@dataclass(frozen=True)
class Drift:
    """How the records of recent days differ from the contract."""

    new: tuple[str, ...]
    """Fields the contract does not know, as delivered."""
    missing: tuple[str, ...]
    """Required columns that the records of the newest day came without."""


@dataclass(frozen=True)
class Proposal:
    """A contract as it is and as it could be."""

    contract: Contract
    added: tuple[Column, ...]
    relaxed: tuple[str, ...]
    kept: tuple[str, ...]
    """Required columns without values that cannot do without: keys and times."""

    @property
    def changes(self) -> list[Change]:
        """What the proposal changes, and for whom."""
        columns = [replace(c, required=c.required and c.name not in self.relaxed) for c in self.contract.columns]
        return diff_contracts(self.contract, replace(self.contract, columns=(*columns, *self.added)))

    @property
    def version(self) -> str:
        """The version that the changes need."""
        step = max((BUMPS.index(change.needs) for change in self.changes), default=0)
        return next_version(self.contract.version, BUMPS[step])


def find_drift(entries: Mapping[str, Mapping[str, Any]], days: int) -> Drift:
    """What the ledger tells of the last days that had records: any new field, and what the very last one lacks."""
    recent = [entries[day] for day in sorted(entries) if entries[day].get("rows_in")][-days:]
    new = {name for entry in recent for name in entry.get("new_columns", ())}
    return Drift(tuple(sorted(new)), tuple(_absent(recent[-1])) if recent else ())


def _absent(entry: Mapping[str, Any]) -> list[str]:
    """Required columns that nearly every readable record lacked. Such records are all in quarantine, by this rule."""
    broken: Mapping[str, int] = entry.get("violations", {})
    readable = entry["rows_in"] - sum(n for rule, n in broken.items() if rule.startswith("validity__record__"))
    lacking = {
        match[1]: n for rule, n in broken.items() if (match := re.fullmatch("completeness__(.+)__required", rule))
    }
    return sorted(name for name, n in lacking.items() if n >= ABSENT_SHARE * readable)


def propose(contract: Contract, drift: Drift) -> Proposal:
    """The change of the contract that would take the drift in."""
    known = {column.source for column in contract.columns}
    required = [column.name for column in contract.columns if column.required and column.name in drift.missing]
    needed = {*contract.key, contract.event_time, contract.order_by}
    return Proposal(
        contract,
        added=tuple(_new_columns([source for source in drift.new if source not in known], contract)),
        relaxed=tuple(name for name in required if name not in needed),
        kept=tuple(name for name in required if name in needed),
    )


def _new_columns(sources: Iterable[str], contract: Contract) -> list[Column]:
    taken = {column.name for column in contract.record} | {*RESERVED_COLUMNS, *HISTORY_COLUMNS}
    columns: list[Column] = []
    for source in sources:
        name = _free_name(to_identifier(source), taken)
        taken.add(name)
        columns.append(Column(name, "string", source, pii="hash" if looks_personal(name) else None))
    return columns


def to_identifier(source: str) -> str:
    """A plain name for a field: `Gift Wrap`, `giftWrap` and `gift-wrap` are all `gift_wrap`."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", source)
    plain = re.sub(r"[^a-z0-9]+", "_", apart.lower()).strip("_")
    return (plain if plain[:1].isalpha() else f"field_{plain}".rstrip("_"))[:MAX_NAME].rstrip("_")


def _free_name(name: str, taken: set[str]) -> str:
    numbered = (f"{name[: MAX_NAME - 3]}_{n}" for n in range(2, 1000))
    return name if name not in taken else next(other for other in numbered if other not in taken)


def to_property(column: Column) -> dict[str, Any]:
    """A new column as a contract writes it."""
    renamed = {"physicalName": column.source} if column.source != column.name else {}
    pii = {"customProperties": [{"property": "pii", "value": {"strategy": column.pii}}]} if column.pii else {}
    return {"name": column.name, **renamed, "logicalType": "string", **pii}


def to_fragment(proposal: Proposal) -> dict[str, Any]:
    """The proposal as the part of the contract that changes."""
    relaxed = [{"name": name, "required": False} for name in proposal.relaxed]
    properties = [*relaxed, *map(to_property, proposal.added)]
    return {"version": proposal.version, "schema": [{"name": proposal.contract.name, "properties": properties}]}
