"""The retail world's customers as a table of a database: its definition, and the statements that change it over time."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

from stream_assets.sample.batch import contract_columns
from stream_assets.sample.master import CustomerLog
from stream_assets.sample.world import World

TABLE = """
create table if not exists customers (
    customer_id   text primary key,
    full_name     text not null,
    email         text not null,
    phone         text,
    segment       text not null,
    country       text not null,
    city          text,
    is_active     boolean not null,
    is_deleted    boolean not null default false,
    registered_at timestamptz,
    updated_at    timestamptz not null
)
"""
COLUMNS = (
    "customer_id", "full_name", "email", "phone", "segment", "country", "city", "is_active", "is_deleted",
    "registered_at", "updated_at",
)  # fmt: skip
_NAMES, _VALUES = ", ".join(COLUMNS), ", ".join(f"%({name})s" for name in COLUMNS)
_UPDATES = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:])
_NEW = f"insert into customers ({_NAMES}) values ({_VALUES})"  # noqa: S608 made of our own names
UPSERT = f"{_NEW} on conflict (customer_id) do update set {_UPDATES}"
DELETE = "delete from customers where customer_id = %(customer_id)s"


def customer_changes(*, days: int, end: date, scale: float, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Statements and their values, in the order things happened: registrations, changes, removals. Without faults."""
    world = World(start=end - timedelta(days=days - 1), days=days, scale=float(scale), seed=seed, faults=False)
    log = CustomerLog(world)
    for day in range(days):
        for _, _, batch in log.changes(day):
            for row in contract_columns(batch).to_pylist():
                yield (DELETE if row["is_deleted"] else UPSERT), row
