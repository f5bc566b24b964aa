"""A person is erased: no byte of their key is left under the lake or the state folder, and everybody else is as before."""

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from stream_assets.bronze.land import land
from stream_assets.errors import StreamError
from stream_assets.ops.erase.find import parse_subject
from stream_assets.ops.erase.run import erase, removed, trace
from stream_assets.ops.erase.streams import refuse_streams
from stream_assets.ops.rollback.plan import Request, plan_rollback
from stream_assets.settings import Settings
from stream_assets.silver.refine import refine
from stream_assets.streaming.control import Control
from stream_assets.streaming.rebuild import needs_rebuild, rebuild
from tests.documents import contract
from tests.integration.ops.conftest import day, law, reading
from tests.integration.ops.test_replay import personal
from tests.lakes import SALT, as_lines, deliver, ledger, rows, version
from tests.streams import arrive, order, payment, running, streams_of

PERSON, NAME = "person-0042", "Ada King of Lovelace"
DAYS = [day(0), day(1)]
LAYERS = ("bronze", "silver", "quarantine")


def files_with(root: Path, value: str) -> Iterator[Path]:
    """The oracle: Parquet as DuckDB decodes it, everything else as bytes."""
    for file in (f for f in root.rglob("*") if f.is_file()):
        if file.suffix == ".parquet":
            found = duckdb.sql(
                f"select count(*) from read_parquet('{file}') t where t::varchar like '%{value}%'"
            ).fetchall()[0]
            if found[0]:
                yield file
        elif value.encode() in file.read_bytes():
            yield file


def others(lake: Settings) -> dict[str, list[str]]:
    """Every row that is not of the person."""
    said = {layer: map(repr, rows(lake, layer, "readings")) for layer in LAYERS}
    return {layer: sorted(row for row in found if PERSON not in row) for layer, found in said.items()}


def test_not_a_byte_is_left_and_nobody_else_is_touched(lake: Settings, spark, tmp_path: Path) -> None:
    """Through Bronze, Silver, quarantine and Gold, through old versions and statistics, and through a delivery that comes again."""
    people = contract(tmp_path / "law", personal(law()))
    contracts = {"readings": people}
    for number in range(2):
        theirs = [reading(number, PERSON, 1, text=NAME), reading(number, PERSON, -1, text=NAME)]
        more = [reading(number, f"person-{n:04}", n, text=f"Name {n}") for n in range(100, 110)]
        deliver(lake, f"readings/{day(number)}/a.jsonl", as_lines([*theirs, *more]) + f'{{"reading_id": "{PERSON}"\n')
    for run in ("first", "second"):  # twice, so that old versions hold the person too
        land(spark, lake, people, DAYS, run_id=run)
        refine(spark, lake, people, DAYS, run_id=run, salt=SALT)
        deliver(lake, f"readings/{day(0)}/{run}.jsonl", as_lines([reading(0, f"person-1{run}", 5)]))
    silver = spark.table("silver.readings").select("reading_id", "pieces")
    silver.write.format("delta").save(lake.table_path("gold", "people"))
    before, at = others(lake), version(lake, "silver", "readings")

    subject = parse_subject(f"reading_id={PERSON}", lake, contracts)
    found = trace(spark, lake, contracts, subject)
    assert {name: facts["rows"] for name, facts in removed(found).items()} == {
        "bronze/readings": 6, "silver/readings": 2, "quarantine/readings": 4, "gold/people": 2,
    }  # fmt: skip
    assert found.values == {NAME}
    assert version(lake, "silver", "readings") == at, "looking changes nothing"
    assert list(files_with(Path(lake.lake), PERSON))

    certificate = erase(spark, lake, contracts, found, reason="asked for it")
    assert certificate["verified"]
    assert list(files_with(Path(lake.lake), PERSON)) == []
    assert list(files_with(Path(lake.lake), NAME)) == []
    assert others(lake) == before
    told = Path(certificate["place"]).read_text()
    assert PERSON not in told
    assert NAME not in told
    assert [part["reason"].split(",")[0] for part in json.loads(told)["remains"]] == ["deliveries as received"]

    counted = {str(d): sum(str(row["_event_date"]) == str(d) for row in rows(lake, "bronze", "readings")) for d in DAYS}
    entries = ledger(lake, "silver", "readings")
    assert {d: entries[d]["rows_in"] for d in counted} == counted
    assert all(e["rows_in"] == e["accepted"] + e["quarantined"] + e["duplicates"] for e in entries.values())
    refused = plan_rollback(lake, Request(run="second"), lambda _: [])
    assert refused.problems, "versions that held the person are gone"

    landing = land(spark, lake, people, DAYS, run_id="third")
    assert landing.landed == (day(0),), "a file had come since"
    assert landing.rows == landing.expected
    refine(spark, lake, people, DAYS, run_id="third", salt=SALT)
    assert not [row for row in rows(lake, "silver", "readings") if row["reading_id"] == PERSON]
    unread = [row for row in rows(lake, "bronze", "readings") if PERSON in row["_raw"]]
    assert [row["_raw"] for row in unread] == [f'{{"reading_id": "{PERSON}"'], "only what nobody can read comes again"


