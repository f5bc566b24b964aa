"""The doctor finds what is wrong, says what to do, and mends what can be mended without asking anybody."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stream_assets.build import build_defs
from stream_assets.ops.choose import unaffected_gold
from stream_assets.ops.doctor.checks import Line, examine, left_behind
from stream_assets.ops.doctor.instance import examine_instance
from stream_assets.ops.doctor.live import examine_live
from stream_assets.ops.prepare import prepare_home
from stream_assets.ops.processes import PROCESS, is_dead, this_process
from stream_assets.ops.run import failed_datasets
from stream_assets.resources import open_instance
from stream_assets.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings.from_env({"STREAM_HOME": str(tmp_path / "home"), "STREAM_SPARK_MEMORY": "64m"})
    prepare_home(made)
    return replace(made, dbt_project=tmp_path / "none")


def line(settings: Settings, part: str) -> Line:
    return next(line for line in examine(settings) if line.part == part)


def dead_process() -> str:
    """The name of a process that has ended."""
    code = "from stream_assets.ops.processes import this_process; print(this_process())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_sound_installation_has_no_failures(settings: Settings) -> None:
    assert [found for found in examine(settings) if found.state == "fail"] == []


def test_who_has_files_only_is_not_asked_for_servers(settings: Settings) -> None:
    """Unless a setting names one: that it does not answer is worth knowing, though nothing depends on it."""
    assert [found.state for found in examine_live(settings)] == ["ok"]
    named = replace(settings, live=replace(settings.live, connect_url="http://127.0.0.1:1", kafka_bootstrap="[::1]:1"))
    found = {found.part: found for found in examine_live(named)}
    assert (found["connect"].state, found["connect"].text) == (
        "warn",
        "Kafka Connect does not answer at http://127.0.0.1:1",
    )
    assert "stream services up" in found["connect"].remedy
    assert "registry" not in found


def test_a_schema_registry_is_looked_at_once_it_is_named(settings: Settings) -> None:
    named = replace(settings, live=replace(settings.live, registry_url="http://127.0.0.1:1", kafka_bootstrap="[::1]:1"))
    found = next(found for found in examine_live(named) if found.part == "registry")
    assert found.state == "warn"
    assert found.text.startswith("The schema registry does not answer at http://127.0.0.1:1")
    assert "STREAM_SCHEMA_REGISTRY" in found.remedy


def test_a_missing_file_of_a_table_is_a_failure(settings: Settings) -> None:
    path = Path(settings.table_path("silver", "orders"))
    write_deltalake(path, pa.table({"a": [1]}))
    assert line(settings, "tables").state == "ok"
    next(path.glob("*.parquet")).unlink()
    found = line(settings, "tables")
    assert (found.state, bool(found.remedy)) == ("fail", True)
    assert "silver/orders" in found.text


def test_a_refused_contract_is_a_failure(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "laws").mkdir()
    (tmp_path / "laws" / "bad.odcs.yaml").write_text("kind: DataContract\n")
    found = line(replace(settings, contracts=tmp_path / "laws"), "contracts")
    assert (found.state, found.remedy) == ("fail", "`stream contracts lint`")


def test_more_memory_than_there_is_is_a_failure(settings: Settings) -> None:
    assert line(replace(settings, spark_memory="9000g"), "memory").state == "fail"


def test_state_of_a_dead_server_is_found(settings: Settings) -> None:
    state = settings.home / "spark" / "server.json"
    state.parent.mkdir()
    state.write_text(json.dumps({"pid": 1, "born": 0.0, "keeper": 1, "port": 1}))
    assert line(settings, "locks").state == "warn"
    assert left_behind(settings) == [state]


def test_runs_of_dead_processes_are_ended_and_others_left_alone(settings: Settings) -> None:
    job = dg.GraphDefinition(name="nothing").to_job()
    with open_instance(settings) as instance:
        runs = {
            name: instance.create_run_for_job(job, tags={PROCESS: process}, status=dg.DagsterRunStatus.STARTED).run_id
            for name, process in (("dead", dead_process()), ("alive", this_process()), ("elsewhere", "other:1:1.0"))
        }
        found = [line for line in examine_instance(settings, fix=False) if line.part == "runs"]
        assert [(line.state, line.text.split()[0]) for line in found] == [("warn", "1")]
        assert [line.state for line in examine_instance(settings, fix=True)] == ["ok", "ok"]
        states = {name: instance.get_run_by_id(run_id) for name, run_id in runs.items()}
        assert {name: run.status.value for name, run in states.items() if run} == {
            "dead": "FAILURE",
            "alive": "STARTED",
            "elsewhere": "STARTED",
        }


def test_a_process_is_known_by_its_birth() -> None:
    assert not is_dead({PROCESS: this_process()})
    assert is_dead({PROCESS: f"{socket.gethostname()}:{this_process().split(':')[1]}:1.0"})
    assert not is_dead({})


def test_gold_that_is_made_of_other_datasets_goes_on(tmp_path: Path) -> None:
    """One bad dataset never stops what has nothing to do with it."""
    graph = build_defs(Settings.from_env({"STREAM_HOME": str(tmp_path)})).resolve_asset_graph()
    failed = failed_datasets([{"step": "refine_payments"}, {"step": "build_gold"}], [{"asset": "silver/web_events"}])
    assert failed == {"payments", "web_events"}
    spared = {key.path[-1] for key in unaffected_gold(graph, graph.materializable_asset_keys, failed)}
    assert {"fct_orders", "rpt_daily_revenue"} <= spared
    assert not spared & {"fct_payments", "fct_web_sessions", "rpt_web_funnel"}
