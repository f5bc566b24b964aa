"""The retail world behind the deliveries: its calendar, volumes, seasons, and who shops where.

Every draw comes from a generator seeded by (seed, purpose, day), so a longer history with the same first day begins
with the same files. The records themselves are in `sales`, `visits` and `master`.
"""

import unicodedata
import zlib
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

import numpy as np
import pyarrow as pa

from stream_assets.sample import vocabulary as words
from stream_assets.sample.text import MS_PER_DAY, pick

# Monday to Sunday; the mean is 1, so weekly totals follow the scale alone.
WEEKDAY_FACTORS = (0.90, 0.88, 0.92, 0.98, 1.12, 1.22, 0.98)
GROWTH_PER_DAY = 1.0005

# Share of a day's traffic per hour (UTC): quiet nights, a lunch peak, a taller evening one.
HOUR_WEIGHTS = np.array(
    [2, 1, 1, 1, 1, 2, 4, 7, 10, 12, 13, 15, 17, 15, 13, 13, 14, 17, 21, 24, 23, 17, 10, 5], dtype=float
)

# Exponent of the rank-size law of customers and stores. Near 1, a handful would hold most of a small world.
SKEW = 0.8
# Sixty times the average: without a limit, an unlucky seed gives one customer of 3,000 a seventh of all orders.
MAX_APPEAL = 300.0

# Every 50th customer registers and never orders. Deletions are drawn among them, so that no order loses its customer.
BROWSER_STRIDE = 50


@dataclass(frozen=True)
class World:
    """What is generated: the days, the size, the seed, and whether deliveries are imperfect."""

    start: date
    days: int
    scale: float
    seed: int
    faults: bool

    def iso_day(self, day: int) -> str:
        """Return the ISO date of a day given by its position in the history."""
        return (self.start + timedelta(days=day)).isoformat()

    def midnight(self, day: int) -> int:
        """Return the first millisecond of a day, since 1970."""
        return (self.start - date(1970, 1, 1) + timedelta(days=day)).days * MS_PER_DAY

    def first_number(self, day: int) -> int:
        """Return the number from which a day counts its identifiers: 20250131000000 and up."""
        return int(self.iso_day(day).replace("-", "")) * 1_000_000

    def generator(self, purpose: str, day: int = 0) -> np.random.Generator:
        """Return the source of randomness of one purpose on one day."""
        return np.random.default_rng([self.seed, zlib.crc32(purpose.encode()), day])

    def volume(self, per_day: float, day: int) -> int:
        """Return how many rows a day holds, given its average at scale 1."""
        weekday = (self.start + timedelta(days=day)).weekday()
        return max(4, round(per_day * self.scale * WEEKDAY_FACTORS[weekday] * GROWTH_PER_DAY**day))

    def sized(self, count: int, at_least: int) -> int:
        """Return the size of a population, given its size at scale 1."""
        return max(at_least, round(count * self.scale))

    def draw_times(self, rng: np.random.Generator, count: int, day: int) -> np.ndarray:
        """Draw sorted moments of a day, in milliseconds since 1970, that follow the hours' weights."""
        hours = rng.choice(24, size=count, p=HOUR_WEIGHTS / HOUR_WEIGHTS.sum())
        offsets = hours * 3_600_000 + rng.integers(0, 3_600_000, count)
        return self.midnight(day) + np.sort(offsets)

    def same_day(self, times: np.ndarray, day: int) -> np.ndarray:
        """Hold moments back from running into the next day."""
        return np.minimum(times, self.midnight(day + 1) - 1)

    @cached_property
    def customers(self) -> "Customers":
        """Return everybody who ever registers."""
        return build_customers(self)

    @cached_property
    def stores(self) -> "Stores":
        """Return the stores orders may name."""
        count = self.sized(20, at_least=8)
        return Stores(
            ids=pa.array([f"sto_{i + 1:04d}" for i in range(count)]), appeal=_draw_appeal(self, "stores", count)
        )

    @cached_property
    def campaign_ids(self) -> pa.Array:
        """Return the campaigns orders may name."""
        return pa.array([f"cmp_{i + 1:04d}" for i in range(self.sized(12, at_least=6))])