def test_a_withheld_day_forgets_too(lake: Settings, spark, tmp_path: Path) -> None:
    """What failed a gate lies in `audit`, as received: nobody reads it, and it is erased like everything else."""
    strict = law(checks=[{"check": "validity__table__rejected_share", "strictness": "gate", "limit": 0.1}])
    people = contract(tmp_path / "law", personal(strict))
    theirs = [reading(0, PERSON, -1, text=NAME), reading(0, PERSON, 1, hour=11, text=NAME)]
    more = [reading(0, f"person-{n:04}", -1, text=f"Name {n}") for n in range(100, 105)]
    deliver(lake, f"readings/{day(0)}/a.jsonl", as_lines([*theirs, *more]))
    land(spark, lake, people, DAYS[:1], run_id="first")
    assert refine(spark, lake, people, DAYS[:1], run_id="first", salt=SALT).withheld
    assert len(rows(lake, "audit", "readings")) == 7
    found = trace(spark, lake, {"readings": people}, parse_subject(f"reading_id={PERSON}", lake, {"readings": people}))
    assert removed(found)["audit/readings"]["rows"] == 2
    assert erase(spark, lake, {"readings": people}, found, reason="asked for it")["verified"]
    assert len(rows(lake, "audit", "readings")) == 5
    assert [f for value in (PERSON, NAME) for f in files_with(Path(lake.lake), value)] == []


def test_live_views_forget_and_come_back_without_the_person(lake: Settings, spark) -> None:
    """Event logs, views, late tables and state: after the streams start again, they are as if the person had never ordered."""
    streams = streams_of(lake, "order_payments", "revenue_by_store")
    orders, payments = (streams.contracts[name] for name in ("orders", "payments"))
    buyers = ["cus_0042abc", "cus_1111aaa", "cus_2222bbb"]
    sold = [order(n, n, customer=buyers[n % 3]) for n in range(12)]
    paid = [payment(n, n + 2, order_number=n, customer=buyers[n % 3]) for n in range(12)]
    with running(spark, streams) as see_all:
        for minutes in (30, 60):
            arrive(spark, lake, orders, sold[:6] if minutes == 30 else sold[6:], minutes=minutes)
            arrive(spark, lake, payments, paid[:6] if minutes == 30 else paid[6:], minutes=minutes)
            see_all()
        arrive(
            spark, lake, orders, [order(98, 0.5, customer=buyers[0]), order(99, 300, customer=buyers[1])], minutes=301
        )
        see_all()
    places = [Path(lake.lake), Path(lake.checkpoints)]
    assert [f for place in places for f in files_with(place, buyers[0])]

    found = trace(spark, lake, streams.contracts, parse_subject(f"customer_id={buyers[0]}", lake, streams.contracts))
    assert {name.split("/")[1] for name in removed(found) if name.startswith("live/")} >= {
        "orders_events",
        "payments_events",
    }
    certificate = erase(spark, lake, streams.contracts, found, reason="asked for it")
    assert certificate["verified"]
    assert {"orders_events", "payments_events", "order_payments", "revenue_by_store"} == set(
        certificate["streams_reset"]
    )
    assert not Path(lake.checkpoints, "orders_events").exists()
    assert [f for place in places for f in files_with(place, buyers[0])] == []

    for name in streams.names:
        if needs_rebuild(streams, name):
            rebuild(spark, streams, name)
    with running(spark, streams) as see_all:
        see_all()
    kept = [item["data"] for item in sold if item["data"]["customer_id"] != buyers[0]]
    assert {row["order_id"] for row in rows(lake, "live", "orders_events")} == {o["order_id"] for o in kept} | {
        "ord_99"
    }
    served = rows(lake, "live", "revenue_by_store")
    assert sum(row["order_count"] for row in served) == 4 * (len(kept) + 1), "an order is in four windows"
    assert [f for place in places for f in files_with(place, buyers[0])] == []


def test_streams_that_run_are_refused(lake: Settings, spark, tmp_path: Path) -> None:
    """Their state would be written again."""
    control = Control.of(lake)
    control.tell([])  # this process says that it supervises
    try:
        with pytest.raises(StreamError, match="stream streams stop"):
            refuse_streams(lake)
    finally:
        (control.folder / "status.json").unlink()
    refuse_streams(lake)


def test_whom_nobody_knows_is_refused(lake: Settings, tmp_path: Path) -> None:
    """A column that no contract has is a mistake, not an empty result."""
    contracts = {"readings": contract(tmp_path, law())}
    for text, words in (("nobody_id=1", "No contract has"), ("reading_id", "write column=value")):
        with pytest.raises(StreamError, match=words):
            parse_subject(text, lake, contracts)
