"""The event log keeps its databases open; Dagster's own storage, another process and a watcher must see the same events."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from sqlalchemy import select

from stream_assets.ops.event_log import KEPT_OPEN, EventLog
from stream_assets.ops.prepare import prepare_home
from stream_assets.resources import open_instance
from stream_assets.settings import Settings


@dg.asset(partitions_def=dg.StaticPartitionsDefinition(["a", "b"]))
def numbers() -> None: ...


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("DAGSTER_HOME", "")
    settings = Settings.from_env({"STREAM_HOME": str(tmp_path)})
    prepare_home(settings)
    with open_instance(settings) as instance:
        yield instance


def make(instance: dg.DagsterInstance, partition: str = "a") -> str:
    return dg.materialize([numbers], instance=instance, partition_key=partition).run_id


def test_dagsters_own_storage_reads_the_same_events(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    run_id = make(instance)
    theirs = SqliteEventLogStorage(str(tmp_path / "dagster" / "history" / "runs"))
    assert isinstance(instance.event_log_storage, EventLog)
    ours = [event.message for event in instance.all_logs(run_id)]
    assert [event.message for event in theirs.get_logs_for_run(run_id)] == ours
    assert len(ours) > 5
    assert theirs.get_materialized_partitions(numbers.key) == {"a"}


def test_a_watcher_hears_of_every_event(instance: dg.DagsterInstance) -> None:
    """The UI follows a run that another process writes by watching the run's file."""
    run_id = make(instance)
    before = len(instance.all_logs(run_id))
    heard, last = [], threading.Event()

    def listen(event: dg.EventLogEntry, _: str) -> None:
        heard.append(event.message)
        if event.message == "one more":
            last.set()

    instance.event_log_storage.watch(run_id, None, listen)
    run = instance.get_run_by_id(run_id)
    assert run is not None
    instance.report_engine_event("one more", run)
    assert last.wait(20)
    assert len(heard) == before + 1


def test_a_few_databases_stay_open_and_all_are_kept(instance: dg.DagsterInstance) -> None:
    runs = [make(instance, "ab"[n % 2]) for n in range(KEPT_OPEN + 2)]
    storage = instance.event_log_storage
    assert isinstance(storage, EventLog)
    assert len(storage._open) == KEPT_OPEN
    assert len({len(instance.all_logs(run_id)) for run_id in runs}) == 1
    assert storage.get_materialized_partitions(numbers.key) == {"a", "b"}


def test_events_of_a_range_are_written_together(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """A year of days is thousands of events. They must be the same ones, in the same order, as if each came alone."""
    days = dg.DailyPartitionsDefinition("2025-01-01", end_date="2025-03-01")

    @dg.asset(partitions_def=days, backfill_policy=dg.BackfillPolicy.single_run())
    def daily() -> None: ...

    def make_all() -> tuple[list[str], int]:
        transactions = 0
        connect = EventLog._connect

        def counted(self: EventLog, shard: str):
            nonlocal transactions
            transactions += self._open.get(shard) is None or not self._open[shard].in_transaction()
            return connect(self, shard)

        monkeypatch.setattr(EventLog, "_connect", counted)
        tags = {"dagster/asset_partition_range_start": "2025-01-01", "dagster/asset_partition_range_end": "2025-02-28"}
        run = dg.materialize([daily], instance=instance, tags=tags)
        monkeypatch.setattr(EventLog, "_connect", connect)
        events = [event.dagster_event for event in instance.all_logs(run.run_id) if event.dagster_event]
        return [f"{event.event_type_value} {event.partition}" for event in events], transactions

    together, few = make_all()
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "0")
    one_by_one, many = make_all()
    assert together == one_by_one
    assert len(together) > 59
    assert many - few > 59
    assert len(instance.event_log_storage.get_materialized_partitions(daily.key)) == 59


def test_checks_of_a_range_are_planned_as_dagster_would(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row per check and day, which the evaluation then fills in: the same ones as Dagster's own storage writes."""
    days = dg.DailyPartitionsDefinition("2025-01-01", end_date="2025-02-01")

    @dg.asset(
        partitions_def=days,
        backfill_policy=dg.BackfillPolicy.single_run(),
        check_specs=[dg.AssetCheckSpec("fine", asset="daily", partitions_def=days)],
    )
    def daily() -> dg.MaterializeResult:
        raise dg.Failure("so that what was planned stays as it is", allow_retries=False)

    def planned() -> list[tuple]:
        tags = {"dagster/asset_partition_range_start": "2025-01-01", "dagster/asset_partition_range_end": "2025-01-31"}
        run = dg.materialize([daily], instance=instance, tags=tags, raise_on_error=False)
        table = AssetCheckExecutionsTable.c
        columns = (table.asset_key, table.check_name, table.partition, table.execution_status)
        wanted = select(*columns).where(table.run_id == run.run_id).order_by(table.id)
        with instance.event_log_storage.index_connection() as connection:  # pyright: ignore[reportAttributeAccessIssue]
            return [tuple(row) for row in connection.execute(wanted)]

    ours = planned()
    assert [row[2] for row in ours] == list(days.get_partition_keys())
    name = "_store_asset_check_evaluation_planned"
    monkeypatch.setattr(EventLog, name, getattr(SqliteEventLogStorage, name))
    assert planned() == ours


def test_a_batch_is_kept_whole_or_not_at_all(instance: dg.DagsterInstance) -> None:
    run_id = make(instance)
    events = instance.all_logs(run_id)[:3]
    storage = instance.event_log_storage
    broken = [*events, None]
    with pytest.raises(Exception, match="EventLogEntry"):
        storage.store_event_batch(broken)  # pyright: ignore[reportArgumentType]
    assert len(instance.all_logs(run_id)) == len({event.timestamp for event in instance.all_logs(run_id)})
    before = len(instance.all_logs(run_id))
    storage.store_event_batch(events)
    assert len(instance.all_logs(run_id)) == before + 3


def test_a_wiped_log_starts_anew(instance: dg.DagsterInstance) -> None:
    make(instance)
    instance.event_log_storage.wipe()
    assert not instance.event_log_storage.get_materialized_partitions(numbers.key)
    run_id = make(instance, "b")
    assert instance.event_log_storage.get_materialized_partitions(numbers.key) == {"b"}
    assert instance.all_logs(run_id)
