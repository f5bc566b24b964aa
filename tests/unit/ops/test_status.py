"""How things stand, from logs and an instance made for the purpose; no Spark anywhere."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from rich.console import Console

from stream_assets.contracts.model import Contract
from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import LoggedCommit
from stream_assets.ops.instance import InstanceFacts, latest_checks, read_instance
from stream_assets.ops.prepare import prepare_home
from stream_assets.ops.show_status import show_status, status_document
from stream_assets.ops.status import DatasetStatus, Status, Target, dataset_status, overall_targets
from stream_assets.quality.score import CheckResult
from stream_assets.quality.words import span_text
from stream_assets.resources import open_instance
from stream_assets.settings import Settings
from tests.documents import bend, contract, document, write

STREAM = Path(sys.executable).with_name("stream")
NOW = datetime(2026, 4, 10, 12, tzinfo=UTC)
NOTHING = InstanceFacts(succeeded=0, failed=0, checks=(), assets=0, traced=0)


def promised(folder: Path, value: int, unit: str, cadence: str) -> Contract:
    made = bend(bend(document(cadence=cadence), "slaProperties.0.unit", unit), "slaProperties.0.value", value)
    return contract(folder, made)


def status_of(made: Contract, *ages: timedelta) -> DatasetStatus:
    """A dataset that was updated once for each age, at the moment its newest event happened."""
    commits = [
        LoggedCommit(n, NOW - age, {"days": {"2026-04-10": {"accepted": 1, "newest_event": (NOW - age).isoformat()}}})
        for n, age in enumerate(ages)
    ]
    return dataset_status(made, commits, NOW)


def targets(*datasets: DatasetStatus, **facts: Any) -> dict[str, Target]:
    known = InstanceFacts(**{**NOTHING.__dict__, **facts})
    return {target.name: target for target in overall_targets(datasets, known)}


def test_a_dataset_tells_age_budget_and_state(tmp_path: Path) -> None:
    """Updated 30 hours and 1 hour ago with a target of 2 hours: stale for 27 of 30 hours."""
    found = status_of(promised(tmp_path, 2, "h", "1h"), timedelta(hours=30), timedelta(hours=1))
    assert (found.age, found.is_fresh) == (timedelta(hours=1), True)
    assert found.budget.stale == timedelta(hours=27)
    assert found.budget.availability == pytest.approx(0.1)
    assert found.budget.state == "exhausted"


def test_a_dataset_without_a_table_is_unknown(tmp_path: Path) -> None:
    found = dataset_status(contract(tmp_path), [], NOW)
    assert (found.newest_event, found.is_fresh, found.budget.state) == (None, False, "unknown")


@pytest.mark.parametrize(
    ("succeeded", "failed", "is_met"), [(100, 0, True), (99, 1, False), (991, 9, True), (0, 0, None)]
)
def test_more_than_99_of_100_runs_succeed(succeeded: int, failed: int, is_met: bool | None) -> None:
    assert targets(succeeded=succeeded, failed=failed)["runs succeed"].is_met is is_met


@pytest.mark.parametrize(("minutes", "is_met"), [(119, True), (121, False), (None, None)])
def test_critical_datasets_are_held_to_their_latency(minutes: int | None, is_met: bool | None, tmp_path: Path) -> None:
    """Each within its own freshness target, by the record that 99 of 100 are quicker than."""
    latency = timedelta(minutes=minutes) if minutes else None
    found = replace(status_of(promised(tmp_path, 2, "h", "1h"), timedelta(hours=1)), latency=latency)
    target = targets(found)["event to Gold, tier 1"]
    assert target.is_met is is_met
    assert target.figure == (f"p99: readings {span_text(latency)}" if latency else "nothing measured yet")
    told = status_document(Status(NOW, (found,), (target,)))
    assert told["datasets"][0]["latency_p99_seconds"] == (minutes * 60 if minutes else None)


def test_streams_batches_and_the_rest_have_their_own_targets(tmp_path: Path) -> None:
    """Fifteen minutes, an hour, and for what arrives less often the contract."""
    stream = status_of(promised(tmp_path / "a", 10, "m", "5m"), timedelta(minutes=16))
    batch = status_of(promised(tmp_path / "b", 1, "h", "30m"), timedelta(minutes=59))
    daily = status_of(contract(tmp_path / "c"), timedelta(days=2, hours=23))
    found = targets(stream, batch, daily)
    assert {name: target.is_met for name, target in found.items() if name.startswith("freshness")} == {
        "freshness of streams": False,
        "freshness of batches": True,
        "freshness of the rest": True,
    }
    assert found["freshness of streams"].figure == "oldest 16 min"


def test_a_dataset_that_never_arrived_is_not_fresh(tmp_path: Path) -> None:
    made = promised(tmp_path, 1, "h", "30m")
    assert targets(status_of(made, timedelta()), status_of(made))["freshness of batches"].is_met is False
    assert targets(status_of(made))["freshness of batches"].is_met is None


def test_every_reconciliation_must_pass() -> None:
    landed = CheckResult("bronze/a", "completeness__delivery__landed", True, is_gate=True)
    odd = CheckResult("silver/a", "distribution__table__volume", False, is_gate=False)
    lost = CheckResult("silver/a", "completeness__table__reconciled", False, is_gate=True)
    assert targets(checks=(landed, odd))["no data loss"].is_met is True
    assert targets(checks=(landed, lost))["no data loss"].is_met is False
    assert targets(checks=())["no data loss"].is_met is None
    assert targets(checks=(landed, odd))["quality score"].figure == "75.0% of 2 checks, by weight"


def test_lineage_covers_every_asset() -> None:
    assert targets(assets=4, traced=4)["lineage"].is_met is True
    assert targets(assets=4, traced=3)["lineage"].is_met is False


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(seconds=5), "5 s"),
        (timedelta(minutes=43.2), "43.2 min"),
        (timedelta(hours=1), "1 h"),
        (timedelta(hours=47), "47 h"),
        (timedelta(days=2.5), "2.5 d"),
        (-timedelta(hours=3), "-3 h"),
    ],
)
def test_durations_are_readable(span: timedelta, text: str) -> None:
    assert span_text(span) == text


def test_people_and_machines_see_the_same(tmp_path: Path) -> None:
    dataset = status_of(promised(tmp_path, 2, "h", "1h"), timedelta(hours=30), timedelta(hours=1))
    status = Status(NOW, (dataset,), tuple(overall_targets([dataset], NOTHING)))
    console = Console(record=True, width=140)
    show_status(console, status)
    shown = console.export_text()
    for word in ("readings", "2 h", "10.00%", "exhausted", "Freeze risky backfills", "no data loss"):
        assert word in shown
    (told,) = json.loads(json.dumps(status_document(status)))["datasets"]
    assert (told["stale_seconds"], told["age_seconds"], told["state"]) == (27 * 3600, 3600, "exhausted")
    assert list(told["burn_rates"]) == ["1h", "6h", "24h"]


KEY = dg.AssetKey(["silver", "readings"])


@dg.asset(
    key=KEY,
    check_specs=[dg.AssetCheckSpec("gate", asset=KEY, blocking=True), dg.AssetCheckSpec("odd", asset=KEY)],
    config_schema={"passed": bool},
)
def readings(context: dg.AssetExecutionContext) -> Any:
    yield dg.MaterializeResult(KEY)
    yield dg.AssetCheckResult(asset_key=KEY, check_name="gate", passed=context.op_execution_context.op_config["passed"])
    yield dg.AssetCheckResult(asset_key=KEY, check_name="odd", passed=True)


@dg.asset(key=["gold", "report"], deps=[KEY])
def report() -> None:
    raise dg.Failure("on purpose")


def materialize(instance: dg.DagsterInstance, asset: dg.AssetsDefinition, **config: Any) -> None:
    run_config = {"ops": {"silver__readings": {"config": config}}} if config else None
    dg.materialize([asset], instance=instance, run_config=run_config, raise_on_error=False)


def test_the_latest_result_of_a_check_counts() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        keys = {dg.AssetCheckKey(KEY, name): f"{name} holds" for name in ("gate", "odd", "never_run")}
        materialize(instance, readings, passed=False)
        assert [(c.name, c.passed, c.is_gate) for c in latest_checks(instance, keys)] == [
            ("gate", False, True),
            ("odd", True, False),
        ]
        materialize(instance, readings, passed=True)
        assert all(check.passed for check in latest_checks(instance, keys))


def test_runs_checks_and_lineage_are_read_from_an_instance(tmp_path: Path) -> None:
    """Two runs, one failed; an asset of Silver without a dependency has no known origin."""
    settings = Settings.from_env({"STREAM_HOME": str(tmp_path)})
    prepare_home(settings)
    with open_instance(settings) as instance:
        materialize(instance, readings, passed=True)
        materialize(instance, report)
    defs = dg.Definitions(assets=[readings, report])
    found = read_instance(settings, defs, since=datetime.now(UTC) - timedelta(hours=1))
    assert (found.succeeded, found.failed, found.assets, found.traced) == (1, 1, 2, 1)
    assert [check.name for check in found.checks] == ["gate", "odd"]
    assert read_instance(settings, defs, since=datetime.now(UTC) + timedelta(hours=1)).succeeded == 0


def test_the_command_reads_the_lake_without_an_engine(tmp_path: Path) -> None:
    """From a table on disk to the figure, and no Spark server is there afterwards."""
    write(tmp_path / "contracts", document())
    table = tmp_path / "home" / "lake" / "silver" / "readings"
    write_deltalake(table, pa.table({"a": [1]}))
    now = datetime.now(UTC)
    page = Commit("run", "readings", "silver", "1.0.0", {now.date().isoformat(): {"accepted": 1}}).to_json()
    info = {"timestamp": int(now.timestamp() * 1000), "operation": "WRITE", "operationParameters": {}}
    (table / "_delta_log" / f"{1:020}.json").write_text(
        json.dumps({"commitInfo": info | {"userMetadata": page}}) + "\n"
    )
    project = tmp_path / "dbt"
    project.mkdir()
    (project / "dbt_project.yml").write_text("name: nothing\nprofile: stream\nmodel-paths: [models]\n")
    env = {
        "STREAM_HOME": str(tmp_path / "home"),
        "STREAM_CONTRACTS": str(tmp_path / "contracts"),
        "STREAM_DBT_PROJECT": str(project),
    }
    done = subprocess.run(
        [STREAM, "status", "--json"],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(d["name"], d["is_fresh"], d["state"]) for d in found["datasets"]] == [("readings", True, "ok")]
    assert not (tmp_path / "home" / "spark").exists()
