"""Streams for tests: records that arrive in Bronze as micro-batches do, and queries run until they have seen them all."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from stream_assets.bronze.land import bronze_table, stamp
from stream_assets.contracts.load import load_contracts
from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.settings import Settings
from stream_assets.streaming.load import load_views
from stream_assets.streaming.queries import Streams
from tests.lakes import SALT

NOON = datetime(2026, 11, 14, 12, tzinfo=UTC)


def streams_of(lake: Settings, *names: str) -> Streams:
    """The sample's views, or some of them, over a lake."""
    contracts = load_contracts(lake.contracts)
    found = load_views(lake.views, contracts)
    assert not found.broken
    chosen = tuple(view for view in found.views if not names or view.name in names)
    return Streams(lake, contracts, replace(found, views=chosen), SALT)


def at(minutes: float) -> datetime:
    """A moment, so many minutes after noon."""
    return NOON + timedelta(minutes=minutes)


def text_of(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def event(
    data: Mapping[str, Any], published: datetime, event_type: str = "created", source: str = "shop"
) -> dict[str, Any]:
    """A record in its envelope."""
    identity = uuid5(NAMESPACE_OID, json.dumps(data, sort_keys=True) + text_of(published))
    return {
        "event_id": str(identity), "event_type": event_type, "timestamp": text_of(published), "version": 1, "source": source,
        "correlation_id": None, "data": dict(data),
    }  # fmt: skip


def order(
    number: int, minutes: float, *, store: str = "sto_1", cents: int = 1_000, customer: str = "cus_1", **other: Any
) -> dict[str, Any]:
    """An order placed so many minutes after noon."""
    moment = text_of(at(minutes))
    data = {
        "order_id": f"ord_{number}", "customer_id": customer, "store_id": store, "campaign_id": None, "status": "placed", "channel": "web",
        "currency": "EUR", "total_cents": cents, "discount_cents": 0, "customer_email": "a@example.com", "note": None,
        "ordered_at": moment, "updated_at": moment,
    }  # fmt: skip
    return event(data | other, at(minutes))


def payment(
    number: int,
    minutes: float,
    *,
    order_number: int = 0,
    amount: str = "10.00",
    customer: str = "cus_1",
    country: str = "DE",
) -> dict[str, Any]:
    """A payment started so many minutes after noon."""
    moment = text_of(at(minutes))
    data = {
        "payment_id": f"pay_{number}", "order_id": f"ord_{order_number}", "customer_id": customer, "method": "card", "status": "captured",
        "amount": amount, "currency": "EUR", "country": country, "card_holder": "A B", "paid_at": moment, "updated_at": moment,
    }  # fmt: skip
    return event(data, at(minutes), source="psp")


def visit(number: int, minutes: float, *, session: str = "s1", name: str = "page_view") -> dict[str, Any]:
    """An action of a visitor so many minutes after noon."""
    data = {
        "web_event_id": f"web_{number}", "session_id": session, "customer_id": None, "event_name": name, "page_url": "/", "device": "mobile",
        "country": "DE", "ip_address": "10.0.0.1", "user_agent": "x", "occurred_at": text_of(at(minutes)),
    }  # fmt: skip
    return event(data, at(minutes), source="tracker")


def arrive(
    spark: SparkSession, lake: Settings, contract: Contract, records: Sequence[dict | str], *, minutes: float
) -> None:
    """Append records to Bronze in one commit, as if they had arrived so many minutes after noon."""
    table, moment = bronze_table(lake, contract), at(minutes)
    delta.ensure(spark, table)
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    rows = [(line, f"test@{moment:%H%M%S.%f}", number, moment.date(), moment) for number, line in enumerate(lines, 1)]
    received = spark.createDataFrame(
        rows, "_raw string, _source string, _position bigint, _delivery_date date, _ingested_at timestamp"
    )
    absent = {
        name: F.lit(None).cast(table.columns[name][0])
        for name in ("_raw_bytes", "_decoding", "_header", "_message_key", "_message_headers")
    }
    stamped = stamp(received.withColumns(absent), contract, []).withColumns(
        {"_run_id": F.lit("test"), "_contract_version": F.lit(contract.version)}
    )
    stamped.select(*table.columns).write.format("delta").mode("append").save(table.path)


@contextmanager
def running(spark: SparkSession, streams: Streams) -> Iterator[Callable[[], None]]:
    """Streams at work. Gives a function that waits until they have seen everything there is."""
    queries = []

    def see_all() -> None:
        waiting = streams.names[len(queries) :]
        queries.extend(streams.start(spark, name, processingTime="0 seconds") for name in waiting)
        for query in queries:
            query.processAllAvailable()

    try:
        yield see_all
    finally:
        for query in queries:
            query.stop()
