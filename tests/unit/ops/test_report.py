"""The quality report from tables on disk and an instance made for the purpose; no Spark anywhere."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stream_assets.contracts.load import ContractSet, load_contracts
from stream_assets.contracts.model import Contract
from stream_assets.engine.ledger import Commit
from stream_assets.ops import run
from stream_assets.ops.instance import latest_checks
from stream_assets.ops.prepare import prepare_home
from stream_assets.ops.report import gather_report, store_report, to_json
from stream_assets.quality.report import Report
from stream_assets.settings import Settings
from tests.documents import contract, document, with_column, write
from tests.ledgers import entry, make_entries

STREAM = Path(sys.executable).with_name("stream")
NOW = datetime(2026, 4, 10, 6, tzinfo=UTC)
LAST = date(2026, 4, 9)
RULE = "validity__pieces__range"


def log(settings: Settings, layer: str, name: str, days: Mapping[str, Any]) -> None:
    """A table whose newest commit, an hour ago, says this of these days."""
    table = Path(settings.table_path(layer, name))
    write_deltalake(table, pa.table({"a": [1]}))
    committed_at = NOW - timedelta(hours=1)
    info = {"timestamp": int(committed_at.timestamp() * 1000), "operation": "WRITE", "operationParameters": {}}
    page = Commit("run", name, layer, "1.0.0", days).to_json()
    line = json.dumps({"commitInfo": info | {"userMetadata": page}})
    (table / "_delta_log" / f"{1:020}.json").write_text(line + "\n")


def settings_of(tmp_path: Path) -> Settings:
    return Settings.from_env({"STREAM_HOME": str(tmp_path / "home"), "STREAM_CONTRACTS": str(tmp_path / "contracts")})


def gathered(tmp_path: Path, entries: Mapping[str, Any], made: Contract | None = None, *, days: int = 28) -> Report:
    settings = settings_of(tmp_path)
    log(settings, "silver", "readings", entries)
    return gather_report(settings, [made or contract(tmp_path / "contracts")], (), NOW, days=days)


def test_figures_are_those_of_the_ledgers(tmp_path: Path) -> None:
    entries = make_entries(LAST, 40, rows=1000, seed=3, rules=(RULE,))
    log(settings_of(tmp_path), "bronze", "readings", {"2026-04-09": {"rows_in": 77, "unreadable": {"x": "corrupt"}}})
    found = gathered(tmp_path, entries, days=14)
    covered = [entries[day] for day in sorted(entries)[-14:]]
    (readings,) = found.datasets
    assert (found.window.first, found.window.last) == (date(2026, 3, 27), LAST)
    for name in ("rows_in", "accepted", "quarantined", "duplicates"):
        assert getattr(readings.counts, name) == sum(e[name] for e in covered)
    assert [(r.rule, r.rows) for r in found.reasons] == [(RULE, sum(e["violations"][RULE] for e in covered))]
    assert (readings.delivered.records, readings.delivered.files_set_aside) == (77, 1)
    assert found.anomalies == ()


def test_service_levels_are_those_of_status(tmp_path: Path) -> None:
    """The newest event was at 23:58 of the ninth; two days may be three."""
    service = gathered(tmp_path, make_entries(LAST, 3, rows=10, seed=1, rules=())).datasets[0].service
    assert service.newest_event == datetime(2026, 4, 9, 23, 58, tzinfo=UTC)
    assert (service.age, service.is_fresh) == (timedelta(hours=6, minutes=2), True)
    assert (service.target, service.tier, service.state) == (timedelta(days=3), 3, "ok")


def test_anomalies_are_found_on_any_day_of_the_window(tmp_path: Path) -> None:
    """Not only on those of the latest run."""
    entries = make_entries(LAST, 60, rows=1000, seed=3, rules=())
    entries["2026-03-20"] = entry(100)
    entries["2026-03-25"]["missing_columns"] = ["text"]
    found = gathered(tmp_path, entries)
    assert [(a.check, a.days) for a in found.anomalies] == [
        ("validity__schema__drift", ("2026-03-25",)),
        ("distribution__table__volume", ("2026-03-20",)),
    ]


def test_days_from_before_profiles_are_reported_without_verdicts_on_volume(tmp_path: Path) -> None:
    entries = make_entries(LAST, 40, rows=1000, seed=3, rules=())
    entries["2026-04-01"] = entry(5)
    old = {day: {k: v for k, v in e.items() if k not in ("prompt", "sums", "profile")} for day, e in entries.items()}
    found = gathered(tmp_path, old)
    assert found.datasets[0].trend["2026-04-01"] is not None
    assert found.anomalies == ()


def profile(**counts: int) -> dict[str, Any]:
    return {"counts": counts, "nulls": 0, "others": 0}


def test_values_are_shown_only_of_columns_that_the_contract_profiles(tmp_path: Path) -> None:
    """An older contract may have profiled a column that is personal by now: the ledger remembers, the report does not tell."""
    watched, hidden = {"property": "profile", "value": True}, {"property": "pii", "value": {"strategy": "hash"}}
    made = with_column(document(), name="colour", customProperties=[watched])
    known = contract(tmp_path / "contracts", with_column(made, name="street", customProperties=[hidden]))
    entries = make_entries(LAST, 40, rows=1000, seed=3, rules=())
    for day, e in entries.items():
        shown = {"red": 700, "blue": 300} if day < "2026-04-09" else {"red": 100, "secret-green": 900}
        e["profile"] = {"colour": profile(**shown), "street": profile(**{f"street {v}": n for v, n in shown.items()})}
    text = to_json(gathered(tmp_path, entries, known))
    assert "secret-green" in text
    assert "street" not in text


def test_the_report_is_kept_as_the_latest_and_by_name(tmp_path: Path) -> None:
    made = gathered(tmp_path, make_entries(LAST, 3, rows=10, seed=1, rules=()))
    page = store_report(settings_of(tmp_path), made, name="one")
    assert page == tmp_path / "home" / "reports" / "quality" / "latest.html"
    assert {file.name for file in page.parent.iterdir()} == {"latest.html", "latest.json", "one.html", "one.json"}
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert json.loads(page.with_suffix(".json").read_text()) == json.loads(to_json(made))


def test_what_a_check_expected_and_found_is_read_from_the_instance() -> None:
    """Ours say it in words; dbt only counts rows."""
    key = dg.AssetKey(["gold", "a"])

    @dg.asset(key=key, check_specs=[dg.AssetCheckSpec(name, asset=key) for name in ("ours", "dbt")])
    def made() -> Any:
        yield dg.MaterializeResult(key)
        yield dg.AssetCheckResult(asset_key=key, check_name="ours", passed=False, description="7 of 9")
        yield dg.AssetCheckResult(
            asset_key=key, check_name="dbt", passed=False, metadata={"dagster_dbt/failed_row_count": 1700}
        )

    with dg.DagsterInstance.ephemeral() as instance:
        dg.materialize([made], instance=instance)
        promises = {dg.AssetCheckKey(key, "ours"): "all of them", dg.AssetCheckKey(key, "dbt"): ""}
        found = {check.name: check for check in latest_checks(instance, promises)}
    assert (found["ours"].expected, found["ours"].found) == ("all of them", "7 of 9")
    assert found["dbt"].found == "rows that break it: 1,700"
    assert found["ours"].evaluated_at and abs(found["ours"].evaluated_at - datetime.now(UTC)) < timedelta(minutes=5)


def quality_of_a_run(settings: Settings, contracts: ContractSet) -> tuple[run.ExecutionResult, list[Any]]:
    result, told = run.ExecutionResult(run_ids=["0123456789"], started_at="2026-04-10T06:00:00+00:00"), []
    prepare_home(settings)
    run._report_quality(settings, dg.Definitions(), contracts, result, lambda *news: told.append(news))
    return result, told


def test_a_run_ends_with_a_report_under_its_own_name(tmp_path: Path) -> None:
    write(tmp_path / "contracts", document())
    settings = settings_of(tmp_path)
    result, told = quality_of_a_run(settings, load_contracts(settings.contracts))
    folder = settings.home / "reports" / "quality"
    assert result.quality_report == str(folder / "latest.html")
    assert (folder / "2026-04-10T060000+0000-01234567.html").exists()
    assert told == []


def test_a_lake_that_cannot_be_read_here_fails_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no credentials\nand much more")

    monkeypatch.setattr(run, "gather_report", refuse)
    result, told = quality_of_a_run(settings_of(tmp_path), load_contracts(tmp_path))
    assert (result.quality_score, result.quality_report) == (None, "")
    assert told == [("quality report", "failed", {"error": "no credentials"})]


def test_the_command_writes_a_page_and_json(tmp_path: Path) -> None:
    """From a table on disk to the page; no Spark server is there afterwards."""
    write(tmp_path / "contracts", document())
    settings = settings_of(tmp_path)
    log(settings, "silver", "readings", make_entries(LAST, 40, rows=1000, seed=3, rules=(RULE,)))
    (tmp_path / "dbt").mkdir()
    (tmp_path / "dbt" / "dbt_project.yml").write_text("name: nothing\nprofile: stream\nmodel-paths: [models]\n")
    env = settings.to_env() | {"STREAM_DBT_PROJECT": str(tmp_path / "dbt")}

    def stream(*args: str) -> str:
        done = subprocess.run(
            [STREAM, *args], env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    told = json.loads(stream("report", "--json", "--days", "5"))
    assert [(d["name"], len(d["trend"])) for d in told["datasets"]] == [("readings", 5)]
    page = tmp_path / "out" / "page.html"
    assert stream("report", "--out", str(page)).strip() == str(page)
    assert "readings" in page.read_text(encoding="utf-8")
    assert not (settings.home / "spark").exists()
