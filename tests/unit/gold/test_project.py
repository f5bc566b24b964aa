"""Any dbt project can be run: it is copied, completed and parsed, and left as it was."""

import json
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from stream_assets.gold import project as gold
from stream_assets.gold.project import DbtError, keep_newest, prepare_manifest, prepare_project
from stream_assets.settings import Settings


@pytest.fixture
def other_team(gold_settings: Settings, tmp_path: Path) -> Settings:
    """A project written without Stream in mind: no profile, no macros, no sources, no table format."""
    files = {
        "dbt_project.yml": "name: other\nversion: 1.0.0\nmodels: {other: {+materialized: table}}\n",
        "models/orders_seen.sql": "select order_id from {{ source('silver', 'orders') }}",
        "models/readings_seen.sql": 'select * from {{ source("silver", "readings") }}',
        "models/per_day.sql": dedent("""
            {{ config(materialized='incremental', incremental_strategy='replace_where', partition_by='day') }}
            select count(*) as n, _event_date as day from {{ source('silver', 'orders') }}
            where {{ in_range('_event_date') }} group by 2
        """),
        "target/manifest.json": "stale",
    }
    for name, content in files.items():
        file = tmp_path / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return replace(gold_settings, dbt_project=tmp_path / "project", home=tmp_path / "home")


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_no_project_means_no_gold(gold_settings, tmp_path):
    """Contracts alone make Bronze and Silver."""
    assert prepare_manifest(replace(gold_settings, dbt_project=tmp_path / "none"), []) is None


def test_a_project_is_parsed_once(gold_settings, gold_contracts, gold_project, monkeypatch):
    """Every process of Dagster asks for the manifest; only a change makes a new one."""
    monkeypatch.setattr(gold, "_parse", lambda *_: pytest.fail("parsed again"))
    assert prepare_project(gold_settings, gold_contracts) == gold_project


@pytest.mark.parametrize("change", ["lake", "contracts", "model"])
def test_a_change_is_noticed(gold_settings, gold_contracts, gold_project, other_team, change):
    """A new place of the lake, another contract or another model make another manifest."""
    before = gold._fingerprint(other_team, {"a": "1"})
    if change == "lake":
        other_team = replace(other_team, lake="/elsewhere")
    if change == "model":
        (other_team.dbt_project / "models" / "per_day.sql").write_text("select 1")
    assert gold._fingerprint(other_team, {"a": "2" if change == "contracts" else "1"}) != before


def test_another_teams_project_runs_as_it_is(other_team, gold_contracts):
    """Its tables are Delta in the lake, it finds Silver and the daily macros, and nothing is written into it."""
    before = files_in(other_team.dbt_project)
    project = prepare_project(other_team, gold_contracts)
    assert project is not None
    assert files_in(other_team.dbt_project) == before
    assert project.without_contract == ("readings",)
    assert project.flags[-2:] == ["--profile", "stream"]
    nodes = json.loads(project.manifest.read_text())["nodes"]
    configs = {node["name"]: node["config"] for node in nodes.values()}
    assert configs["orders_seen"]["file_format"] == "delta"
    assert configs["orders_seen"]["location_root"] == f"{other_team.lake}/gold"
    assert configs["per_day"]["incremental_strategy"] == "replace_where"
    assert {node["schema"] for node in nodes.values()} == {"gold"}


def test_what_a_project_says_itself_stands(other_team):
    """Defaults fill gaps; they do not overrule."""
    (other_team.dbt_project / "dbt_project.yml").write_text("name: other\nmodels: {+file_format: parquet}\n")
    (other_team.dbt_project / "profiles.yml").write_text("own: {}")
    macros = other_team.dbt_project / "macros"
    macros.mkdir()
    (macros / "names.sql").write_text("{% macro generate_schema_name(a, b) %}mine{% endmacro %}")
    added = gold._additions(other_team.dbt_project)
    assert yaml.safe_load(added["dbt_project.yml"])["models"]["+file_format"] == "parquet"
    assert set(added) == {"dbt_project.yml", "macros/stream.sql"}


def test_our_own_project_needs_no_additions(gold_settings):
    """Running dbt by hand in the repository gives what Stream runs."""
    for name, content in gold._additions(gold_settings.dbt_project).items():
        assert (gold_settings.dbt_project / name).read_text() == content


def test_a_project_dbt_cannot_read_is_reported(other_team, gold_contracts):
    """With dbt's own words, and the project's own path."""
    (other_team.dbt_project / "models" / "bad.sql").write_text("select * from {{ ref('nowhere') }}")
    with pytest.raises(DbtError, match="nowhere") as caught:
        prepare_project(other_team, gold_contracts)
    assert str(other_team.dbt_project) in str(caught.value)


def test_old_copies_go(tmp_path):
    """A checkout that changes every minute does not fill the disk."""
    import os

    for age in range(4):
        (tmp_path / f"copy{age}").mkdir()
        os.utime(tmp_path / f"copy{age}", (1000 - age, 1000 - age))
    keep_newest(tmp_path, 2)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["copy0", "copy1"]
