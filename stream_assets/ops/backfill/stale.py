"""Which partitions are really stale, from the Delta logs and the landing zone alone: no engine is started.

Every commit tells what its days were made from. A day is stale if making it again today would start from something else:
another contract, other code, other deliveries, or a table above it that is newer or stale itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from stream_assets.bronze.land import is_landed
from stream_assets.contracts.model import Contract
from stream_assets.engine.held import is_held, is_let_go
from stream_assets.engine.log import LoggedCommit, newest_commits, newest_entries, read_log
from stream_assets.gold.models import Model
from stream_assets.settings import Settings
from stream_assets.silver.refine import REFINE_VERSION, days_of, delivered, deliveries_of, input_fingerprints
from stream_assets.sources.files import delivery_days, glance

WHOLE = "whole"
"""Stands in the place of a day for a table that is replaced as a whole."""
NEVER, CONTRACT, CODE, INPUT, UPSTREAM = "never built", "contract", "code", "new input", "upstream"
REMADE = {CONTRACT, CODE, UPSTREAM}
"""Causes that change what was right before; a new input only adds to it."""

Causes = dict[str, str]
"""Per ISO day (or `WHOLE`), why it is stale."""


@dataclass(frozen=True)
class Scope:
    """The days a backfill is about, both included."""

    first: date
    last: date

    def __contains__(self, day: str) -> bool:
        return self.first.isoformat() <= day <= self.last.isoformat()


@dataclass
class Lake:
    """What is known of the tables of a lake, each log read once."""

    settings: Settings
    contracts: Mapping[str, Contract]
    models: Mapping[str, Model]
    made_of: Mapping[str, Mapping] = field(default_factory=dict)
    """Gold tables by asset: what their latest build was made of, for tables that came out the same and have no commit."""
    logs: dict[str, list[LoggedCommit]] = field(default_factory=dict)

    def log(self, asset: str) -> list[LoggedCommit]:
        """The commits of a table."""
        if asset not in self.logs:
            self.logs[asset] = read_log(f"{self.settings.lake}/{asset}")
        return self.logs[asset]

    @cached_property
    def today(self) -> date:
        """The last day that may be built."""
        return datetime.now(UTC).date()


def find_stale(lake: Lake, assets: Iterable[str], scopes: Mapping[str, Scope]) -> dict[str, Causes]:
    """Stale days of these assets, in the order in which they are to be made. `scopes` is by dataset, `*` for Gold."""
    wanted, found = set(assets), dict[str, Causes]()
    for name, contract in lake.contracts.items():
        if f"bronze/{name}" in wanted:
            found[f"bronze/{name}"] = stale_deliveries(lake, contract, scopes[name])
    for name, contract in lake.contracts.items():
        if f"silver/{name}" in wanted or f"quarantine/{name}" in wanted:
            stale = stale_refined(lake, contract, scopes[name], found.get(f"bronze/{name}", {}))
            found |= {f"{layer}/{name}": stale for layer in ("silver", "quarantine")}
    for asset, model in lake.models.items():
        if asset in wanted:
            found[asset] = stale_model(lake, model, scopes["*"], found)
    return {asset: causes for asset, causes in found.items() if causes}


def stale_deliveries(lake: Lake, contract: Contract, scope: Scope) -> Causes:
    """Deliveries whose files are not those that were landed."""
    known = newest_entries(lake.log(f"bronze/{contract.name}"))
    causes: Causes = {}
    for day in delivery_days(lake.settings, contract):
        entry = known.get(day.isoformat(), {})
        if day.isoformat() in scope and day <= lake.today:
            delivery = glance(lake.settings, contract, day, entry.get("unreadable", {}))
            if delivery.is_complete and delivery.files and not is_landed(delivery, entry):
                causes[day.isoformat()] = INPUT if entry else NEVER
    return causes


def stale_refined(lake: Lake, contract: Contract, scope: Scope, landing: Iterable[str]) -> Causes:
    """Days of Silver and quarantine that differ from what refining would read; those about to land included."""
    bronze, silver = lake.log(f"bronze/{contract.name}"), lake.log(f"silver/{contract.name}")
    landed, known = newest_entries(bronze), newest_entries(silver)
    days = [date.fromisoformat(day) for day in sorted({*landed, *known}) if day in scope]
    current = input_fingerprints(landed, contract, days)
    deliveries = Deliveries(lake, contract, bronze)
    causes: Causes = {}
    for day, inputs in current.items():
        entry = known.get(day, {})
        before = entry.get("inputs")
        if before != inputs and not is_held(entry, inputs) and (cause := _refined_cause(deliveries, day, before)):
            causes[day] = cause
    return dict(sorted((_about_to_land(lake, contract, landing) | causes).items()))


def _refined_cause(deliveries: Deliveries, day: str, before: str | None) -> str | None:
    if not before:  # a rollback to before its first version leaves an empty stamp
        return NEVER
    version, contract, _ = before.split(":")
    if contract != deliveries.contract.shape:
        return CONTRACT
    return CODE if version != str(REFINE_VERSION) else INPUT if deliveries.brought(day, before) else None


def _about_to_land(lake: Lake, contract: Contract, landing: Iterable[str]) -> Causes:
    """Days that deliveries yet to be landed may hold records of."""
    days = days_of(contract, [date.fromisoformat(day) for day in landing])
    first = min(days_of(contract, [contract.history_start]))
    return {day.isoformat(): UPSTREAM for day in days if first <= day <= lake.today}


@dataclass
class Deliveries:
    """Which event days the deliveries of a dataset hold records of, at any version of Bronze."""

    lake: Lake
    contract: Contract
    log: Sequence[LoggedCommit]
    seen: dict[tuple[str, int], set[str] | None] = field(default_factory=dict)

    def brought(self, day: str, before: str) -> bool:
        """Whether a delivery that came after `before` was computed holds, or held, records of the day.

        A delivery may hold records of many days, so each is part of their fingerprints: that it came says little yet.
        """
        known = self.version_of(day, before)
        return known is None or self.changed(day, self.reaching(day), known)

    def reaching(self, day: str) -> set[str]:
        """The deliveries that may hold records of the day."""
        return {d.isoformat() for d in deliveries_of(self.contract, [date.fromisoformat(day)])}

    def changed(self, day: str, among: Collection[str], since: int) -> bool:
        """Whether one of these deliveries came after a version of Bronze and holds, or then held, records of the day."""
        came = _days_in(commit for commit in self.log if commit.version > since) & {*among}
        came_again = _days_in(commit for commit in self.log if commit.version <= since) & came if came else ()
        looks = [*((delivery, self.log[-1].version) for delivery in came), *((d, since) for d in came_again)]
        return any(days is None or day in days for days in (self._event_days(*look) for look in looks))

    def version_of(self, day: str, before: str) -> int | None:
        """The newest version of Bronze with the deliveries from which the day was computed, by whatever law; None if none has them."""
        moment, found, entries = date.fromisoformat(day), None, dict[str, dict[str, Any]]()
        reach = self.reaching(day)
        for commit in self.log:
            told = {d: dict(e) for d, e in commit.page.get("days", {}).items() if d in reach}
            entries |= told
            if told and delivered(input_fingerprints(entries, self.contract, [moment])[day]) == delivered(before):
                found = commit.version
        return found

    def _event_days(self, delivery: str, version: int) -> set[str] | None:
        """Event days of a delivery's records; None if that version can no longer be read."""
        if (delivery, version) not in self.seen:
            path = self.lake.settings.table_path("bronze", self.contract.name)
            try:
                table = DeltaTable(path, version=version).to_pyarrow_table(
                    partitions=[("_delivery_date", "=", delivery)], columns=["_event_date"]
                )
                self.seen[delivery, version] = {str(d) for d in table["_event_date"].unique().to_pylist()}
            except (DeltaError, OSError):
                self.seen[delivery, version] = None
        return self.seen[delivery, version]


