"""A Postgres table followed by Debezium, on real servers: Silver is the table, whatever happened on the way.

The oracle is `SELECT *` in Postgres. `STREAM_CDC_KILLS` says how often Connect is killed and Postgres restarted.
"""

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from pyspark.sql import SparkSession

from stream_assets.bronze.follow import catch_up
from stream_assets.bronze.query import look_up
from stream_assets.build import build_defs
from stream_assets.contracts.load import load_contracts
from stream_assets.contracts.model import Contract, Server
from stream_assets.errors import ServiceError
from stream_assets.ops.captures import watch_captures
from stream_assets.ops.doctor.live import examine_live
from stream_assets.ops.run import run_range
from stream_assets.sample.customers import TABLE, customer_changes
from stream_assets.services import local, process
from stream_assets.services.addresses import connect_url, kafka, postgres_dsn, services_folder
from stream_assets.settings import Settings
from stream_assets.sources import connect, debezium
from stream_assets.sources.capture import begin, capture, captured, look, resnapshot, start, stop
from stream_assets.sources.erasures import subject_hash, write_certificate
from stream_assets.sources.kafka import look_at
from stream_assets.sources.postgres import apply
from stream_assets.sources.topics import ensure_topic, topic_of
from tests.brokers import live_lake
from tests.documents import contract, document
from tests.lakes import refine_days, rows

KILLS = int(os.environ.get("STREAM_CDC_KILLS", "1"))
COLUMNS = [
    {"name": "id", "logicalType": "integer", "primaryKey": True, "primaryKeyPosition": 1},
    {"name": "amount", "logicalType": "number", "physicalType": "decimal(20,4)", "required": True},
    {"name": "note", "logicalType": "string"},
    {"name": "due_date", "logicalType": "date"},
    {"name": "is_active", "logicalType": "boolean"},
    {"name": "updated_at", "logicalType": "timestamp", "required": True},
]


@dataclass(frozen=True)
class Followed:
    """A table, its contract, and the lake it goes to."""

    settings: Settings
    law: Contract
    server: Server

    def database(self) -> psycopg.Connection:
        return psycopg.connect(postgres_dsn(self.settings), autocommit=True, connect_timeout=5)

    def current(self) -> dict[int, tuple[Any, ...]]:
        """What Silver says the table holds."""
        found = [row for row in rows(self.settings, "silver", self.law.name) if row["is_current"]]
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: tuple(row[column["name"]] for column in COLUMNS) for row in found}

    def truth(self) -> dict[int, tuple[Any, ...]]:
        """What the table holds."""
        names = ", ".join(column["name"] for column in COLUMNS)
        with self.database() as database:
            return {row[0]: row for row in database.execute(f"select {names} from {self.law.name}").fetchall()}  # pyright: ignore

    def bring_in(self, spark: SparkSession) -> None:
        """Everything up to now, into Silver."""
        self.until_read()
        self.land(spark)

    def land(self, spark: SparkSession) -> None:
        """Everything on the topic, into Silver."""
        today = datetime.now(UTC).date()
        catch_up(spark, self.settings, self.law, run_id=uuid4().hex)
        refine_days(spark, self.settings, self.law, today - timedelta(days=1), today)

    def messages(self) -> int:
        """How many the topic holds."""
        return sum(look_at(kafka(self.settings), capture(self.law, self.server).topic).end.values())

    def until_read(self) -> None:
        """Wait until everything committed so far has been read and noted."""
        slot = capture(self.law, self.server).slot
        with self.database() as database:
            (position,) = database.execute("select pg_current_wal_lsn()").fetchone() or (None,)
            question = "select 1 from pg_replication_slots where slot_name = %s and confirmed_flush_lsn >= %s"
            wait_for("the slot to pass", lambda: database.execute(question, [slot, position]).fetchone())


def wait_for(what: str, condition: Callable[[], Any], timeout_s: float = 120, every_s: float = 0.2) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(every_s)
    return found


