"""The asset graph as people see it: a change of keys, dependencies, checks, partitions or policies is a change on purpose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from stream_assets.build import build_defs
from stream_assets.quality.report import latest_page
from stream_assets.settings import Settings

SNAPSHOT = Path(__file__).with_name("graph.json")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings.from_env({**os.environ, "STREAM_HOME": str(tmp_path_factory.mktemp("home"))})


@pytest.fixture(scope="module")
def defs(settings: Settings) -> dg.Definitions:
    return build_defs(settings)


def describe(defs: dg.Definitions) -> dict[str, dict]:
    graph = defs.resolve_asset_graph()
    return {
        key.to_user_string(): {
            "dependencies": sorted(parent.to_user_string() for parent in graph.get(key).parent_keys),
            "group": graph.get(key).group_name,
            "partitions": type(graph.get(key).partitions_def).__name__,
            "single_run_backfill": graph.get(key).backfill_policy == dg.BackfillPolicy.single_run(),
            "has_freshness_policy": graph.get(key).freshness_policy is not None,
            "has_owner": bool(graph.get(key).owners),
            "checks": sorted(check.name for check in graph.get(key).check_keys),
        }
        for key in sorted(graph.get_all_asset_keys())
    }


def test_graph_is_the_one_we_agreed_on(defs: dg.Definitions) -> None:
    """To accept a change on purpose: STREAM_ACCEPT_GRAPH=1 pytest tests/unit/test_graph.py."""
    found = describe(defs)
    if os.environ.get("STREAM_ACCEPT_GRAPH"):
        SNAPSHOT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(SNAPSHOT.read_text())


def test_every_batch_layer_is_partitioned_by_day(defs: dg.Definitions) -> None:
    """Live views are one table each, changing all day."""
    batch = [node for node in describe(defs).values() if node["group"] != "live"]
    assert {node["partitions"] for node in batch} == {"DailyPartitionsDefinition"}


def test_every_silver_asset_leads_to_the_quality_report(settings: Settings, defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    silver = [graph.get(key) for key in graph.get_all_asset_keys() if key.path[0] == "silver"]
    assert {str(node.metadata["quality_report"].value) for node in silver} == {str(latest_page(settings.home))}


def test_schedules_and_sensors_have_one_switch(settings: Settings, defs: dg.Definitions) -> None:
    """What starts work is off until it is switched on. Alerts only tell: they are always on."""
    off = [item for item in [*defs.schedules, *defs.sensors] if item.name != "alerts"]
    on_settings = Settings.from_env({**settings.to_env(), "STREAM_SCHEDULES": "on"})
    on = build_defs(on_settings)
    assert {item.default_status.name for item in off} == {"STOPPED"}
    assert {item.default_status.name for item in [*on.schedules, *on.sensors]} == {"RUNNING"}
    assert defs.resolve_sensor_def("alerts").default_status.name == "RUNNING"


def test_broken_contract_is_shown_and_the_others_load(settings: Settings, tmp_path: Path) -> None:
    for file in settings.contracts.glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text())
    text = (tmp_path / "stores.odcs.yaml").read_text()
    (tmp_path / "stores.odcs.yaml").write_text(text.replace("slaTier", "slaTeir"))
    mended = Settings.from_env(
        {**settings.to_env(), "STREAM_CONTRACTS": str(tmp_path), "STREAM_DBT_PROJECT": str(tmp_path)}
    )
    keys = {key.to_user_string() for key in build_defs(mended).resolve_asset_graph().get_all_asset_keys()}
    assert "silver/orders" in keys
    assert "silver/stores" not in keys
    assert any(key.startswith("broken_contract/stores") for key in keys)


def test_code_location_loads_quickly_and_opens_nothing(settings: Settings, defs: dg.Definitions) -> None:
    """Under 5 s of work with the dbt manifest in place (CPU time, so that a busy machine says the same); nothing is opened."""
    program = (
        "import socket, time\n"
        "def refuse(*_): raise AssertionError('a socket was opened at import')\n"
        "socket.socket.connect = refuse\n"
        "from stream_assets.definitions import defs; defs.resolve_asset_graph(); print(time.process_time())"
    )
    seconds = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **settings.to_env()},
            capture_output=True,
            text=True,
            check=True,
        )
        seconds.append(float(done.stdout.split()[-1]))
    assert min(seconds) < 5, seconds
    assert not (settings.home / "spark" / "server.json").exists()
