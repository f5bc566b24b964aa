"""The sample's dbt project, parsed once."""

import json
from typing import Any

import pytest

from stream_assets.contracts.load import load_contracts
from stream_assets.contracts.model import Contract
from stream_assets.gold.project import GoldProject, prepare_project
from stream_assets.settings import Settings


@pytest.fixture(scope="session")
def gold_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings.from_env({"STREAM_HOME": str(tmp_path_factory.mktemp("home"))})


@pytest.fixture(scope="session")
def gold_contracts(gold_settings: Settings) -> list[Contract]:
    return list(load_contracts(gold_settings.contracts).values())


@pytest.fixture(scope="session")
def gold_project(gold_settings: Settings, gold_contracts: list[Contract]) -> GoldProject:
    project = prepare_project(gold_settings, gold_contracts)
    assert project is not None
    return project


@pytest.fixture(scope="session")
def gold_manifest(gold_project: GoldProject) -> dict[str, Any]:
    return json.loads(gold_project.manifest.read_bytes())
