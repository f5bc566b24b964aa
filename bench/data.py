"""The deliveries of the benchmark: orders and payments of Stream's retail sample, byte for byte, without the other datasets.

Written once per set of parameters and kept in `.bench/data`, with the generator's own answers in `answers.json`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa

from bench.job import DATASETS
from stream_assets.sample.delivery import DATASETS as SAMPLE
from stream_assets.sample.delivery import Delivery
from stream_assets.sample.formats import write_file
from stream_assets.sample.manifest import Ledger
from stream_assets.sample.sales import sell
from stream_assets.sample.world import GROWTH_PER_DAY, World

FIRST_DAY = date(2025, 1, 1)
SEED = 7


@dataclass(frozen=True)
class Size:
    """How much is delivered: days of history, then one new day; about 5,000 rows a day at scale 1."""

    days: int
    scale: float
    faults: bool = True
    first_day: date = FIRST_DAY

    @property
    def name(self) -> str:
        """Folder name; other parameters, other folder."""
        since = "" if self.first_day == FIRST_DAY else f"-since-{self.first_day}"
        return f"{self.days}-days{since}-scale-{self.scale:g}{'' if self.faults else '-clean'}"

    @property
    def last_day(self) -> date:
        """Last day of the history."""
        return self.first_day + timedelta(days=self.days - 1)

    @property
    def new_day(self) -> date:
        """The day that comes after the history."""
        return self.first_day + timedelta(days=self.days)

    def times(self, factor: float) -> Size:
        """As many days with so many times the rows."""
        return replace(self, scale=self.scale * factor)

    def longer(self, factor: int) -> Size:
        """So many times the days, the last of them with as many rows: sales have grown from less."""
        before = (factor - 1) * self.days
        since = self.first_day - timedelta(days=before)
        return replace(self, days=self.days * factor, first_day=since, scale=self.scale / GROWTH_PER_DAY**before)


SIZES = {
    "tiny": Size(7, 0.1),
    "small": Size(30, 0.7),
    "season": Size(60, 2.7),
    "medium": Size(365, 2.7),
    "large": Size(365, 10.8),
}
"""About 3 thousand rows (to try the benchmark itself), 100 thousand, 800 thousand, 5 million, 20 million."""


@dataclass(frozen=True)
class Landing:
    """Deliveries on disk and what a correct lake makes of all of them."""

    size: Size
    folder: Path
    answers: dict[str, dict[str, int]]
    """Dataset → rows in, accepted, quarantined, duplicates, the new day included."""
    rows: dict[str, int]
    """ISO delivery day → lines of both datasets."""

    def rows_between(self, first: date, last: date) -> int:
        """Lines delivered on these days."""
        return sum(count for day, count in self.rows.items() if str(first) <= day <= str(last))


def prepare_landing(root: Path, size: Size) -> Landing:
    """The deliveries of this size, generated if they are not there yet."""
    folder = root / size.name
    answers = folder / "answers.json"
    if not answers.exists():
        known = _generate(folder, size)
        answers.write_text(json.dumps(known))
    return Landing(size, folder, **json.loads(answers.read_text()))


def _generate(folder: Path, size: Size) -> dict[str, dict]:
    world = World(start=size.first_day, days=size.days + 1, scale=size.scale, seed=SEED, faults=size.faults)
    ledger, rows, again = Ledger(), {}, {}
    for day, batches in _delivery_days(world):
        for dataset in (d for d in SAMPLE if d.name in batches):
            delivery = Delivery(world, dataset, day, batches[dataset.name], again.get(dataset.name, ()))
            content, again[dataset.name] = delivery.fill(ledger)
            write_file(folder / delivery.file, content)
            rows[world.iso_day(day)] = rows.get(world.iso_day(day), 0) + content.count(b"\n")
    return {"answers": {name: _add_up(days) for name, days in ledger.totals().items()}, "rows": rows}


def _delivery_days(world: World) -> Iterator[tuple[int, dict[str, pa.Table]]]:
    """Yield each day with the rows that arrive on it, late ones included."""
    wanted = {dataset.name for dataset in DATASETS}
    arriving: dict[tuple[int, str], list[pa.Table]] = defaultdict(list)
    for day in range(world.days):
        for dataset, delivered, rows in sell(world, day):
            if dataset in wanted:
                arriving[delivered, dataset].append(rows)
        yield day, {name: pa.concat_tables(arriving.pop((day, name))).combine_chunks() for name in sorted(wanted)}


def _add_up(days: dict) -> dict[str, int]:
    totals = [asdict(counts) for counts in days.values()]
    return {name: sum(counts[name] for counts in totals) for name in totals[0]}