@pytest.fixture(autouse=True)
def quick_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of what these tests wait for is the slot to move on, which the heartbeat does."""
    monkeypatch.setattr(debezium, "HEARTBEAT_S", 1)


@pytest.fixture
def followed(lake: Settings, services: Settings, tmp_path: Path) -> Iterator[Followed]:
    """A fresh table with a few rows, not yet followed."""
    name = f"accounts_{uuid4().hex[:8]}"
    made = document(datasetKind="entity", eventTime="updated_at", orderBy="updated_at")
    made["name"] = made["schema"][0]["name"] = name
    made["schema"][0] |= {"properties": COLUMNS, "quality": []}
    place = {"host": "settings", "port": 5432, "database": "shop", "schema": "public"}
    made["servers"] = [{"server": "live", "type": "postgres", **place}]
    law = contract(tmp_path, made)
    table = Followed(live_lake(lake, services), law, law.servers[0])
    with table.database() as database:
        database.execute(
            f"create table {name} (id int primary key, amount numeric(10,2) not null, note text, due_date date, "  # pyright: ignore
            "is_active boolean, updated_at timestamptz not null default clock_timestamp())"
        )
        numbers = "select n, n * 1.01, repeat(md5(n::text), 200) from generate_series(1, 200) n"
        database.execute(f"insert into {name} {numbers}")  # pyright: ignore
    try:
        yield table
    finally:
        stop(table.settings, capture(law, table.server), drop=True)
        with table.database() as database:
            database.execute(f"drop table {name}")  # pyright: ignore


class Load(threading.Thread):
    """Transactions of a few changes each, some taken back, for as long as it is asked to run, whatever breaks."""

    def __init__(self, table: Followed, seed: int) -> None:
        super().__init__(daemon=True)
        self.table, self.random, self.is_over = table, Random(seed), threading.Event()
        self.committed = 0

    def run(self) -> None:
        while not self.is_over.is_set():
            with suppress(psycopg.OperationalError, psycopg.InterfaceError), self.table.database() as database:
                while not self.is_over.is_set():
                    with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected):
                        with database.transaction(force_rollback=self.random.random() < 0.1):
                            for _ in range(self.random.randint(1, 5)):
                                self._change(database)
                        self.committed += 1
                    self.is_over.wait(self.random.random() * 0.02)
            self.is_over.wait(0.2)

    def _change(self, database: psycopg.Connection) -> None:
        name, row = self.table.law.name, self.random.randint(1, 400)
        statement = self.random.choice(
            [
                f"insert into {name} (id, amount, note) values ({row}, {row}.25, repeat('x', {row * 10}))",
                f"update {name} set amount = amount + 1, updated_at = clock_timestamp() where id = {row}",
                f"update {name} set note = repeat(md5(random()::text), 150), updated_at = clock_timestamp() where id = {row}",
                f"update {name} set due_date = date '2025-01-01' + {row}, is_active = not is_active where id = {row}",
                f"update {name} set id = {row + 400} where id = {row} and not exists (select from {name} where id = {row + 400})",
                f"delete from {name} where id = {row}",
                f"delete from {name} where id = {row + 400}",
            ]
        )
        database.execute(statement)  # pyright: ignore


def test_silver_is_the_table_after_a_mixed_load_under_fire(
    spark: SparkSession, services: Settings, followed: Followed
) -> None:
    """Transactions run while the snapshot is taken, which is cut off and begins anew; columns are added and widened, Connect is
    killed, Postgres restarts. A row that only the first snapshot held has ended.
    """
    load = [Load(followed, seed) for seed in range(3)]
    for thread in load:
        thread.start()
    try:
        _cut_off_snapshot(services, followed)
        with followed.database() as database:
            database.execute(f"alter table {followed.law.name} add column segment text default 'new'")  # pyright: ignore
            database.execute(f"alter table {followed.law.name} alter column amount type numeric(20,4)")  # pyright: ignore
        for _ in range(KILLS):
            _let_run(load)
            _kill_connect(services)
            local.up(services, ["connect"])
            _let_run(load)
            local.down(services, ["postgres"])
            local.up(services, ["postgres"])
            wait_for("changes to flow", lambda: _flows(followed))
        _let_run(load)
    finally:
        for thread in load:
            thread.is_over.set()
        for thread in load:
            thread.join()
    followed.bring_in(spark)
    assert followed.current() == followed.truth()
    assert len(followed.truth()) > 50
    events = [json.loads(row["_raw"]) for row in rows(followed.settings, "bronze", followed.law.name) if row["_raw"]]
    begun, ended = (
        {event["source"]["lsn"] for event in events if event["source"]["snapshot"] in marks}
        for marks in (("first", "true"), ("last",))
    )
    assert len(begun) > len(ended) >= 1
    assert not rows(followed.settings, "quarantine", followed.law.name)


def _cut_off_snapshot(services: Settings, followed: Followed) -> None:
    """Begin to follow the table, kill the reader in the midst of its snapshot, and delete rows before it begins anew."""
    name = followed.law.name
    with followed.database() as database:
        database.execute(f"insert into {name} select n, n, md5(n::text) from generate_series(1001, 41000) n")  # pyright: ignore
        begin(followed.settings, followed.law, followed.server, fix=True)
        wait_for("the snapshot to begin", lambda: followed.messages() > 500, every_s=0.01)
        _kill_connect(services)
        database.execute(f"delete from {name} where id > 1000 and id <> 1500")  # pyright: ignore
    local.up(services, ["connect"])
    wait_for("changes to flow", lambda: _flows(followed))


def _let_run(load: list[Load], transactions: int = 150) -> None:
    before = sum(thread.committed for thread in load)
    wait_for("transactions", lambda: sum(thread.committed for thread in load) - before >= transactions)


def _kill_connect(services: Settings) -> None:
    found = process.find(services_folder(services) / "connect")
    assert found is not None
    found.kill()
    found.wait(10)


def _flows(followed: Followed) -> bool:
    """Whether changes flow; the task is started again if it gave up, as the runbook says."""
    with suppress(ServiceError):
        state = look(followed.settings, capture(followed.law, followed.server))
        if state.connector.state == "FAILED":
            start(followed.settings, followed.law, followed.server)
        return state.problem is None
    return False


def test_an_idle_table_does_not_hold_back_the_log(followed: Followed) -> None:
    """While others write, the heartbeat moves the slot of a table that does not change; after a restart of its reader too."""
    start(followed.settings, followed.law, followed.server, fix=True)
    _others_write(followed)
    url, wanted = connect_url(followed.settings), capture(followed.law, followed.server)
    connect.command(url, wanted.connector, "stop")
    wait_for("the task to stop", lambda: connect.connector_state(url, wanted.connector).state == "STOPPED")
    connect.command(url, wanted.connector, "resume")
    _others_write(followed)


def _others_write(followed: Followed) -> None:
    """Fill the log with changes of another table, and wait until the slot has passed them."""
    slot = capture(followed.law, followed.server).slot
    with followed.database() as database:
        database.execute("create table if not exists noise (x text)")
        database.execute("insert into noise select repeat('x', 1000) from generate_series(1, 2000)")
        (position,) = database.execute("select pg_current_wal_lsn()").fetchone() or (None,)
        question = "select 1 from pg_replication_slots where slot_name = %s and confirmed_flush_lsn >= %s"
        wait_for("the heartbeat", lambda: database.execute(question, [slot, position]).fetchone(), timeout_s=90)


def test_a_lost_slot_is_noticed_and_mended(spark: SparkSession, followed: Followed) -> None:
    """Within a minute, as an alert that names the remedy; after it the table is right again, deletes in the gap included."""
    watch = watch_captures(followed.settings, [followed.law])
    assert start(followed.settings, followed.law, followed.server, fix=True).problem is None
    followed.until_read()
    assert watch({}) == []
    _drop_slot(followed)
    with followed.database() as database:
        database.execute(f"delete from {followed.law.name} where id <= 20")  # pyright: ignore
        database.execute(f"update {followed.law.name} set amount = 7 where id = 30")  # pyright: ignore
    (condition,) = wait_for("the alert", lambda: watch({}), timeout_s=60)
    assert (condition.severity, condition.remedy) == ("critical", f"stream cdc resnapshot {followed.law.name}")
    assert resnapshot(followed.settings, followed.law, followed.server).problem is None
    followed.bring_in(spark)
    assert followed.current() == followed.truth()


def _drop_slot(followed: Followed) -> None:
    slot = capture(followed.law, followed.server).slot
    with followed.database() as database:

        def is_dropped() -> bool:
            database.execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s and active",
                [slot],
            )
            with suppress(psycopg.errors.ObjectInUse):
                database.execute("select pg_drop_replication_slot(%s)", [slot])
                return True
            return False

        wait_for("the slot to be free", is_dropped)


@pytest.mark.parametrize("mode", ["initial_only", "never"])
def test_a_copy_and_a_log_without_a_past(spark: SparkSession, followed: Followed, mode: str) -> None:
    """`initial_only` is a copy that needs no slot, `never` tells only what happens from now on. Beginning anew keeps to that."""
    server = replace(followed.server, options={"snapshot": mode})
    table = replace(followed, law=replace(followed.law, servers=(server,)), server=server)
    started = start(table.settings, table.law, server, fix=True)
    assert (started.problem, started.slot is None) == (None, mode == "initial_only")
    with table.database() as database:
        if mode == "initial_only":
            wait_for("the copy", lambda: table.messages() == 200)
        database.execute(f"update {table.law.name} set amount = 7 where id in (5, 6)")  # pyright: ignore
        database.execute(f"delete from {table.law.name} where id = 6")  # pyright: ignore
        if mode == "never":
            table.until_read()
        before = table.messages()
        assert resnapshot(table.settings, table.law, server).problem is None
        if mode == "initial_only":
            wait_for("another copy", lambda: table.messages() == before + 1 + 199)
        database.execute(f"update {table.law.name} set amount = 8 where id = 9")  # pyright: ignore
    if mode == "never":
        table.until_read()
    table.land(spark)
    truth = table.truth()
    assert table.current() == (
        {key: truth[key] for key in (5, 9)} if mode == "never" else truth | {9: (9, Decimal("9.0900"), *truth[9][2:])}
    )


def test_the_doctor_names_every_fault_of_the_live_servers(followed: Followed) -> None:
    """One line for each, with what mends it: a server that does not answer, a wrong topic, a table that nobody reads."""
    settings, name = replace(followed.settings, contracts=followed.law.file.parent), followed.law.name
    wanted = capture(followed.law, followed.server)
    place = {"kafka_bootstrap": "127.0.0.1:1", "connect_url": "http://127.0.0.1:1"}
    place["postgres_dsn"] = re.sub(r":\d+/", ":1/", postgres_dsn(settings))

    def faults(**other: str) -> list[tuple[str, str]]:
        found = examine_live(replace(settings, live=replace(settings.live, registry_url=None, **other)))
        return [(line.text, line.remedy) for line in found if line.state != "ok"]

    assert faults() == [(f"{name} is not followed yet", f"`stream cdc up {name}`")]
    topic = topic_of(settings, followed.law, followed.server)
    ensure_topic(kafka(settings), replace(topic, partitions=1))
    start(settings, followed.law, followed.server, fix=True)
    ((found, remedy),) = faults()
    assert found == f"{topic.name}: partitions is 1"
    assert "the contract wants 3" in remedy
    connect.command(connect_url(settings), wanted.connector, "pause")
    paused = f"{name}: the connector is paused", f"`stream cdc resume {name}`"
    wait_for("the pause", lambda: paused in faults())
    ((kafka_fault, _), (slot_fault, slot_remedy)) = faults(kafka_bootstrap=place["kafka_bootstrap"])
    assert "does not answer" in kafka_fault
    assert "nobody reads it" in slot_fault
    assert wanted.slot in slot_remedy
    assert ["Kafka Connect does not answer" in text for text, _ in faults(connect_url=place["connect_url"])] == [True, False]  # fmt: skip
    assert ["Postgres cannot be reached" in text for text, _ in faults(postgres_dsn=place["postgres_dsn"])] == [True]
    _drop_slot(followed)
    assert faults()[0][1] == f"`stream cdc resnapshot {name}`"
    stop(settings, wanted, drop=True)  # and once more after this test: what is gone can be removed again


def test_the_way_a_newcomer_goes(lake: Settings, services: Settings) -> None:
    """The sample's customers from Postgres to Gold, by the name of the dataset; Gold that needs others waits and is named."""
    settings = live_lake(lake, services)
    law, server = captured(load_contracts(settings.contracts).values())["customers"]
    today = datetime.now(UTC).date()
    with psycopg.connect(postgres_dsn(settings), autocommit=True) as database:
        database.execute(TABLE)  # pyright: ignore
        apply(database, customer_changes(days=2, end=today, scale=0.05, seed=1))
        (count,) = database.execute("select count(*) from customers").fetchone() or (0,)
    try:
        assert start(settings, law, server, fix=True).problem is None
        wait_for(
            "the snapshot", lambda: sum(look_at(kafka(settings), capture(law, server).topic).end.values()) >= count
        )
        done = run_range(settings, build_defs(settings), today, today, select="customers", report=lambda *_: None)
    finally:
        stop(settings, capture(law, server), drop=True)
    assert (done.status, done.errors) == ("success", [])
    assert "gold/stg_customers" in done.assets
    assert "gold/dim_customers" not in done.assets
    assert "no Silver yet of campaigns, order_items, orders, stores" in done.notes[0]
    assert len([row for row in rows(settings, "silver", "customers") if row["is_current"]]) == count > 50


