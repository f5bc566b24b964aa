"""Silver from a database's change log: what the table held, whatever way its changes came."""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from stream_assets.bronze.land import bronze_table, stamp
from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.engine.ledger import Commit
from stream_assets.settings import Settings
from tests.change_log import UNAVAILABLE, Database, Version
from tests.documents import contract, document
from tests.lakes import forget_tables, lake_at, ledger, refine_days, rows

DAY = date(2025, 3, 2)
COLUMNS = [
    {"name": "id", "logicalType": "string", "primaryKey": True, "primaryKeyPosition": 1},
    {"name": "amount", "logicalType": "number", "physicalType": "decimal(12,2)", "required": True},
    {"name": "note", "logicalType": "string"},
    {"name": "due_date", "logicalType": "date"},
    {"name": "updated_at", "logicalType": "timestamp"},
]
Message = tuple[int, int, str | None]
"""Partition, offset and value."""


@pytest.fixture(scope="session")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    """An entity whose records are changes."""
    made = document()
    made["servers"] = [{"server": "landing", "type": "local", "path": "accounts", "format": "debezium"}]
    made["name"] = made["schema"][0]["name"] = "accounts"
    made["schema"][0] |= {"properties": COLUMNS, "quality": []}
    custom = {i["property"]: i["value"] for i in made["customProperties"]}
    custom |= {"datasetKind": "entity", "eventTime": "updated_at", "orderBy": "updated_at", "maxLateness": 0}
    made["customProperties"] = [{"property": name, "value": value} for name, value in custom.items()]
    return contract(tmp_path_factory.mktemp("contracts"), made)


def land_messages(spark: SparkSession, lake: Settings, law: Contract, day: date, messages: Sequence[Message]) -> None:
    """Put messages of a topic into Bronze, as one delivery."""
    table = bronze_table(lake, law)
    delta.ensure(spark, table)
    received = [
        (value, None, None, f"accounts/{partition}", offset, day, datetime.combine(day, datetime.min.time(), UTC))
        for partition, offset, value in messages
    ]
    shape = "_raw string, _raw_bytes binary, _header string, _source string, _position bigint, _delivery_date date, _ingested_at timestamp"
    stamped = stamp(spark.createDataFrame(received, shape), law, [])
    missing = [name for name in table.columns if name not in stamped.columns]
    frame = stamped.selectExpr("*", *[f"cast(null as {table.columns[name][0]}) as {name}" for name in missing])
    page = {day.isoformat(): {"rows_in": len(messages), "files": f"{len(messages)}:{hash(tuple(messages))}"}}
    delta.replace_days(table, frame, days=[day], commit=Commit("test", law.name, "bronze", law.version, page))


def numbered(events: Sequence[tuple[int, str | None]]) -> list[Message]:
    """Events with their offsets within each partition."""
    offsets: defaultdict[int, count[int]] = defaultdict(count)
    return [(partition, next(offsets[partition]), value) for partition, value in events]


def silver(lake: Settings) -> list[Version]:
    """Silver as the oracle would say it."""
    found = rows(lake, "silver", "accounts")
    assert all(row["is_current"] == (row["valid_to"] is None) for row in found)
    versions = [Version(r["id"], str(r["amount"]), r["note"], r["valid_from"], r["valid_to"]) for r in found]
    return sorted(versions, key=lambda v: (v.key, v.valid_from))


