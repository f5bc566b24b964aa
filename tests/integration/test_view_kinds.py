"""Sessions, joins, lookups and patterns: what each kind of view makes of a handful of events."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from tests.lakes import forget_tables, lake_at, rows
from tests.streams import arrive, at, order, payment, running, streams_of, visit

HISTORY = [
    ("cus_1", "new", at(-10_000), at(60)),
    ("cus_1", "vip", at(60), None),
    ("cus_2", "regular", at(-10_000), None),
]


@pytest.fixture(scope="module")
def views(engine_settings, spark, tmp_path_factory) -> Iterator:
    """A lake whose views of every kind have seen two micro-batches of each dataset."""
    forget_tables(spark)
    lake = lake_at(engine_settings, tmp_path_factory.mktemp("kinds"))
    streams = streams_of(lake, "web_sessions", "orders_enriched", "order_payments", "payment_alerts")
    known = spark.createDataFrame(
        HISTORY, "customer_id string, segment string, valid_from timestamp, valid_to timestamp"
    )
    known.selectExpr("*", "'DE' as country", "timestamp'2025-01-01' as registered_at").write.saveAsTable(
        "silver.customers", format="delta", path=lake.table_path("silver", "customers")
    )
    usual = spark.createDataFrame([("cus_3", 10.0, "captured")] * 4, "customer_id string, amount double, status string")
    usual.write.saveAsTable("silver.payments", format="delta", path=lake.table_path("silver", "payments"))
    with running(spark, streams) as see_all:
        for number, (orders, payments, visits) in enumerate(_batches()):
            for name, batch in (("orders", orders), ("payments", payments), ("web_events", visits)):
                arrive(spark, lake, streams.contracts[name], batch, minutes=250 + 300 * number)
            see_all()
    yield lake
    forget_tables(spark)


def _batches() -> list[tuple]:
    """What happened, and then one event of each dataset hours later, which lets time move on."""
    burst = [payment(10 + n, 20 + n, order_number=90 + n, customer="cus_2") for n in range(6)]
    journey = [payment(30, 31, country="DE"), payment(31, 39, country="BR")]
    others = [
        payment(1, 12, order_number=1),
        payment(2, 150, order_number=2),
        payment(41, 41, customer="cus_2", amount="20.00"),
    ]
    first = (
        [order(1, 10), order(2, 20, customer="cus_2"), order(3, 30, customer="cus_9"), order(4, 70)],
        [*others, *burst, *journey, payment(40, 40, customer="cus_3", amount="500.00")],
        [
            visit(1, 0),
            visit(2, 20),
            visit(3, 45, name="purchase"),
            visit(4, 80, session="s2"),
            visit(5, 76),
            visit(6, 200, session="s3"),
        ],
    )
    last = ([order(5, 500)], [payment(99, 500, order_number=99, customer="cus_8")], [visit(9, 500, session="s9")])
    return [first, last]


def test_a_session_ends_after_half_an_hour_of_silence(views) -> None:
    """s1 goes on for as long as less than 30 minutes pass; after 31 it is another visit."""
    found = {(row["session_id"], row["window_start"]): row for row in rows(views, "live", "web_sessions")}
    first = found["s1", at(0)]
    assert (first["window_end"], first["event_count"], first["has_purchase"]) == (at(75), 3, True)
    assert found["s1", at(76)]["event_count"] == 1
    assert {session for session, _ in found} == {"s1", "s2", "s3"}, "s9 is still open"


def test_an_order_gets_its_customer_as_he_was_then(views) -> None:
    found = {row["order_id"]: row["customer_segment"] for row in rows(views, "live", "orders_enriched")}
    assert found == {"ord_1": "new", "ord_2": "regular", "ord_3": None, "ord_4": "vip", "ord_5": "vip"}


def test_an_order_meets_the_payment_within_an_hour_and_stays_alone_otherwise(views) -> None:
    """ord_2 is paid 130 minutes later: too far apart. ord_4 and ord_3 are never paid. ord_5 may still be."""
    found = {row["order_id"]: row["payment_id"] for row in rows(views, "live", "order_payments")}
    assert found == {"ord_1": "pay_1", "ord_2": None, "ord_3": None, "ord_4": None}


def test_fraud_patterns_come_with_their_evidence(views) -> None:
    alerts = rows(views, "live", "payment_alerts")
    assert {(row["rule"], row["customer_id"]) for row in alerts} == {
        ("velocity", "cus_2"), ("country_change", "cus_1"), ("unusual_amount", "cus_3"),
    }  # fmt: skip
    burst = next(row for row in alerts if row["rule"] == "velocity" and row["window_start"] == at(0))
    assert burst["payment_count"] == 6
    assert [item["payment_id"] for item in burst["evidence"]] == [f"pay_{10 + n}" for n in range(6)]
    travel = next(row for row in alerts if row["rule"] == "country_change")
    assert travel["countries"] == ["BR", "DE"]
    unusual = next(row for row in alerts if row["rule"] == "unusual_amount")
    assert (unusual["largest_amount"], unusual["usual_amount"]) == (Decimal("500.00"), 10.0)
