"""What there is to do about the tables and folders of a lake, found without Spark. Doing it is `work.py`.

No clustering: days are replaced and read whole, so within a day there is nothing to skip, and a table without days is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Literal

from deltalake.exceptions import DeltaError

from stream_assets.contracts.model import Contract
from stream_assets.engine.delta import in_days
from stream_assets.engine.footprint import SMALL_BYTES, Footprint, footprint
from stream_assets.gold.models import Model
from stream_assets.settings import Settings

Kind = Literal["retention", "compact", "vacuum", "prune", "look"]
"""`look` stands for a table that could not even be looked at."""
PRUNED = {"reports/runs": "*.json", "reports/quality": "*-*", "reports/logs": "*.log", "dagster/logs": "*"}
"""Folders of STREAM_HOME whose old files are removed. What is called latest is always kept."""
Reader = Callable[[str], Footprint]


@dataclass(frozen=True)
class Chore:
    """Something to do about one table or folder."""

    kind: Kind
    subject: str
    """A table (`silver/orders`) or a folder of STREAM_HOME."""
    where: str = ""
    """SQL predicate of the rows concerned."""
    before: date | None = None
    """Of retention: the first day that is kept."""
    files: int = 0
    bytes: int = 0
    """What it concerns before."""
    names: tuple[str, ...] = ()
    """Files to remove, for a folder."""
    after: Mapping[str, int] = field(default_factory=dict)
    """What it did, once done."""
    problem: str = ""
    """Why it could not be done."""

    @property
    def text(self) -> str:
        """In words."""
        return {
            "compact": f"{self.files} small files of {self.where or 'the whole table'}",
            "vacuum": f"{self.files} files that no version within the rollback window needs",
            "retention": f"{self.files} files of rows past their retention ({self.where})",
            "prune": f"{self.files} old files",
            "look": "its log",
        }[self.kind]


def find_chores(
    settings: Settings,
    contracts: Mapping[str, Contract],
    models: Mapping[str, Model],
    tables: Iterable[str],
    *,
    read: Reader = footprint,
    now: datetime | None = None,
) -> Iterator[Chore]:
    """Everything worth doing about these tables (`silver/orders`), then about the folders."""
    now = now or datetime.now(UTC)
    for table in tables:
        try:
            found = read(f"{settings.lake}/{table}")
            chores = [*_of_table(settings, table, found, _cutoff(table, contracts, models, now.date()))]
        except (DeltaError, OSError) as error:  # its neighbours are looked after all the same
            chores = [Chore("look", table, problem=first_line(error))]
        yield from chores
    yield from old_files(settings, now)


def first_line(error: Exception) -> str:
    """What an error says, without its stack."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:500]


def _of_table(settings: Settings, table: str, found: Footprint, cutoff: date | None) -> Iterator[Chore]:
    if not found.disk:
        return
    past = [day for day in found.days if cutoff and found.partition and day < cutoff.isoformat()]
    if past:
        sizes = [size for day in past for size in found.days[day]]
        yield Chore("retention", table, f"{found.partition} < date'{cutoff}'", cutoff, len(sizes), sum(sizes))
    crowded = [day for day in found.crowded if day not in past]
    if crowded:
        small = [size for day in crowded for size in found.days[day] if size < SMALL_BYTES]
        where = in_days(found.partition, map(date.fromisoformat, crowded)) if found.partition else ""
        yield Chore("compact", table, where, files=len(small), bytes=sum(small))
    droppable = found.droppable(timedelta(days=settings.rollback_days))
    if droppable:
        yield Chore("vacuum", table, files=len(droppable), bytes=sum(droppable.values()))


def _cutoff(table: str, contracts: Mapping[str, Contract], models: Mapping[str, Model], today: date) -> date | None:
    """The first day that is kept; None if everything is.

    The change log of an entity is never cut: its current state is computed from it. A Gold table is kept as long as the
    longest of the datasets it is made of. Bronze of events is kept a day longer: a record may come before its day begins.
    """
    layer, name = table.split("/")
    if layer == "gold":
        model = models.get(table)
        above = _datasets(models, table) if model and model.day else set()
        kept = [contracts[d].retention for d in above if d in contracts and contracts[d].kind == "event"]
        return today - max(kept) if kept else None
    contract = contracts.get(name)
    if contract is None or contract.kind == "entity" or (contract.kind == "reference" and layer == "silver"):
        return None
    early = timedelta(days=1) if layer == "bronze" and contract.kind == "event" else timedelta()
    return today - contract.retention - early


def _datasets(models: Mapping[str, Model], asset: str) -> set[str]:
    """The datasets a Gold table is made of."""
    if asset not in models:
        return {asset.split("/")[1]}
    return {name for parent in models[asset].parents for name in _datasets(models, parent)}


def old_files(settings: Settings, now: datetime) -> Iterator[Chore]:
    """Reports and logs older than they are kept."""
    oldest = (now - timedelta(days=settings.report_days)).timestamp()
    for folder, pattern in PRUNED.items():
        old = [f for f in (settings.home / folder).glob(pattern) if _is_old(f, oldest)]
        if old:
            names = tuple(sorted(str(f) for f in old))
            yield Chore("prune", folder, files=len(old), bytes=sum(f.stat().st_size for f in old), names=names)


def _is_old(file: Path, oldest: float) -> bool:
    return file.is_file() and not file.stem.startswith("latest") and file.stat().st_mtime < oldest
