"""The job, as the two hand-written scripts share it: columns, rules and aggregates in SQL that Spark and DuckDB both read.

A way brings its own reading and writing. `rlike` and `sha2` are Spark's functions; DuckDB gets them as macros.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

MAX_LATENESS = 3
SALT = "bench"
"""Mixed into hashed addresses by all three ways, so that the hashes can be compared."""

_MONEY = "decimal(12,2)"

ENVELOPE = {
    "event_id": ("event_id", "string"),
    "event_type": ("event_type", "string"),
    "event_timestamp": ("timestamp", "timestamp"),
    "event_version": ("version", "bigint"),
    "event_source": ("source", "string"),
    "correlation_id": ("correlation_id", "string"),
}
"""Column → (field around `data`, type)."""

ENVELOPE_RULES = (
    "rlike(event_id, '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$')",
    "event_type in ('created', 'updated', 'deleted')",
    "event_timestamp is not null",
    "event_version >= 1",
    "event_source is not null",
    f"_event_date between _delivery_date - {MAX_LATENESS} and _delivery_date + 1",
)


@dataclass(frozen=True)
class Dataset:
    """One of the two datasets, as its contract describes it. A rule that is false or null rejects the record."""

    name: str
    file_name: str
    key: str
    event_time: str
    data: dict[str, str]
    """Column → type; each is read from the field of its name inside `data`."""
    rules: tuple[str, ...]
    hashed: str | None = None
    masked: str | None = None

    @property
    def columns(self) -> dict[str, str]:
        """Every column of Silver that comes from the record, with its type."""
        return {name: kind for name, (_, kind) in ENVELOPE.items()} | self.data

    def typed(self, **kinds: str) -> list[str]:
        """Columns made from text, null where the text is not exactly one value; `kinds` renames types for a dialect."""
        values = [f"{_typed(name, kind, kinds.get(kind, kind))} as {name}" for name, kind in self.columns.items()]
        return [*values, f"cast(try_cast({self.event_time} as timestamp) as date) as _event_date"]

    @property
    def is_valid(self) -> str:
        """Condition on the typed columns."""
        return f"coalesce({' and '.join((*ENVELOPE_RULES, *self.rules))}, false)"

    def protected(self, mask: str) -> list[str]:
        """Silver's columns from the record, personal data made unreadable; `mask` is the dialect's expression for it."""
        handled = {self.hashed: f"sha2(concat('{SALT}', {self.hashed}), 256)", self.masked: mask.format(self.masked)}
        return [f"{handled[name]} as {name}" if name in handled else name for name in self.columns]

    @property
    def latest(self) -> str:
        """Number of a version among those of its key within its day, 1 for the latest."""
        order = "updated_at desc, _delivery_date desc, _source desc, _position desc"
        return f"row_number() over (partition by _event_date, {self.key} order by {order})"


def _typed(name: str, kind: str, called: str) -> str:
    plain = {"bigint": "^-?[0-9]+$", _MONEY: "^-?[0-9]+([.][0-9]{1,2})?$"}.get(kind)
    if plain:
        return f"case when rlike({name}, '{plain}') then try_cast({name} as {called}) end"
    return name if kind == "string" else f"try_cast({name} as {called})"


def _columns(**names: str) -> dict[str, str]:
    """Column → type, from the names of the columns of each type."""
    return {name: _MONEY if kind == "money" else kind for kind, listed in names.items() for name in listed.split()}


ORDERS = Dataset(
    name="orders",
    file_name="part-0.jsonl",
    key="order_id",
    event_time="ordered_at",
    data=_columns(
        string="order_id customer_id store_id campaign_id status channel currency customer_email note",
        bigint="total_cents discount_cents",
        timestamp="ordered_at updated_at",
    ),
    rules=(
        "rlike(order_id, '^ord_[0-9a-z]+$')",
        "customer_id is not null and store_id is not null",
        "status in ('placed', 'paid', 'shipped', 'delivered', 'returned', 'cancelled')",
        "channel in ('web', 'app', 'store')",
        "rlike(currency, '^[A-Z]{3}$')",
        "total_cents between 0 and 10000000 and discount_cents >= 0 and discount_cents <= total_cents",
        "(customer_email is null or rlike(customer_email, '^[^@ ]+@[^@ .]+([.][^@ .]+)+$'))",
        "(note is null or length(note) <= 2000)",
        "ordered_at is not null and updated_at is not null",
    ),
    hashed="customer_email",
)

PAYMENTS = Dataset(
    name="payments",
    file_name="part-0.jsonl.gz",
    key="payment_id",
    event_time="paid_at",
    data=_columns(
        string="payment_id order_id customer_id method status currency country card_holder",
        money="amount",
        timestamp="paid_at updated_at",
    ),
    rules=(
        "rlike(payment_id, '^pay_[0-9a-z]+$')",
        "order_id is not null and customer_id is not null",
        "method in ('card', 'paypal', 'bank_transfer', 'gift_card')",
        "status in ('authorized', 'captured', 'failed', 'refunded')",
        "amount >= 0",
        "rlike(currency, '^[A-Z]{3}$') and rlike(country, '^[A-Z]{2}$')",
        "paid_at is not null and updated_at is not null",
    ),
    masked="card_holder",
)

DATASETS = (ORDERS, PAYMENTS)

_SOLD = "from silver_orders where event_type <> 'deleted'"
DAILY_REVENUE = f"""
    select _event_date as order_date, store_id, count(*) as orders, cast(sum(total_cents) as bigint) as gross_cents,
        cast(sum(discount_cents) as bigint) as discount_cents, cast(sum(total_cents - discount_cents) as bigint) as net_cents
    {_SOLD} and _event_date between date '{{first}}' and date '{{last}}'
    group by _event_date, store_id
"""
CUSTOMER_METRICS = f"""
    select customer_id, count(*) as orders, cast(sum(total_cents - discount_cents) as bigint) as net_cents,
        min(_event_date) as first_order_date, max(_event_date) as last_order_date
    {_SOLD} group by customer_id
"""
GOLD = {
    "daily_revenue": ("order_date", "store_id", "orders", "gross_cents", "discount_cents", "net_cents"),
    "customer_metrics": ("customer_id", "orders", "net_cents", "first_order_date", "last_order_date"),
}
"""Model → its columns."""


@dataclass(frozen=True)
class Load:
    """What a script is asked to do: load the deliveries of these days, from here to there."""

    landing: Path
    lake: Path
    first: date
    last: date

    def delivery_days(self) -> list[date]:
        """The days asked for."""
        return [self.first + timedelta(days=n) for n in range((self.last - self.first).days + 1)]

    def files(self, dataset: Dataset) -> list[Path]:
        """The files delivered on these days."""
        return [self.landing / dataset.name / day.isoformat() / dataset.file_name for day in self.delivery_days()]

    def event_days(self) -> dict[str, str]:
        """First and last event day that these deliveries may touch."""
        return {"first": str(self.first - timedelta(days=MAX_LATENESS)), "last": str(self.last + timedelta(days=1))}

    def table(self, layer: str, name: str) -> str:
        """Where a table lies, laid out like Stream's."""
        return str(self.lake / layer / name)


def read_arguments(modes: tuple[str, ...]) -> tuple[Load, str]:
    """The command line of a script: mode, landing zone, lake, first and last delivery day."""
    mode, landing, lake, first, last = sys.argv[1:]
    assert mode in modes, f"{mode!r} is not one of {modes}"
    return Load(Path(landing), Path(lake), date.fromisoformat(first), date.fromisoformat(last)), mode
