"""What Dagster selects, in dbt's words."""

from stream_assets.gold.selection import all_of_it, is_anything_left, some_of_it, views_read_by


def names(found: set[str]) -> set[str]:
    return {uid.rsplit(".", 1)[-1] for uid in found}


def model(name: str) -> str:
    return f"model.stream.{name}"


def test_views_are_found_through_views(gold_manifest):
    """A view over a view needs both, and a table in between ends the search."""
    assert names(views_read_by(gold_manifest, {model("int_orders_enriched")})) == {
        "stg_orders", "stg_stores", "int_customer_versions", "stg_customers",
    }  # fmt: skip
    assert views_read_by(gold_manifest, {model("rpt_daily_revenue")}) == set()


def test_a_subset_is_exactly_what_was_asked_for(gold_manifest):
    """Tests that were not selected do not run; views come along."""
    test = next(uid for uid in gold_manifest["nodes"] if "unique_fct_orders_order_id" in uid)
    arguments = some_of_it(gold_manifest, {model("fct_orders"), test})
    assert arguments[:5] == ["--exclude", "resource_type:unit_test", "--indirect-selection", "empty", "--select"]
    assert arguments[5:] == [
        "fqn:stream.marts.facts.fct_orders",
        "fqn:stream.marts.facts.unique_fct_orders_order_id",
        "fqn:stream.staging.stg_order_items",
    ]


def test_a_test_of_a_view_brings_the_view(gold_manifest):
    """A check run on its own after a restart of the engine still finds what it checks."""
    test = next(uid for uid in gold_manifest["nodes"] if "unique_stg_orders_order_id" in uid)
    assert names(views_read_by(gold_manifest, {test})) == {"stg_orders"}


def test_the_whole_project_is_built_without_unit_tests():
    """They prove code, in CI."""
    assert all_of_it(()) == ["--exclude", "resource_type:unit_test"]
    assert all_of_it(("orders",)) == ["--exclude", "resource_type:unit_test", "source:silver.orders+"]


def test_without_its_contracts_nothing_is_left(gold_manifest):
    """Other contracts with the sample's models give no Gold instead of an error."""
    every = [source["name"] for source in gold_manifest["sources"].values()]
    assert is_anything_left(gold_manifest, ())
    assert is_anything_left(gold_manifest, ("campaigns",))
    assert not is_anything_left(gold_manifest, every)