def _days_in(commits: Iterable[LoggedCommit]) -> set[str]:
    return {day for commit in commits for day in commit.page.get("days", {})}


def stale_model(lake: Lake, model: Model, scope: Scope, stale: Mapping[str, Causes]) -> Causes:
    """Days of a Gold table (or `WHOLE`) that differ from what dbt would build."""
    return dict(sorted(_stale_days(lake, model, scope, stale))) if model.day else _stale_whole(lake, model, stale)


def _stale_days(lake: Lake, model: Model, scope: Scope, stale: Mapping[str, Causes]) -> Iterator[tuple[str, str]]:
    built = newest_commits(lake.log(model.asset))
    daily = [parent for parent in model.parents if _has_days(lake, parent)]
    is_remade = any(REMADE & {*stale.get(parent, {}).values()} for parent in model.parents - {*daily})
    newest = {parent: _newest_changes(lake.log(parent)) for parent in daily}
    above = {day for parent in daily for day in stale.get(parent, {})}
    for day in {*built, *(day for commits in newest.values() for day in commits), *above}:
        if day not in scope and day not in above:
            continue
        commit = built.get(day)
        if commit is None:
            yield day, NEVER
        elif commit.page.get("code", {}).get(model.name) != model.code:
            yield day, CODE
        elif is_remade or day in above:
            yield day, UPSTREAM
        elif any(_is_newer(newest[parent].get(day), commit, parent) for parent in daily):
            yield day, INPUT


def _newest_changes(commits: Iterable[LoggedCommit]) -> dict[str, LoggedCommit]:
    """For each day, the newest commit that has it, without those that only let it go: what was made of it stands."""
    pages = ((commit, commit.page.get("days", {})) for commit in commits)
    return {day: commit for commit, days in pages for day, entry in days.items() if not is_let_go(entry)}


def _is_newer(parent: LoggedCommit | None, built: LoggedCommit, asset: str) -> bool:
    """Whether a table changed after a build began that read it. One run builds parents and children in order."""
    if parent is None or parent.page.get("run_id") == built.page.get("run_id"):
        return False
    return parent.version > built.page.get("inputs", {}).get(asset, -1)


def _stale_whole(lake: Lake, model: Model, stale: Mapping[str, Causes]) -> Causes:
    log = [commit for commit in lake.log(model.asset) if commit.page.get("code")]
    made_of = lake.made_of.get(model.asset) or (log[-1].page if log else None)
    if not made_of or not lake.log(model.asset):
        return {WHOLE: NEVER}
    code = made_of.get("code")
    if (code.get(model.name) if isinstance(code, Mapping) else code) != model.code:
        return {WHOLE: CODE}
    if any(stale.get(parent) for parent in model.parents):
        return {WHOLE: UPSTREAM}
    run_id, inputs = made_of.get("run_id"), made_of.get("inputs", {})
    newest = {parent: [c for c in lake.log(parent) if c.page.get("days")][-1:] for parent in model.parents}
    is_newer = any(
        commit.page.get("run_id") != run_id and commit.version > inputs.get(parent, -1)
        for parent, commits in newest.items()
        for commit in commits
    )
    return {WHOLE: INPUT} if is_newer else {}


def _has_days(lake: Lake, asset: str) -> bool:
    layer, name = asset.split("/")
    if layer == "gold":
        return bool(lake.models[asset].day)
    return lake.contracts[name].kind == "event"
