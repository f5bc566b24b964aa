"""Days that a run has to make beside those it was asked for: its deliveries brought records of them, and nobody went on.

What a run lands it knows. What an earlier one landed before it was killed, stopped or failed is in the Delta logs alone: to
the next run these deliveries are unchanged.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import date

from deltalake.exceptions import DeltaError

from stream_assets.contracts.model import Contract
from stream_assets.engine.held import is_held
from stream_assets.engine.log import newest_commits, newest_entries
from stream_assets.ops.backfill.stale import INPUT, NEVER, Deliveries, Lake, Scope, stale_model
from stream_assets.silver.audit import VERDICT
from stream_assets.silver.refine import Entries, days_of, delivered, input_fingerprints

EVER = Scope(date.min, date.max)


def missed_days(lake: Lake, wanted: Collection[str], asked: Scope) -> set[date]:
    """Days beside those asked for of which these assets lack something that the deliveries asked for brought.

    It is as though this run had landed them: a day that none of them brought anything is left alone, however stale it is. That
    the contract or the code changed is no reason either, for to rewrite history is what a backfill is asked for; a day that
    has a reason is made by the law in force, like any that late data touches. A topic is landed whole, whatever days are
    asked for, so all that came by it counts. A table whose log cannot be read is told by its own step, not here.
    """
    never, older = _behind(lake, wanted)
    found: set[str] = set()
    for name, contract in lake.contracts.items():
        if {f"bronze/{name}", f"silver/{name}"} <= {*wanted}:
            with suppress(DeltaError, OSError):
                brought = _Brought(lake, contract, asked)
                found |= {
                    day
                    for day in brought.days
                    if day in older or brought.is_missed(day) or (day in never and brought.has_records(day))
                }
    return {date.fromisoformat(day) for day in found}


def _behind(lake: Lake, wanted: Collection[str]) -> tuple[set[str], set[str]]:
    """Days that a table of Gold never had, and days older there than what they are made from, unless they were put back on purpose."""
    found: dict[str, set[str]] = {NEVER: set(), INPUT: set()}
    for model in (model for asset, model in lake.models.items() if asset in wanted and model.day):
        with suppress(DeltaError, OSError):
            causes = stale_model(lake, model, EVER, {})
            restored = {d for d, c in newest_commits(lake.log(model.asset)).items() if c.page.get("restored")}
            for cause, days in found.items():
                days |= {day for day in causes.keys() - restored if causes[day] == cause}
    return found[NEVER], found[INPUT]


class _Brought:
    """What the deliveries asked for may have brought a dataset, and what was made of it, by the ledgers."""

    def __init__(self, lake: Lake, contract: Contract, asked: Scope) -> None:
        landed, self._refined, audited = (
            newest_entries(lake.log(f"{layer}/{contract.name}")) for layer in ("bronze", "silver", "audit")
        )
        self._deliveries = Deliveries(lake, contract, lake.log(f"bronze/{contract.name}"))
        self._own = {day for day in landed if day in asked}
        self._others = {day for day, entry in landed.items() if entry.get("from_topic")} - self._own
        # A day that failed a gate is judged again with its own delivery; others let it be until something comes for it.
        self._decided = self._refined | {day: entry for day, entry in audited.items() if VERDICT in entry}
        reach = days_of(contract, [date.fromisoformat(day) for day in self._own | self._others])
        inputs = input_fingerprints(landed, contract, [day for day in reach if str(day) not in asked])
        self.days = {day: now for day, now in inputs.items() if not is_held(self._refined.get(day, {}), now)}
        """Days they may hold records of, with what each would be computed from."""

    def is_missed(self, day: str) -> bool:
        """Whether one of them brought the day something that came after Silver of it was made."""
        return self._is_behind(day, self._refined, self._own) or self._is_behind(day, self._decided, self._others)

    def has_records(self, day: str) -> bool:
        """Whether a delivery of the days asked for holds records of the day. Not any: a new table of Gold lacks all of history."""
        return self._came(day, self._own, -1)

    def _is_behind(self, day: str, made: Entries, among: set[str]) -> bool:
        before = made.get(day, {}).get("inputs") or ""
        if delivered(before) == delivered(self.days[day]):
            return False
        known = self._deliveries.version_of(day, before)
        return self._came(day, among, -1 if known is None else known)

    def _came(self, day: str, among: set[str], since: int) -> bool:
        return self._deliveries.changed(day, among & self._deliveries.reaching(day), since)