@pytest.mark.parametrize("pattern", ["timestamp", "full"])
def test_a_table_without_its_log(spark: SparkSession, followed: Followed, pattern: str) -> None:
    """New and changed rows arrive with the next look, a late commit too; what did not change is not stored again."""
    options = {"pattern": pattern, "cursor": "updated_at"}
    law = replace(followed.law, servers=(replace(followed.server, options=options),))
    table = replace(followed, law=law, server=law.servers[0])
    today = datetime.now(UTC).date()
    days = [today, today + timedelta(days=1)]

    def look() -> int:
        return sum(look_up(spark, table.settings, law, run_id=uuid4().hex).rows.values())

    with table.database() as late, table.database() as database:
        late.autocommit = False
        late.execute(f"insert into {law.name} (id, amount) values (1000, 1)")  # pyright: ignore
        assert look() == 200
        late.commit()
        database.execute(f"update {law.name} set amount = 123456.78, updated_at = clock_timestamp() where id = 5")  # pyright: ignore
        if pattern == "full":
            database.execute(f"delete from {law.name} where id = 6")  # pyright: ignore
    # Each change once: the update and the late insert, and for `full` the delete.
    changes = 203 if pattern == "full" else 202
    assert look() == changes
    assert look() == 0
    refine_days(spark, table.settings, law, *days)
    assert table.current() == table.truth()
    assert len([r for r in rows(table.settings, "silver", law.name) if r["id"] == 5]) == 2
    # Somebody who was erased does not come back, whatever becomes of them in the table.
    erased = {"column": "id", "hash": subject_hash(table.settings, "id", "7")}
    write_certificate(table.settings, {"id": "erasure", "subject": erased})
    with table.database() as database:
        database.execute(f"update {law.name} set amount = 7, updated_at = clock_timestamp() where id in (7, 8)")  # pyright: ignore
    assert look() == changes + 1