@dataclass(frozen=True)
class Stores:
    """The stores and the cumulated appeal that makes some busier than others."""

    ids: pa.Array
    appeal: np.ndarray

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw the positions of stores."""
        return _draw_skewed(rng, count, self.appeal)


@dataclass(frozen=True)
class Customers:
    """Everybody who ever registers; what never changes about them. Their changing state is in `master`."""

    initial: int
    new_per_day: int
    ids: pa.Array
    full_names: pa.Array
    card_names: pa.Array
    emails: pa.Array
    country_index: np.ndarray
    appeal: np.ndarray

    def registered_before(self, day: int) -> int:
        """Return how many customers a day starts with; the first day starts with the initial ones."""
        return self.initial + self.new_per_day * max(0, day - 1)

    def draw(self, rng: np.random.Generator, count: int, day: int) -> np.ndarray:
        """Draw the positions of shoppers among those delivered before the day (or with the first delivery)."""
        return _draw_skewed(rng, count, self.appeal[: self.registered_before(day)])

    def countries(self, positions: np.ndarray) -> pa.Array:
        """Return the home countries of customers."""
        return pick([country for country, _, _ in words.COUNTRIES], self.country_index[positions])

    def currencies(self, positions: np.ndarray) -> pa.Array:
        """Return the currencies customers pay in."""
        return pick([currency for _, currency, _ in words.COUNTRIES], self.country_index[positions])


def build_customers(world: World) -> Customers:
    """Invent everybody who registers during the history."""
    initial, new_per_day = world.sized(3000, at_least=100), world.sized(20, at_least=1)
    count = initial + new_per_day * max(0, world.days - 1)
    given = _draw_positions(world, "given names", count, len(words.GIVEN_NAMES))
    family = _draw_positions(world, "family names", count, len(words.FAMILY_NAMES))
    names = [(words.GIVEN_NAMES[g], words.FAMILY_NAMES[f]) for g, f in zip(given, family, strict=True)]
    return Customers(
        initial=initial,
        new_per_day=new_per_day,
        ids=pa.array([f"cus_{i + 1:06d}" for i in range(count)]),
        full_names=pa.array([f"{g} {f}" for g, f in names]),
        card_names=pa.array([f"{g} {f}".upper() for g, f in names]),
        emails=pa.array([f"{to_ascii(g)}.{to_ascii(f)}.{i + 1}@example.com".lower() for i, (g, f) in enumerate(names)]),
        country_index=_draw_positions(world, "countries", count, len(words.COUNTRIES)),
        appeal=_draw_appeal(world, "customers", count, skip_every=BROWSER_STRIDE),
    )


def to_ascii(name: str) -> str:
    """Return a name without its accents, as people write it in an address."""
    return unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()


def _draw_positions(world: World, purpose: str, count: int, choices: int) -> np.ndarray:
    return (world.generator(purpose).random(count) * choices).astype(np.int64)


def _draw_appeal(world: World, purpose: str, count: int, skip_every: int | None = None) -> np.ndarray:
    """Return cumulated Pareto weights: their rank-size law is Zipf's, and a longer list begins like a shorter one."""
    weights = (1.0 - world.generator(f"appeal of {purpose}").random(count)) ** -SKEW
    weights = np.minimum(weights, MAX_APPEAL)
    if skip_every:
        weights[skip_every - 1 :: skip_every] = 0.0
    return np.cumsum(weights)


def _draw_skewed(rng: np.random.Generator, count: int, appeal: np.ndarray) -> np.ndarray:
    return np.searchsorted(appeal, rng.random(count) * appeal[-1], side="right")
