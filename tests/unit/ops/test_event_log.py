"""The event log keeps its databases open; Dagster's own storage, another process and a watcher must see the same events."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage

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


def test_a_wiped_log_starts_anew(instance: dg.DagsterInstance) -> None:
    make(instance)
    instance.event_log_storage.wipe()
    assert not instance.event_log_storage.get_materialized_partitions(numbers.key)
    run_id = make(instance, "b")
    assert instance.event_log_storage.get_materialized_partitions(numbers.key) == {"b"}
    assert instance.all_logs(run_id)
