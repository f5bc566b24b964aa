"""Master data: the changes of customers, and the full lists of stores and campaigns each day.

With faults on, every delivery also carries a few spare rows whose keys appear nowhere else. Only they are made faulty,
so no order loses its customer or store because of a rejected row.
"""

from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import pyarrow as pa

from stream_assets.sample import vocabulary as words
from stream_assets.sample.batch import LATE_SHARE, Shipment, build_batch, hold_back
from stream_assets.sample.text import MS_PER_DAY, pick, timestamps
from stream_assets.sample.world import BROWSER_STRIDE, World

CHANGED_PER_DAY = 0.02
DELETED_PER_DAY = 0.3

# A third of each dataset's catalogue of faults, so that three deliveries show all of it.
SPARE_CUSTOMERS = 6
SPARE_STORES = 3
SPARE_CAMPAIGNS = 2


class CustomerLog:
    """The customers' changing state; ask it for the days in order."""

    def __init__(self, world: World) -> None:
        """Start before the first day, with nobody registered."""
        everybody = world.customers
        self._world = world
        self._positions = np.arange(len(everybody.ids))
        self._segment = np.zeros(len(everybody.ids), dtype=np.int64)
        self._city = self._positions.copy()
        self._phone = self._positions.copy()
        self._is_active = np.ones(len(everybody.ids), dtype=bool)
        self._is_deleted = np.zeros(len(everybody.ids), dtype=bool)
        self._registered_at = np.zeros(len(everybody.ids), dtype=np.int64)

    def changes(self, day: int) -> Iterator[Shipment]:
        """Yield the day's registrations, changes and deletions, each as the customer's whole row."""
        rng = self._world.generator("customers", day)
        known = self._world.customers.registered_before(day)
        fresh = self._register(rng, day)
        yield "customers", day, self._batch(rng, day, fresh)
        if day:
            deleted, changed = self._choose(rng, self._positions[:known])
            self._is_deleted[deleted] = True
            yield "customers", day, self._batch(rng, day, deleted)
            self._change(rng, changed)
            late_or_not = hold_back(self._batch(rng, day, changed), rng, day=day, share=LATE_SHARE)
            yield from (("customers", at, rows) for at, rows in late_or_not)
        if self._world.faults:
            yield "customers", day, self._spare_batch(rng, day)

    def _register(self, rng: np.random.Generator, day: int) -> np.ndarray:
        everybody = self._world.customers
        if day == 0:
            fresh = self._positions[: everybody.initial]
            age = rng.integers(1, 1000, len(fresh)) * MS_PER_DAY
            self._segment[fresh] = rng.choice(4, len(fresh), p=(0.1, 0.7, 0.12, 0.08))
        else:
            first = everybody.registered_before(day)
            fresh, age = self._positions[first : first + everybody.new_per_day], 0
        self._registered_at[fresh] = self._world.draw_times(rng, len(fresh), day) - age
        return fresh

    def _choose(self, rng: np.random.Generator, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Choose who is deleted and who changes; nobody does both."""
        alive = known[~self._is_deleted[known]]
        browsers = alive[alive % BROWSER_STRIDE == BROWSER_STRIDE - 1]
        wanted = rng.poisson(DELETED_PER_DAY * max(1.0, self._world.scale))
        deleted = rng.choice(browsers, min(len(browsers), wanted), replace=False)
        rest = np.setdiff1d(alive, deleted)
        return deleted, rng.choice(rest, round(CHANGED_PER_DAY * len(rest)), replace=False)

    def _change(self, rng: np.random.Generator, changed: np.ndarray) -> None:
        """Give each customer a new segment, town or phone, or (rarely) switch it off or on."""
        what = rng.choice(4, len(changed), p=(0.4, 0.3, 0.25, 0.05))
        promoted, moved, renumbered, switched = (changed[what == kind] for kind in range(4))
        self._segment[promoted] = (self._segment[promoted] + 1) % len(words.SEGMENTS)
        self._city[moved] += 1
        self._phone[renumbered] += 1009
        self._is_active[switched] ^= True

    def _batch(self, rng: np.random.Generator, day: int, who: np.ndarray) -> pa.Table:
        everybody, taken = self._world.customers, pa.array(who)
        columns = {
            "customer_id": everybody.ids.take(taken),
            "full_name": everybody.full_names.take(taken),
            "email": everybody.emails.take(taken),
            "phone": pa.array([_phone(number) for number in self._phone[who].tolist()], pa.string()),
            "segment": pick(words.SEGMENTS, self._segment[who]),
            "country": everybody.countries(who),
            "city": pa.array(
                [_city(*home) for home in zip(everybody.country_index[who], self._city[who], strict=True)], pa.string()
            ),
            "is_active": pa.array(self._is_active[who] & ~self._is_deleted[who]),
            "is_deleted": pa.array(self._is_deleted[who]),
            "registered_at": timestamps(self._registered_at[who]),
            "updated_at": timestamps(self._moments(rng, day, who)),
        }
        return build_batch(columns, event_day=day, can_fail=False)

    def _moments(self, rng: np.random.Generator, day: int, who: np.ndarray) -> np.ndarray:
        """Draw when the rows reached their state, which is never before the registration."""
        return np.maximum(self._world.draw_times(rng, len(who), day), self._registered_at[who])

    def _spare_batch(self, rng: np.random.Generator, day: int) -> pa.Table:
        """Return people who register once and are never heard of again."""
        first = self._world.first_number(day) + 900_000
        given = rng.choice(words.GIVEN_NAMES, SPARE_CUSTOMERS)
        moments = timestamps(self._world.draw_times(rng, SPARE_CUSTOMERS, day))
        columns = {
            "customer_id": pa.array([f"cus_{first + i}" for i in range(SPARE_CUSTOMERS)]),
            "full_name": pa.array([f"{name} Sparrowhawk" for name in given]),
            "email": pa.array([f"sparrowhawk.{first + i}@example.com" for i in range(SPARE_CUSTOMERS)]),
            "phone": pa.array([_phone(first + i) for i in range(SPARE_CUSTOMERS)], pa.string()),
            "segment": pa.repeat("new", SPARE_CUSTOMERS),
            "country": pa.repeat("US", SPARE_CUSTOMERS),
            "city": pa.repeat("Portland", SPARE_CUSTOMERS),
            "is_active": pa.repeat(True, SPARE_CUSTOMERS),
            "is_deleted": pa.repeat(False, SPARE_CUSTOMERS),
            "registered_at": moments,
            "updated_at": moments,
        }
        return build_batch(columns, event_day=day, can_repeat=False)


def list_stores(world: World, day: int) -> Iterator[Shipment]:
    """Yield the full list of stores, as every delivery holds it."""
    yield "stores", day, _store_batch(world, day, world.stores.ids.to_pylist(), is_spare=False)
    if world.faults:
        yield "stores", day, _store_batch(world, day, _spare_ids(world, day, "sto", SPARE_STORES), is_spare=True)


def list_campaigns(world: World, day: int) -> Iterator[Shipment]:
    """Yield the full list of campaigns, as every delivery holds it."""
    yield "campaigns", day, _campaign_batch(world, day, world.campaign_ids.to_pylist(), is_spare=False)
    if world.faults:
        yield (
            "campaigns",
            day,
            _campaign_batch(world, day, _spare_ids(world, day, "cmp", SPARE_CAMPAIGNS), is_spare=True),
        )


def _store_batch(world: World, day: int, ids: list[str], *, is_spare: bool) -> pa.Table:
    places = [(country, city) for country, _, cities in words.COUNTRIES for city in cities]
    home = [places[i * 5 % len(places)] for i in range(len(ids))]
    columns = {
        "store_id": pa.array(ids),
        "store_name": pa.array([f"{city} {'Arcade' if i % 2 else 'Market Hall'}" for i, (_, city) in enumerate(home)]),
        "region": pa.array([words.REGIONS[i % 4] for i in range(len(ids))]),
        "country": pa.array([country for country, _ in home]),
        "city": pa.array([city for _, city in home]),
        "opened_on": pa.array([world.start - timedelta(days=200 + 91 * i) for i in range(len(ids))]),
        "square_meters": pa.array([400 + i * 173 % 2600 for i in range(len(ids))]),
        "manager_email": pa.array([f"manager.{store}@example.com" for store in ids]),
    }
    return build_batch(columns, event_day=day, can_fail=is_spare, can_repeat=False)


def _campaign_batch(world: World, day: int, ids: list[str], *, is_spare: bool) -> pa.Table:
    started = [world.start - timedelta(days=60 - 9 * i) for i in range(len(ids))]
    columns = {
        "campaign_id": pa.array(ids),
        "campaign_name": pa.array([f"{words.CAMPAIGN_THEMES[i % 6]} {i + 1}" for i in range(len(ids))]),
        "channel": pa.array([words.CAMPAIGN_CHANNELS[i % 4] for i in range(len(ids))]),
        "started_on": pa.array(started),
        "ended_on": pa.array(
            [first + timedelta(days=28) if i % 3 else None for i, first in enumerate(started)], pa.date32()
        ),
        "budget_cents": pa.array([250_000 + 75_000 * i for i in range(len(ids))]),
    }
    return build_batch(columns, event_day=day, can_fail=is_spare, can_repeat=False)


def _spare_ids(world: World, day: int, prefix: str, count: int) -> list[str]:
    return [f"{prefix}_{world.first_number(day) + 900_000 + i}" for i in range(count)]


def _phone(number: int) -> str | None:
    """Return a number from the range reserved for fiction; one customer of seven gives none."""
    return None if number % 7 == 0 else f"+1-{200 + number // 100 % 700}-555-01{number % 100:02d}"


def _city(country: int, number: int) -> str:
    cities = words.COUNTRIES[country][2]
    return cities[number % len(cities)]
