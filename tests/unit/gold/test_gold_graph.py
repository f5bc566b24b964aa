"""Gold in Dagster's eyes."""

from dataclasses import replace

import dagster as dg
import pytest

from stream_assets.gold.assets import build_gold
from stream_assets.keys import daily_partitions


@pytest.fixture(scope="module")
def gold_assets(gold_settings, gold_contracts, gold_project) -> dg.AssetsDefinition:
    defs = build_gold(gold_settings, gold_contracts, daily_partitions(gold_contracts))
    (assets,) = defs.assets
    return assets


def test_models_are_assets_of_gold(gold_assets):
    """Keys, group, kinds, owners, tags and the place of the table."""
    spec = gold_assets.specs_by_key[dg.AssetKey(["gold", "fct_orders"])]
    assert spec.group_name == "gold"
    assert spec.kinds == {"dbt", "spark", "deltalake"}
    assert spec.owners == ["team:commerce", "commerce-data@example.com"]
    assert spec.tags["stage"] == "fact"
    assert spec.metadata["dagster/uri"].endswith("/gold/fct_orders")
    assert "**Grain:** one row per order" in spec.description
    assert gold_assets.specs_by_key[dg.AssetKey(["gold", "stg_orders"])].kinds == {"dbt", "spark", "view"}


def test_staging_hangs_on_silver(gold_assets):
    """The line from the contract to the report is unbroken."""
    deps = {d.asset_key for d in gold_assets.specs_by_key[dg.AssetKey(["gold", "stg_orders"])].deps}
    assert deps == {dg.AssetKey(["silver", "orders"])}


def test_tests_are_checks(gold_assets):
    """An error stops what is downstream, a warning does not."""
    blocking = {spec.name: spec.blocking for spec in gold_assets.check_specs if spec.asset_key.path[-1] == "fct_orders"}
    assert blocking["unique_fct_orders_order_id"]
    assert not blocking["relationships_fct_orders_store_id__store_id__ref_dim_stores_"]
    assert any(name.startswith("accepted_range_fct_orders_total_cents") for name in blocking)


def test_a_check_says_what_it_promises(gold_assets):
    """In the words of the dbt test."""
    specs = {spec.name: spec for spec in gold_assets.check_specs}
    promise = specs["completeness__fct_payments__reconciles_with_silver"].description
    assert promise == "Payments and amounts of the day are those of Silver, to the cent."
    assert specs["unique_fct_orders_order_id"].description is None


def test_a_range_of_days_is_one_run(gold_assets, gold_contracts):
    """A backfill of a year is one dbt build."""
    assert gold_assets.backfill_policy == dg.BackfillPolicy.single_run()
    assert gold_assets.partitions_def == daily_partitions(gold_contracts)


def test_models_without_their_contract_are_left_out(gold_settings, gold_contracts):
    """A refused contract takes its models with it, and no others."""
    kept = [contract for contract in gold_contracts if contract.name != "web_events"]
    (assets,) = build_gold(gold_settings, kept, daily_partitions(kept)).assets
    names = {key.path[-1] for key in assets.keys}
    assert not names & {"stg_web_events", "fct_web_sessions", "rpt_web_funnel"}
    assert {"stg_orders", "rpt_daily_revenue"} <= names


def test_no_project_gives_no_gold(gold_settings, gold_contracts, tmp_path):
    """Bronze and Silver stand on their own."""
    settings = replace(gold_settings, dbt_project=tmp_path)
    assert not build_gold(settings, gold_contracts, daily_partitions(gold_contracts)).assets
