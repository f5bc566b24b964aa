"""House rules of the dbt project, checked on its manifest."""

from typing import Any

import pytest

from stream_assets.gold.models import unread_tables
from stream_assets.settings import PROJECT

READS = {
    "stg": {"source"},
    "int": {"stg", "int"},
    "dim": {"stg", "int", "dim"},
    "fct": {"stg", "int", "dim", "fct"},
    "rpt": {"dim", "fct", "rpt"},
}
"""What each kind of model may read, by prefix."""


def models(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [node for node in manifest["nodes"].values() if node["resource_type"] == "model"]


def data_tests(manifest: dict[str, Any], model: dict[str, Any]) -> list[dict[str, Any]]:
    children = [manifest["nodes"].get(uid) for uid in manifest["child_map"][model["unique_id"]]]
    return [node for node in children if node and node.get("attached_node") == model["unique_id"]]


def kind(node: dict[str, Any]) -> str:
    """Which generic test a node is; empty for any other node."""
    return node["test_metadata"]["name"] if node["resource_type"] == "test" else ""


def kind_of(manifest: dict[str, Any], uid: str) -> str:
    return "source" if uid in manifest["sources"] else manifest["nodes"][uid]["name"].split("_")[0]


def test_models_read_only_the_layers_below(gold_manifest):
    """stg_ alone reads sources; rpt_ reads only dim_, fct_ and rpt_."""
    wrong = [
        (model["name"], parent)
        for model in models(gold_manifest)
        for parent in model["depends_on"]["nodes"]
        if kind_of(gold_manifest, parent) not in READS[model["name"].split("_")[0]]
    ]
    assert wrong == []


def test_a_table_that_nobody_is_declared_to_read_is_told(gold_manifest):
    """Neither a model nor an exposure reads these facts. Without exposures nobody can tell of Gold; an unread source is told."""
    assert unread_tables(gold_manifest) == {"gold/fct_payments", "gold/fct_order_items"}
    unknown = {**gold_manifest, "exposures": {}}
    assert unread_tables(unknown) == set()
    spare = {"source.x": {"source_name": "silver", "name": "spare"}}
    assert unread_tables({**gold_manifest, "sources": {**gold_manifest["sources"], **spare}}) >= {"silver/spare"}


def test_every_source_has_exactly_one_staging_model(gold_manifest):
    """Staging is one-to-one with Silver."""
    readers = {uid: gold_manifest["child_map"][uid] for uid in gold_manifest["sources"]}
    assert {len(reader) for reader in readers.values()} == {1}


def test_every_model_states_its_grain_and_describes_its_columns(gold_manifest):
    """The UI and the catalogue show them."""
    assert [m["name"] for m in models(gold_manifest) if "Grain: one row per" not in m["description"]] == []
    assert [m["name"] for m in models(gold_manifest) if not m["columns"]] == []
    bare = [
        (m["name"], c) for m in models(gold_manifest) for c, column in m["columns"].items() if not column["description"]
    ]
    assert bare == []


def test_every_model_has_its_key_tested(gold_manifest):
    """A repeated key doubles revenue downstream."""
    untested = []
    for model in models(gold_manifest):
        kinds = {test["test_metadata"]["name"] for test in data_tests(gold_manifest, model)}
        if not ({"unique", "not_null"} <= kinds or "is_key" in kinds):
            untested.append(model["name"])
    assert untested == []


def test_an_orphan_is_a_warning(gold_manifest):
    """Parents may arrive later than their children."""
    severities = {
        node["config"]["severity"].lower()
        for node in gold_manifest["nodes"].values()
        if node["resource_type"] == "test" and node["test_metadata"]["name"] == "relationships"
    }
    assert severities == {"warn"}


def test_every_table_is_reconciled_with_what_it_is_made_from(gold_manifest):
    """A lost row stops what is downstream. Metrics of customers are a sum over all days: a second one would cost as much."""
    tables = [m for m in models(gold_manifest) if m["config"]["materialized"] != "view"]
    found = {m["name"]: [t for t in data_tests(gold_manifest, m) if kind(t) == "reconciles"] for m in tables}
    assert [name for name, tests in found.items() if not tests] == ["int_customer_metrics"]
    assert {t["config"]["severity"].lower() for tests in found.values() for t in tests} == {"error"}


def test_an_odd_day_is_a_suspicion(gold_manifest):
    """It is told and stops nothing."""
    odd = [node for node in gold_manifest["nodes"].values() if kind(node) == "in_line_with_history"]
    assert odd
    assert {node["config"]["severity"].lower() for node in odd} == {"warn"}


def test_checks_of_whole_tables_have_a_name_and_a_promise(gold_manifest):
    """`<family>__<table>__<rule>`, like every other check: the score and the UI go by it."""
    ours = [n for n in gold_manifest["nodes"].values() if kind(n) in ("reconciles", "holds", "in_line_with_history")]
    for node in ours:
        family, table, _ = node["name"].split("__")
        assert family in ("completeness", "consistency", "distribution")
        assert node["attached_node"].endswith(f".{table}")
        assert node["description"]


def test_daily_models_are_partitioned_by_the_day_they_are_tested_by(gold_manifest):
    """A run replaces, and tests look at, the days asked for and no others."""
    daily = [m for m in models(gold_manifest) if m["config"].get("partition_by")]
    assert len(daily) == 8
    for model in daily:
        assert model["config"]["materialized"] == "incremental"
        assert model["config"]["incremental_strategy"] == "replace_where"
        assert model["config"]["partition_by"] == model["config"]["event_time"]
        assert "in_range('" in model["raw_code"]


def test_models_with_logic_have_unit_tests(gold_manifest):
    """Case and window expressions are where models go wrong."""
    tested = {test["depends_on"]["nodes"][0] for test in gold_manifest["unit_tests"].values()}
    logical = {m["unique_id"] for m in models(gold_manifest) if "case" in m["raw_code"] or " over (" in m["raw_code"]}
    assert logical <= tested


@pytest.mark.parametrize("folder", sorted({f.parent for f in (PROJECT / "dbt_project" / "models").rglob("*.sql")}))
def test_every_folder_has_one_yml_of_its_own(folder):
    """Docs and tests are found beside the models."""
    assert [f.name for f in folder.glob("*.yml") if f.name != "_sources.yml"] == [f"_{folder.name}.yml"]
