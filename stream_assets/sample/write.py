"""Writes a sample landing zone: day by day, every dataset's delivery, then the manifest.

The same arguments give byte-identical files, and a longer history from the same first day begins with the same files.
Files of an earlier call with other arguments are overwritten where the paths agree and otherwise left alone.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import chain
from pathlib import Path

import pyarrow as pa

from stream_assets.sample.batch import Shipment
from stream_assets.sample.delivery import DATASETS, Copy, Delivery
from stream_assets.sample.formats import write_file
from stream_assets.sample.manifest import MANIFEST_FILE, Ledger, Manifest
from stream_assets.sample.master import CustomerLog, list_campaigns, list_stores
from stream_assets.sample.sales import sell
from stream_assets.sample.visits import browse
from stream_assets.sample.world import World

# Where the canaries are taken from, and how many of each.
CANARY_COLUMNS = {
    "customers": ("full_name", "email", "phone"),
    "payments": ("card_holder",),
    "web_events": ("ip_address",),
    "stores": ("manager_email",),
}
CANARIES_PER_COLUMN = 5


def write_sample(landing: Path, *, days: int, end: date, scale: float, seed: int, faults: bool = True) -> Manifest:
    """Write deliveries of the retail world, realistic and imperfect in known ways.

    Args:
        landing: Landing zone; files go to `<landing>/<dataset>/<YYYY-MM-DD>/part-0.<ext>`.
        days: Number of delivery days.
        end: Last delivery day.
        scale: 1.0 is about 2,000 orders a day.
        seed: Source of every choice.
        faults: Whether to inject faults; without them nothing ends in quarantine.

    Returns:
        The manifest, also written to `<landing>/manifest.json` once every delivery is complete.
    """
    if days < 1 or scale <= 0 or seed < 0:
        raise ValueError(f"days={days} must be at least 1, scale={scale} above 0 and seed={seed} not negative")
    world = World(start=end - timedelta(days=days - 1), days=days, scale=float(scale), seed=seed, faults=faults)
    ledger, canaries = Ledger(), []
    again: dict[str, tuple[Copy, ...]] = {}
    for day, batches in delivery_days(world):
        for dataset in DATASETS:
            delivery = Delivery(world, dataset, day, batches[dataset.name], again.get(dataset.name, ()))
            content, again[dataset.name] = delivery.fill(ledger)
            write_file(landing / delivery.file, content)
            if day == 0:
                canaries += _find_canaries(delivery.batch, CANARY_COLUMNS.get(dataset.name, ()), content)
    manifest = _build_manifest(world, end, ledger, canaries)
    write_file(landing / MANIFEST_FILE, manifest.to_json().encode())
    return manifest


def delivery_days(world: World) -> Iterator[tuple[int, dict[str, pa.Table]]]:
    """Yield each day with the rows that arrive on it, whenever they happened."""
    customers = CustomerLog(world)
    arriving: dict[int, list[Shipment]] = defaultdict(list)
    for day in range(world.days):
        shipments = chain(
            customers.changes(day),
            list_stores(world, day),
            list_campaigns(world, day),
            sell(world, day),
            browse(world, day),
        )
        for shipment in shipments:
            arriving[shipment[1]].append(shipment)
        batches: dict[str, list[pa.Table]] = defaultdict(list)
        for dataset, _, rows in arriving.pop(day):
            batches[dataset].append(rows)
        yield day, {dataset: pa.concat_tables(rows).combine_chunks() for dataset, rows in batches.items()}


def _find_canaries(batch: pa.Table, columns: tuple[str, ...], content: bytes) -> list[str]:
    """Return the longest, so most distinctive, values of personal data that are really in the file."""
    found: list[str] = []
    for column in columns:
        values = sorted(set(batch[column].drop_null().to_pylist()), key=lambda value: (-len(value), value))
        found += [value for value in values[: 2 * CANARIES_PER_COLUMN] if value.encode() in content][
            :CANARIES_PER_COLUMN
        ]
    return found


def _build_manifest(world: World, end: date, ledger: Ledger, canaries: list[str]) -> Manifest:
    return Manifest(
        start=world.start.isoformat(),
        end=end.isoformat(),
        days=world.days,
        scale=world.scale,
        seed=world.seed,
        faults=tuple(ledger.faults),
        totals=ledger.totals(),
        pii_canaries=tuple(canaries),
    )
