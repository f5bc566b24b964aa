"""Orders with their lines and payments: what is sold on a day, and how it changes on the days after.

Functions yield shipments (dataset, delivery day, batch): most rows are delivered on their own day, later versions and
stragglers up to three days after it. Visits to the web shop are in `visits`, customers and stores in `master`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from stream_assets.sample import vocabulary as words
from stream_assets.sample.batch import LATE_SHARE, Shipment, build_batch, hold_back, update_rows
from stream_assets.sample.text import decimals, numbered, pick, timestamps
from stream_assets.sample.world import World

ORDERS_PER_DAY = 2000
PRODUCT_COUNT = 600

DISCOUNT_SHARE = 0.2
CAMPAIGN_SHARE = 0.25
NOTE_SHARE = 0.1
PAID_SHARE = 0.97

# Chance that a record changes its state 1, 2 and 3 days after it was made, and the state it then reaches.
UPDATES = {
    "orders": ((0.14, "shipped"), (0.08, "delivered"), (0.03, "returned")),
    "payments": ((0.08, "captured"), (0.02, "refunded"), (0.01, "refunded")),
}


@dataclass(frozen=True)
class Orders:
    """The orders of a day, as far as their lines and payments need to know them."""

    ids: pa.Array
    placed_at: np.ndarray
    customers: np.ndarray
    is_abandoned: np.ndarray
    total_cents: np.ndarray
    discount_cents: np.ndarray


@dataclass(frozen=True)
class Lines:
    """The order lines of a day: positions of their orders and products, and what was bought."""

    order: np.ndarray
    product: np.ndarray
    quantity: np.ndarray
    price_cents: np.ndarray


def sell(world: World, day: int) -> Iterator[Shipment]:
    """Yield a day's orders, order lines and payments, with the later versions they will get."""
    rng = world.generator("sales", day)
    count = world.volume(ORDERS_PER_DAY, day)
    is_abandoned = _draw_abandoned(rng, count)
    lines = _draw_lines(rng, is_abandoned)
    total_cents = _add_up(rng, lines, is_abandoned)
    has_discount = rng.random(count) < DISCOUNT_SHARE
    orders = Orders(
        ids=numbered("ord_", world.first_number(day) + np.arange(count)),
        placed_at=world.draw_times(rng, count, day),
        customers=world.customers.draw(rng, count, day),
        is_abandoned=is_abandoned,
        total_cents=total_cents,
        discount_cents=np.where(has_discount, total_cents * rng.integers(5, 21, count) // 100, 0),
    )
    yield from _ship_orders(world, day, orders)
    items = _item_batch(world, day, orders, lines)
    yield from (("order_items", at, rows) for at, rows in hold_back(items, rng, day=day, share=LATE_SHARE))
    yield from _ship_payments(world, day, orders)


def _draw_abandoned(rng: np.random.Generator, count: int) -> np.ndarray:
    """Choose the orders cancelled before anything was picked or paid.

    Nothing refers to them, so they can be made faulty without turning a good line or payment into an orphan.
    """
    abandoned = np.zeros(count, dtype=bool)
    abandoned[rng.choice(count, min(count // 5, max(16, count // 100)), replace=False)] = True
    return abandoned


def _draw_lines(rng: np.random.Generator, is_abandoned: np.ndarray) -> Lines:
    counts = np.where(is_abandoned, 0, 1 + rng.poisson(1.55, len(is_abandoned)))
    order = np.repeat(np.arange(len(counts)), counts)
    product = (PRODUCT_COUNT * rng.random(len(order)) ** 2).astype(np.int64)
    quantity = np.minimum(rng.geometric(0.75, len(order)), 5)
    return Lines(order, product, quantity, _product_prices()[product])


def _add_up(rng: np.random.Generator, lines: Lines, is_abandoned: np.ndarray) -> np.ndarray:
    """Return the total of each order: the sum of its lines, or what was in the cart when it was abandoned."""
    sums = np.bincount(lines.order, weights=lines.quantity * lines.price_cents, minlength=len(is_abandoned))
    return np.where(is_abandoned, rng.integers(500, 50_000, len(is_abandoned)), sums).astype(np.int64)


def _ship_orders(world: World, day: int, orders: Orders) -> Iterator[Shipment]:
    rng = world.generator("orders", day)
    changes = _draw_changes(rng, "orders", ~orders.is_abandoned)
    batch = build_batch(
        _order_columns(world, rng, orders),
        event_day=day,
        can_fail=orders.is_abandoned,
        can_repeat=~orders.is_abandoned & ~changes.any(axis=0),
    )
    yield "orders", day, batch
    yield from _later_versions(world, "orders", day, batch, changes)


def _order_columns(world: World, rng: np.random.Generator, orders: Orders) -> dict[str, pa.Array]:
    count = len(orders.placed_at)
    campaign = pa.array(rng.integers(0, len(world.campaign_ids), count), mask=rng.random(count) > CAMPAIGN_SHARE)
    note = pa.array(rng.integers(0, len(words.ORDER_NOTES), count), mask=rng.random(count) > NOTE_SHARE)
    return {
        "order_id": orders.ids,
        "customer_id": world.customers.ids.take(pa.array(orders.customers)),
        "store_id": world.stores.ids.take(pa.array(world.stores.draw(rng, count))),
        "campaign_id": world.campaign_ids.take(campaign),
        "status": pick(("placed", "paid", "cancelled"), np.where(orders.is_abandoned, 2, rng.integers(0, 2, count))),
        "channel": pick(words.ORDER_CHANNELS, rng.choice(3, count, p=(0.5, 0.3, 0.2))),
        "currency": world.customers.currencies(orders.customers),
        "total_cents": pa.array(orders.total_cents),
        "discount_cents": pa.array(orders.discount_cents),
        "customer_email": world.customers.emails.take(pa.array(orders.customers)),
        "note": pa.array(words.ORDER_NOTES).take(note),
        "ordered_at": timestamps(orders.placed_at),
        "updated_at": timestamps(orders.placed_at),
    }


def _item_batch(world: World, day: int, orders: Orders, lines: Lines) -> pa.Table:
    ordered_at = orders.placed_at[lines.order]
    columns = {
        "order_item_id": numbered("itm_", world.first_number(day) + np.arange(len(lines.order))),
        "order_id": orders.ids.take(pa.array(lines.order)),
        "product_id": numbered("prd_", 10_000 + lines.product),
        "product_name": pick(_product_names(), lines.product),
        "category": pick(words.CATEGORIES, lines.product % len(words.CATEGORIES)),
        "quantity": pa.array(lines.quantity),
        "unit_price_cents": pa.array(lines.price_cents),
        "ordered_at": timestamps(ordered_at),
        "updated_at": timestamps(world.same_day(ordered_at + 1_500, day)),
    }
    return build_batch(columns, event_day=day)


def _ship_payments(world: World, day: int, orders: Orders) -> Iterator[Shipment]:
    rng = world.generator("payments", day)
    paid = np.flatnonzero(~orders.is_abandoned & (rng.random(len(orders.placed_at)) < PAID_SHARE))
    changes = _draw_changes(rng, "payments", np.ones(len(paid), dtype=bool))
    is_final = np.asarray(~changes.any(axis=0))
    columns = _payment_columns(world, rng, orders, day=day, paid=paid)
    batch = build_batch(columns, event_day=day, can_fail=is_final, can_repeat=is_final)
    yield from (("payments", at, rows) for at, rows in hold_back(batch, rng, day=day, share=LATE_SHARE))
    yield from _later_versions(world, "payments", day, batch, changes)


def _payment_columns(
    world: World, rng: np.random.Generator, orders: Orders, *, day: int, paid: np.ndarray
) -> dict[str, pa.Array]:
    count, customers = len(paid), orders.customers[paid]
    method = rng.choice(4, count, p=(0.6, 0.25, 0.1, 0.05))
    card_payers = pa.array(customers, mask=method != words.PAYMENT_METHODS.index("card"))
    paid_at = world.same_day(orders.placed_at[paid] + rng.integers(1_000, 900_000, count), day)
    return {
        "payment_id": numbered("pay_", world.first_number(day) + np.arange(count)),
        "order_id": orders.ids.take(pa.array(paid)),
        "customer_id": world.customers.ids.take(pa.array(customers)),
        "method": pick(words.PAYMENT_METHODS, method),
        "status": pick(("authorized", "captured", "failed"), rng.choice(3, count, p=(0.3, 0.67, 0.03))),
        "amount": decimals((orders.total_cents - orders.discount_cents)[paid]),
        "currency": world.customers.currencies(customers),
        "country": world.customers.countries(customers),
        "card_holder": world.customers.card_names.take(card_payers),
        "paid_at": timestamps(paid_at),
        "updated_at": timestamps(paid_at),
    }


def _draw_changes(rng: np.random.Generator, dataset: str, may_change: np.ndarray) -> np.ndarray:
    """Draw, for each update and row, whether the row goes through it."""
    chances = np.array([chance for chance, _ in UPDATES[dataset]])
    return (rng.random((len(chances), len(may_change))) < chances[:, None]) & may_change


def _later_versions(world: World, dataset: str, day: int, batch: pa.Table, changes: np.ndarray) -> Iterator[Shipment]:
    """Yield the states that rows reach later, each delivered on the day it is reached."""
    rng = world.generator(f"updates of {dataset}", day)
    for delay, (_, status) in enumerate(UPDATES[dataset], start=1):
        chosen = changes[delay - 1]
        count = int(chosen.sum())
        moments = timestamps(world.draw_times(rng, count, day + delay))
        yield dataset, day + delay, update_rows(batch, chosen, status=pa.repeat(status, count), updated_at=moments)


@cache
def _product_prices() -> np.ndarray:
    """Spread prices between half and twice what is typical of the category."""
    product = np.arange(PRODUCT_COUNT)
    typical = np.array(words.CATEGORY_PRICES)[product % len(words.CATEGORIES)]
    return (typical * (0.5 + product * 37 % 100 * 0.015)).astype(np.int64)


@cache
def _product_names() -> tuple[str, ...]:
    def name(product: int) -> str:
        names = words.PRODUCT_NAMES[words.CATEGORIES[product % len(words.CATEGORIES)]]
        return names[product // len(words.CATEGORIES) % len(names)]

    return tuple(name(product) for product in range(PRODUCT_COUNT))
