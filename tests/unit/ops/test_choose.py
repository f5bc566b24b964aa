"""What `--select` means, and what a person is told of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stream_assets.build import build_defs
from stream_assets.contracts.load import load_contracts
from stream_assets.errors import StreamError
from stream_assets.ops.choose import choose_assets, only_landed, unmade_silver
from stream_assets.settings import Settings


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings.from_env({"STREAM_HOME": str(tmp_path_factory.mktemp("home"))})


@pytest.fixture(scope="module")
def graph(settings: Settings) -> Any:
    return build_defs(settings).resolve_asset_graph()


def chosen(graph: Any, settings: Settings, select: str | None) -> set[str]:
    return {key.to_user_string() for key in choose_assets(graph, load_contracts(settings.contracts), select)}


def test_a_dataset_is_chosen_by_its_name(graph: Any, settings: Settings) -> None:
    """With everything that is made of it, as Dagster's own selection would say in more words."""
    found = chosen(graph, settings, "customers")
    assert found == chosen(graph, settings, 'key:"bronze/customers"+')
    assert {"bronze/customers", "silver/customers", "gold/dim_customers"} <= found
    assert chosen(graph, settings, None) > found
    assert chosen(graph, settings, "tag:dataset=customers") == {
        "bronze/customers",
        "silver/customers",
        "quarantine/customers",
    }


@pytest.mark.parametrize("select", ["nonsense", 'key:"nonsense"', "key:(", ""])
def test_a_selection_of_nothing_is_refused(graph: Any, settings: Settings, select: str) -> None:
    """It would end in success without having done anything."""
    with pytest.raises(StreamError, match=r"matches nothing.*customers"):
        chosen(graph, settings, select)


def test_gold_waits_for_silver_that_was_never_made(graph: Any, settings: Settings, tmp_path: Path) -> None:
    """Only for what is neither there nor part of the run."""
    contracts = load_contracts(settings.contracts)
    wanted = choose_assets(graph, contracts, "customers")
    assert unmade_silver(settings, graph, wanted) == {"campaigns", "order_items", "orders", "stores"}
    assert unmade_silver(settings, graph, choose_assets(graph, contracts, None)) == set()
    lake = replace(settings, lake=str(tmp_path))
    for name in ("campaigns", "order_items", "orders", "stores"):
        write_deltalake(lake.table_path("silver", name), pa.table({"a": [1]}))
    assert unmade_silver(lake, graph, wanted) == set()


def test_landing_alone_is_noticed(graph: Any, settings: Settings) -> None:
    """`key:"bronze/customers"` without its `+` lands and goes no further: easily meant otherwise."""
    contracts = load_contracts(settings.contracts)
    assert only_landed(graph, choose_assets(graph, contracts, 'key:"bronze/customers"')) == ["customers"]
    assert only_landed(graph, choose_assets(graph, contracts, "customers")) == []
