"""What a rollback would do, from the Delta logs alone: nothing is written and no engine started.

A table goes back partition by partition to what it was before the runs that are undone. Where that would also undo
somebody else's work on a Gold table, the table is built again from Silver instead: it is a function of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from uuid import uuid4

from stream_assets.engine.history import WHOLE, History, Holding, read_history
from stream_assets.engine.session import LAYERS, tables_in
from stream_assets.errors import LakeError, StreamError
from stream_assets.settings import Settings

SIBLING = {"silver": "quarantine", "quarantine": "silver"}
"""Layers that one step writes: what one of them accepts, the other does not have."""

Children = Callable[[str], Collection[str]]
"""The assets made of an asset, all the way down."""


@dataclass(frozen=True)
class Request:
    """What somebody asked to undo: a run, or some days of an asset."""

    run: str | None = None
    asset: str | None = None
    days: tuple[date, date] | None = None
    to: str | None = None
    """Version or time to go back to. None: what was there before the latest change."""
    downstream: bool = False
    include_later: bool = False
    """Whether work that other runs did since on the same days may be undone too."""

    def __str__(self) -> str:
        days = f" {self.days[0]}..{self.days[1]}" if self.days else ""
        return f"run {self.run}" if self.run else f"{self.asset}{days} to {self.to or 'the version before'}"


@dataclass(frozen=True)
class Restore:
    """One table that goes back."""

    asset: str
    history: History
    targets: Mapping[str, int]
    """Partition → the version it goes back to."""
    undone: tuple[str, ...]
    """The runs whose changes of these partitions are undone."""
    later: tuple[str, ...] = ()
    """Those of them that nobody asked to undo."""

    @cached_property
    def days(self) -> list[str]:
        """The days it is about: of a table in one piece, those that the undone commits were about."""
        if WHOLE not in self.targets:
            return sorted(self.targets)
        pages = (c.page for c in self.history.since(self.targets[WHOLE], WHOLE))
        return sorted({day for page in pages for day in page.get("days", {})})

    @cached_property
    def now(self) -> Holding:
        """What these partitions hold."""
        return self.history.holding(self.history.version, self.targets)

    @cached_property
    def then(self) -> Holding:
        """What they held."""
        found = [self.history.holding(version, days) for version, days in _by_version(self.targets).items()]
        return Holding(*(sum(part) for part in zip(*((h.rows, h.files, h.missing) for h in found), strict=True)))

    @property
    def first_undone(self) -> datetime:
        """When the first change that is undone was committed."""
        return min(c.committed_at for day, version in self.targets.items() for c in self.history.since(version, day))

    def problem(self) -> str | None:
        """Why it cannot go back, if so."""
        try:
            if not self.then.missing:
                return None
            reason = f"{self.then.missing} of its {self.then.files} files were vacuumed away."
        except LakeError as error:
            reason = str(error)
        since = self.history.readable_since(min(self.targets.values()), self.targets)
        reach = f"version {since.version} of {since.committed_at:%Y-%m-%d %H:%M} UTC" if since else "now"
        return f"{self.asset}: {reason} These days can be had back to {reach}, not further."


@dataclass(frozen=True)
class Rebuild:
    """An asset that is computed again instead."""

    asset: str
    days: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Plan:
    """Everything one rollback would do."""

    request: Request
    restores: tuple[Restore, ...]
    rebuilds: tuple[Rebuild, ...] = ()
    id: str = field(default_factory=lambda: f"rollback-{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid4().hex[:6]}")

    @property
    def undone(self) -> tuple[str, ...]:
        """Every run of which something is undone."""
        return tuple(sorted({run for restore in self.restores for run in restore.undone}))

    @cached_property
    def problems(self) -> list[str]:
        """Why the whole of it is refused: half a rollback helps nobody."""
        found = [problem for restore in self.restores if (problem := restore.problem())]
        if not self.request.include_later:
            found += [
                f"{r.asset} was changed since by {', '.join(r.later)}. Give --include-later to undo that too, or undo those runs."
                for r in self.restores
                if r.later
            ]
        return found


def plan_rollback(settings: Settings, request: Request, children: Children) -> Plan:
    """The plan for a request. Raises StreamError if it asks for something that is not there."""
    lake = _Lake(settings)
    if request.run:
        runs = {lake.full_run_id(request.run)}
        request = replace(request, run=next(iter(runs)))
        found = [r for asset in lake.assets if (r := before_runs(asset, lake[asset], runs))]
    else:
        found = list(_plan_asset(lake, request))
        if request.downstream and found:
            found += _built_with(lake, children, found[0])
    restores, rebuilds = _settle_gold(found, request)
    if request.downstream and found:
        rebuilds += _stale_descendants(lake, children, found, rebuilds)
    return Plan(request, tuple(restores), tuple(rebuilds))


def before_runs(
    asset: str, history: History, runs: Collection[str], only: Collection[str] | None = None
) -> Restore | None:
    """The table as it was before the first change that one of these runs made to each partition; None if there is none."""
    first: dict[str, int] = {}
    for change in history.changes:
        if change.run_id in runs:
            for part in change.partitions:
                if only is None or part == WHOLE or part in only:
                    first.setdefault(part, change.version - 1)
    targets = {part: version for part, version in first.items() if not _is_undone(history, part, runs)}
    if not targets:
        return None
    undone = _runs_since(history, targets)
    return Restore(asset, history, targets, undone, tuple(run for run in undone if run not in runs))


def _plan_asset(lake: _Lake, request: Request) -> Iterator[Restore]:
    asset = str(request.asset)
    history = lake[asset]
    parts = [p for p in _partitions(history) if p == WHOLE or _is_within(p, request.days)]
    if request.days and history.partition_by is None:
        raise StreamError(f"{asset} has no partitions: it goes back as a whole. Leave --partition away.")
    versions = {part: _version(history, part, request.to) for part in parts}
    targets = {p: v for p, v in versions.items() if v is not None and history.since(v, p)}
    if not targets:
        return
    restore = Restore(asset, history, targets, _runs_since(history, targets))
    yield restore
    layer, _, name = asset.partition("/")
    sibling = f"{SIBLING.get(layer)}/{name}"
    if sibling in lake.assets:
        only = None if WHOLE in targets or lake[sibling].partition_by is None else set(targets)
        if also := before_runs(sibling, lake[sibling], set(restore.undone), only):
            yield also


def _built_with(lake: _Lake, children: Children, restore: Restore) -> Iterator[Restore]:
    """Gold that the undone runs built themselves: it goes back with what it was made of.

    A table in one piece holds all that these runs brought, so it goes back only if all of that is undone.
    """
    undone = set(restore.undone)
    brought = {part for c in restore.history.changes if c.run_id in undone for part in c.partitions}
    for child in (c for c in children(restore.asset) if c.startswith("gold/") and c in lake.assets):
        only = None if WHOLE in restore.targets else set(restore.targets)
        found = before_runs(child, lake[child], undone, only)
        if found and (WHOLE not in found.targets or brought <= set(restore.targets)):
            yield found


def _version(history: History, part: str, to: str | None) -> int | None:
    """The version a partition goes back to."""
    if to is None:
        changes = history.since(-1, part)
        return changes[-1].version - 1 if changes else None
    if to.isdigit():
        if int(to) > history.version:
            raise StreamError(f"{history.path} has no version {to}: the newest is {history.version}.")
        return int(to)
    version = history.at(_moment(to))
    if version is None:
        first = history.changes[0]
        raise StreamError(f"The log of {history.path} begins with version {first.version} of {first.committed_at}.")
    return version


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise StreamError(f"--to {text!r} is neither a version nor a time like 2025-03-09T12:00 (UTC).") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _settle_gold(found: Iterable[Restore], request: Request) -> tuple[list[Restore], list[Rebuild]]:
    """Gold tables that cannot go back to exactly what they were are built again."""
    restores, rebuilds = [], []
    for restore in found:
        days = tuple(restore.days)
        if not restore.asset.startswith("gold/"):
            restores.append(restore)
        elif min(restore.targets.values()) < 0:
            rebuilds.append(Rebuild(restore.asset, days, "it did not exist before"))
        elif restore.later and not request.include_later:
            rebuilds.append(Rebuild(restore.asset, days, f"changed since by {', '.join(restore.later)}"))
        elif restore.problem():
            rebuilds.append(Rebuild(restore.asset, days, "its history was vacuumed away"))
        else:
            restores.append(restore)
    return restores, rebuilds


def _stale_descendants(
    lake: _Lake, children: Children, found: Iterable[Restore], rebuilds: Iterable[Rebuild]
) -> list[Rebuild]:
    """What was made of the undone rows by others: it is computed again from what is restored."""
    settled = {r.asset for r in (*found, *rebuilds)}
    stale: dict[str, set[str]] = {}
    for restore in found:
        for child in (c for c in children(restore.asset) if c not in settled and c in lake.assets):
            if days := _made_since(lake[child], restore):
                stale.setdefault(child, set()).update(days)
    return [Rebuild(asset, tuple(sorted(days)), "made from what is undone") for asset, days in sorted(stale.items())]


def _made_since(history: History, restore: Restore) -> list[str]:
    """The days of a table that were written after the first undone commit and may hold its rows."""
    made = {part for c in history.changes if c.committed_at >= restore.first_undone for part in c.partitions}
    is_by_arrival = restore.asset.startswith("bronze/")  # its days are days of delivery: what they touched is looked up
    about = made if is_by_arrival else made & {WHOLE, *restore.days}
    return sorted(restore.days if WHOLE in about else about)


def _is_undone(history: History, part: str, runs: Collection[str]) -> bool:
    """Whether the latest change of a partition already took these runs back."""
    changes = history.since(-1, part)
    undone = changes[-1].page.get("restored", {}).get("undone", ()) if changes else ()
    return bool(set(undone) & set(runs))


def _runs_since(history: History, targets: Mapping[str, int]) -> tuple[str, ...]:
    changes = {c.version: c.run_id for part, version in targets.items() for c in history.since(version, part)}
    return tuple(dict.fromkeys(run for _, run in sorted(changes.items())))


def _partitions(history: History) -> list[str]:
    return sorted({part for change in history.changes for part in change.partitions})


def _is_within(day: str, days: tuple[date, date] | None) -> bool:
    return days is None or days[0].isoformat() <= day <= days[1].isoformat()


def _by_version(targets: Mapping[str, int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for part, version in targets.items():
        found.setdefault(version, []).append(part)
    return found


class _Lake:
    """The tables of the lake by asset, their histories read when asked for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.assets = [f"{layer}/{name}" for layer in LAYERS for name in sorted(tables_in(settings, layer))]
        self._read: dict[str, History] = {}

    def __getitem__(self, asset: str) -> History:
        layer, _, name = asset.partition("/")
        if asset not in self._read:
            history = read_history(self._settings.table_path(layer, name)) if asset in self.assets else None
            if history is None:
                raise StreamError(f"The lake {self._settings.lake} has no table {asset}. Assets are called layer/name.")
            self._read[asset] = history
        return self._read[asset]

    def full_run_id(self, start: str) -> str:
        """The one run whose id begins like this."""
        runs = {c.run_id for asset in self.assets for c in self[asset].changes if c.page and c.run_id.startswith(start)}
        if start in runs:
            return start
        if len(runs) != 1:
            what = f"{len(runs)} runs begin" if runs else "No commit in the lake is of a run that begins"
            raise StreamError(f"{what} with {start!r}. `stream rollback` needs the id of a run that wrote something.")
        return runs.pop()
