"""The retail world as messages: the sample's orders, items, payments and web events, in the order they would arrive.

The last of them happens at a given moment, so that a replayed day ends now. Faults, repetitions and late records are those of
the files. Entities and reference data are not messages: they live in a database and in files.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from stream_assets.sample.delivery import DATASETS, Copy, Dataset, Delivery
from stream_assets.sample.manifest import Ledger
from stream_assets.sample.world import World
from stream_assets.sample.write import delivery_days

LIVE = ("orders", "order_items", "payments", "web_events")
_MOMENT = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z")
_END_OF_DAY = timedelta(hours=23, minutes=59, seconds=59)


@dataclass(frozen=True)
class Message:
    """One message: its dataset, its key (None if it has no readable one) and its bytes."""

    dataset: str
    key: str | None
    value: bytes


def live_messages(*, days: int, ending: datetime, scale: float, seed: int, faults: bool = True) -> Iterator[Message]:
    """The messages of some days in order of arrival, dated so that the last of them happens at `ending`."""
    last = ending.date()
    world = World(start=last - timedelta(days=days - 1), days=days, scale=float(scale), seed=seed, faults=faults)
    shift = ending - (datetime.combine(last, datetime.min.time(), UTC) + _END_OF_DAY)
    again: dict[str, tuple[Copy, ...]] = {}
    for day, batches in delivery_days(world):
        arriving: list[tuple[datetime, Message]] = []
        for dataset in (d for d in DATASETS if d.name in LIVE):
            as_json = replace(dataset, file_name="part-0.jsonl")
            delivery = Delivery(world, as_json, day, batches[dataset.name], again.get(dataset.name, ()))
            content, again[dataset.name] = delivery.fill(Ledger())
            arriving += _arrivals(as_json, content.rstrip(b"\n").split(b"\n"), date.fromisoformat(world.iso_day(day)))
        for _, message in sorted(arriving, key=lambda pair: pair[0]):
            yield replace(message, value=_dated(message.value, shift))


def _arrivals(dataset: Dataset, lines: list[bytes], day: date) -> Iterator[tuple[datetime, Message]]:
    """Each line with the moment it arrives: when it happened, if that was this day, else just after the one before it."""
    midnight = datetime.combine(day, datetime.min.time(), UTC)
    latest = midnight
    for line in lines:
        found = _MOMENT.search(line)
        moment = _read(found[0]) if found else None
        if moment and moment.date() == day:
            latest = moment
        yield latest, Message(dataset.name, _key(dataset, line), line)


def _key(dataset: Dataset, line: bytes) -> str | None:
    try:
        document = json.loads(line)
        record = document["data"] if dataset.envelope_moment else document
        return str(record[dataset.key])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _dated(line: bytes, shift: timedelta) -> bytes:
    """The line with every moment in it moved: how they lie to each other stays as it was."""
    return _MOMENT.sub(lambda found: _shifted(found[0], shift), line)


def _shifted(text: bytes, shift: timedelta) -> bytes:
    moment = _read(text)
    return (moment + shift).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode() if moment else text


def _read(text: bytes) -> datetime | None:
    try:
        return datetime.fromisoformat(text.decode())
    except ValueError:
        return None
