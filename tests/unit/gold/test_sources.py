"""Contracts become dbt sources, and a stale file is noticed."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from stream_assets.contracts.model import Contract
from stream_assets.gold.sources import HEADER, render_sources, sources_file, sources_in_sync, sync_sources
from stream_assets.settings import Settings


@pytest.fixture
def empty_project(gold_settings: Settings, tmp_path: Path) -> Settings:
    """A dbt project without models."""
    (tmp_path / "models").mkdir()
    return replace(gold_settings, dbt_project=tmp_path)


def columns_of(text: str, table: str) -> list[str]:
    tables = {t["name"]: t for t in yaml.safe_load(text)["sources"][0]["tables"]}
    return [column["name"] for column in tables[table]["columns"]]


def test_the_committed_sources_say_what_the_contracts_say(gold_settings, gold_contracts):
    """CI refuses a contract whose sources were not regenerated."""
    assert sources_in_sync(gold_settings, gold_contracts)


def test_sources_name_the_silver_asset_they_come_from(gold_contracts):
    """dbt and Dagster agree on what a source is."""
    tables = yaml.safe_load(render_sources(gold_contracts))["sources"][0]["tables"]
    assert {t["name"]: t["config"]["meta"]["dagster"]["asset_key"] for t in tables} == {
        contract.name: ["silver", contract.name] for contract in gold_contracts
    }


def test_sources_have_the_columns_that_reach_silver(gold_contracts: list[Contract]):
    """A dropped column is not there; history and trace are."""
    text = render_sources(gold_contracts)
    assert "phone" not in columns_of(text, "customers")
    assert {"valid_from", "valid_to", "is_current", "_event_date"} <= set(columns_of(text, "customers"))
    assert columns_of(text, "orders")[0] == "event_id"
    assert "valid_from" not in columns_of(text, "orders")


def test_the_order_of_contracts_does_not_matter(gold_contracts):
    """The file changes only when a contract does."""
    assert render_sources(gold_contracts) == render_sources(reversed(gold_contracts))


def test_sync_writes_once(empty_project, gold_contracts):
    """Writing what is already there would touch files for nothing."""
    assert not sources_in_sync(empty_project, gold_contracts)
    assert sync_sources(empty_project, gold_contracts)
    assert not sync_sources(empty_project, gold_contracts)
    assert sources_in_sync(empty_project, gold_contracts)
    assert not sources_in_sync(empty_project, gold_contracts[1:])


def test_a_project_that_declares_the_source_itself_is_left_alone(empty_project, gold_contracts):
    """Two declarations of one source are an error in dbt."""
    by_hand = empty_project.dbt_project / "models" / "mine.yml"
    by_hand.write_text("sources: [{name: silver, tables: [{name: orders}]}]")
    assert sources_file(empty_project.dbt_project) is None
    assert not sync_sources(empty_project, gold_contracts)
    assert sources_in_sync(empty_project, gold_contracts)


def test_a_generated_file_that_was_moved_is_kept_where_it_is(empty_project, gold_contracts):
    """A team may want its generated files elsewhere in the project."""
    moved = empty_project.dbt_project / "models" / "inputs" / "silver.yml"
    moved.parent.mkdir()
    moved.write_text(render_sources(gold_contracts[1:]))
    assert sync_sources(empty_project, gold_contracts)
    assert moved.read_text() == render_sources(gold_contracts)
    assert moved.read_text().startswith(HEADER)


def test_unreadable_yaml_is_left_to_dbt(empty_project, gold_contracts):
    """Its message is better than ours."""
    (empty_project.dbt_project / "models" / "broken.yml").write_text("sources: [")
    assert sync_sources(empty_project, gold_contracts)