@given(seed=st.integers(min_value=0, max_value=2**32))
@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_any_arrival_of_a_log_gives_the_same_history(
    spark: SparkSession, engine_settings: Settings, accounts: Contract, tmp_path_factory, seed: int
) -> None:
    """Events come in any order, several times, lost first and replayed later, over days refined in any order."""
    random = Random(seed)
    forget_tables(spark)
    lake = lake_at(engine_settings, tmp_path_factory.mktemp("lake"))
    database = Database(random, wrapped=random.random() < 0.5)
    topic = numbered(database.events)
    repeated = topic + random.choices(topic, k=len(topic) // 2)
    random.shuffle(repeated)
    days = [DAY + timedelta(days=n) for n in range(4)]
    lots = [repeated[n :: len(days)] for n in range(len(days))]
    arrivals = random.sample(list(zip(days, lots, strict=True)), k=len(days))
    for part in (arrivals[:2], arrivals[2:]):
        for day, messages in part:
            land_messages(spark, lake, accounts, day, messages)
        refine_days(spark, lake, accounts, *[day for day, _ in part])
    assert silver(lake) == sorted(database.versions(), key=lambda v: (v.key, v.valid_from))
    booked = ledger(lake, "silver", "accounts").values()
    assert all(e["rows_in"] == e["accepted"] + e["quarantined"] + e["duplicates"] for e in booked)
    assert sum(e["rows_in"] for e in booked) == len(repeated)
    # While its beginning was missing, the log could not say what some large values were.
    assert {rule for e in booked for rule in e["violations"]} <= {"completeness__record__unavailable_value"}
    forget_tables(spark)


def event(op: str, lsn: int, before: Any = None, after: Any = None, *, snapshot: str = "false") -> str:
    """A change as Debezium writes it, committed in the second of its position."""
    source = {
        "lsn": lsn,
        "ts_us": lsn * 1_000_000,
        "ts_ms": lsn * 1000,
        "sequence": f'["{lsn - 1}","{lsn}"]',
        "txId": lsn,
        "snapshot": snapshot,
    }
    return json.dumps({"before": before, "after": after, "source": source, "op": op, "ts_ms": lsn * 1000})


def row(key: str, amount: Any = "1.00", **more: Any) -> dict[str, Any]:
    return {"id": key, "amount": amount, "note": None, "due_date": None, "updated_at": None, **more}


ODD: dict[str, tuple[str | None, list[str]]] = {
    "no event": ('{"id": "x", "amount": "1.00"}', ["validity__record__malformed"]),
    "unknown operation": (event("m", 20, after=row("x")), ["validity__record__malformed"]),
    "two events": (event("c", 21, after=row("x")) * 2, ["validity__record__malformed"]),
    "create without row": (event("c", 22), ["validity__record__malformed"]),
    "repeated field": (event("c", 23, after=row("x")).replace('"id": "x"', '"id": "x", "id": "y"'), ["validity__record__repeated_key"]),
    "retyped": (event("c", 24, after=row("x", amount="a lot")), ["validity__amount__type"]),
    "required is null": (event("c", 25, after=row("x", amount=None)), ["completeness__amount__required"]),
    "delete without key": (event("d", 26, before=row("x") | {"id": None}), ["completeness__id__required"]),
    "large value never seen": (event("u", 27, after=row("x", note=UNAVAILABLE)), ["completeness__record__unavailable_value"]),
}  # fmt: skip


def test_each_kind_of_change(spark: SparkSession, lake: Settings, accounts: Contract) -> None:
    """Values exactly, deletes and truncations as ends, a new column as drift, and a reason for what cannot be believed."""
    told = [
        event("c", 1, after=row("gone")),
        event("t", 2),
        event("r", 3, after=row("exact", "9999999999.99", due_date="2025-02-28Z", updated_at="2001-01-01T00:00:00.000001Z")),
        event("c", 4, after=row("new column", segment="vip")),
        event("c", 5, after=row("dropped column")).replace(', "note": null', ""),
        event("c", 6, after=row("large", note="long" * 9)),
        event("u", 7, before=row("large", note="kept" * 9), after=row("large", "2.00", note=UNAVAILABLE)),
        event("u", 8, after=row("large", "3.00", note=UNAVAILABLE)),
        event("c", 9, after=row("deleted")),
        event("d", 10, before={"id": "deleted", "amount": None}),
        None,
    ]  # fmt: skip
    values = [*told, *[value for value, _ in ODD.values()]]
    land_messages(spark, lake, accounts, DAY, numbered([(0, value) for value in values]))
    refine_days(spark, lake, accounts, DAY)
    found = {(r["id"], r["valid_from"].timestamp()): r for r in rows(lake, "silver", "accounts")}
    ends = {key: r["valid_to"] and r["valid_to"].timestamp() for key, r in found.items()}
    assert ends == {
        ("gone", 1): 2, ("exact", 3): None, ("new column", 4): None, ("dropped column", 5): None,
        ("large", 6): 7, ("large", 7): 8, ("large", 8): None, ("deleted", 9): 10,
    }  # fmt: skip
    exact = found["exact", 3]
    assert (str(exact["amount"]), exact["due_date"]) == ("9999999999.99", date(2025, 2, 28))
    assert exact["updated_at"] == datetime(2001, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    assert [found["large", lsn]["note"] for lsn in (6, 7, 8)] == ["long" * 9, "kept" * 9, "kept" * 9]
    assert ledger(lake, "silver", "accounts")[DAY.isoformat()]["new_columns"] == ["segment"]
    refused = {r["_raw"]: r["_violations"] for r in rows(lake, "quarantine", "accounts")}
    assert refused == dict(ODD.values())
    entry = ledger(lake, "silver", "accounts")[DAY.isoformat()]
    assert (entry["rows_in"], entry["quarantined"], entry["duplicates"]) == (len(values), len(ODD), 1)


def test_a_snapshot_ends_what_it_does_not_hold(spark: SparkSession, lake: Settings, accounts: Contract) -> None:
    """Only a whole one does. What it repeats unchanged is no new version, and what it holds but cannot be believed does not end."""
    first = [("same", "first"), ("gone", "true"), ("spoilt", "true")]
    second = [("same", "1.00", "first"), ("new", "1.00", "true"), ("spoilt", "a lot", "last")]
    events = [event("r", 1, after=row(key), snapshot=mark) for key, mark in first]
    events += [event("r", 5, after=row(key, amount), snapshot=mark) for key, amount, mark in second]
    topic = numbered([(0, value) for value in events])
    land_messages(spark, lake, accounts, DAY, topic[:-1])
    refine_days(spark, lake, accounts, DAY)
    until = {(v.key, v.valid_from.timestamp()): v.valid_to and v.valid_to.timestamp() for v in silver(lake)}
    assert until == {("same", 1): None, ("gone", 1): None, ("spoilt", 1): None, ("new", 5): None}
    land_messages(spark, lake, accounts, DAY + timedelta(days=1), topic[-1:])
    refine_days(spark, lake, accounts, DAY + timedelta(days=1))
    until = {(v.key, v.valid_from.timestamp()): v.valid_to and v.valid_to.timestamp() for v in silver(lake)}
    assert until == {("same", 1): None, ("gone", 1): 5, ("spoilt", 1): None, ("new", 5): None}
    # A row that comes late finds the snapshot in the deliveries of before.
    late = [(0, 9, event("c", 3, after=row("late"))), (0, 10, event("u", 7, after=row("same", "2.00")))]
    land_messages(spark, lake, accounts, DAY + timedelta(days=2), late)
    refine_days(spark, lake, accounts, DAY + timedelta(days=2))
    until = {(v.key, v.valid_from.timestamp()): v.valid_to and v.valid_to.timestamp() for v in silver(lake)}
    assert until == {
        ("same", 1): 7, ("same", 7): None, ("gone", 1): 5, ("late", 3): 5, ("spoilt", 1): None, ("new", 5): None,
    }  # fmt: skip
