"""Visits to the web shop: sessions of a few actions each, by known customers and by strangers."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from stream_assets.sample import vocabulary as words
from stream_assets.sample.batch import LATE_SHARE, Shipment, build_batch, hold_back
from stream_assets.sample.sales import PRODUCT_COUNT
from stream_assets.sample.text import numbered, pick, timestamps
from stream_assets.sample.world import World

WEB_EVENTS_PER_DAY = 6000
EVENTS_PER_VISIT = 5
STRANGER_SHARE = 0.4
SHOP = "https://shop.example.com"


@dataclass(frozen=True)
class Actions:
    """The actions of a day in order of time: which visit each belongs to, and whether it opens it."""

    visits: int
    visit: np.ndarray
    is_first: np.ndarray
    occurred_at: np.ndarray


def browse(world: World, day: int) -> Iterator[Shipment]:
    """Yield what visitors did in the web shop on a day; phones without network report up to three days late."""
    rng = world.generator("visits", day)
    actions = _draw_actions(world, rng, day)
    batch = build_batch(_web_columns(world, rng, actions, day), event_day=day)
    yield from (("web_events", at, rows) for at, rows in hold_back(batch, rng, day=day, share=LATE_SHARE))


def _draw_actions(world: World, rng: np.random.Generator, day: int) -> Actions:
    visits = max(1, world.volume(WEB_EVENTS_PER_DAY, day) // EVENTS_PER_VISIT)
    lengths = 1 + rng.poisson(EVENTS_PER_VISIT - 1, visits)
    visit = np.repeat(np.arange(visits), lengths)
    step = np.arange(len(visit)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    started_at = world.draw_times(rng, visits, day)[visit]
    occurred_at = world.same_day(started_at + step * 45_000 + rng.integers(0, 40_000, len(visit)), day)
    order = np.argsort(occurred_at, kind="stable")
    return Actions(visits, visit[order], step[order] == 0, occurred_at[order])


def _web_columns(world: World, rng: np.random.Generator, actions: Actions, day: int) -> dict[str, pa.Array]:
    visit, visits, count = actions.visit, actions.visits, len(actions.visit)
    customer = world.customers.draw(rng, visits, day)[visit]
    is_stranger = (rng.random(visits) < STRANGER_SHARE)[visit]
    device = rng.choice(3, visits, p=(0.4, 0.5, 0.1))[visit]
    address = rng.integers(0, len(_addresses()), visits)[visit]
    name = np.where(actions.is_first, 0, rng.choice(5, count, p=(0.58, 0.2, 0.13, 0.06, 0.03)))
    product = rng.integers(0, PRODUCT_COUNT, count)
    page = np.where((name == 0) & ~actions.is_first, len(words.WEB_PAGES) + product, name)
    return {
        "web_event_id": numbered("web_", world.first_number(day) + np.arange(count)),
        "session_id": numbered("ses_", world.first_number(day) + visit),
        "customer_id": world.customers.ids.take(pa.array(customer, mask=is_stranger)),
        "event_name": pick(words.WEB_EVENT_NAMES, name),
        "page_url": pick(_pages(), page),
        "device": pick(words.DEVICES, device),
        "country": world.customers.countries(customer),
        "ip_address": pick(_addresses(), address),
        "user_agent": pick(words.USER_AGENTS, device),
        "occurred_at": timestamps(actions.occurred_at),
    }


@cache
def _pages() -> tuple[str, ...]:
    """Return the page of each kind of action, then the page of each product."""
    product_pages = tuple(f"/product/prd_{10_000 + product}" for product in range(PRODUCT_COUNT))
    return tuple(SHOP + path for path in words.WEB_PAGES + product_pages)


@cache
def _addresses() -> tuple[str, ...]:
    """Return network addresses from the blocks reserved for documentation."""
    old = [f"{block}.{host}" for block in ("192.0.2", "198.51.100", "203.0.113") for host in range(1, 255)]
    new = [f"2001:db8:{i * 7919 % 65_536:x}::{i + 1:x}" for i in range(3000)]
    return tuple(old + new)
