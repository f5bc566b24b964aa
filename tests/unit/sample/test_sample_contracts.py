"""The contracts of the retail world: valid by the standard's own schema, and complete by ours."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import stream_assets

SPECS = sorted((Path(stream_assets.__file__).parent / "contracts" / "specs").glob("*.odcs.yaml"))
DATASETS = {"orders", "order_items", "payments", "web_events", "customers", "stores", "campaigns"}

pytestmark = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name.split(".")[0])


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft201909Validator:
    """Return the official schema of the standard."""
    schema = json.loads((files("open_data_contract_standard") / "schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft201909Validator(schema)


def load(spec: Path) -> dict[str, Any]:
    return yaml.safe_load(spec.read_text(encoding="utf-8"))


def test_contract_follows_the_standard(spec: Path, validator: jsonschema.Draft201909Validator) -> None:
    """Every contract passes the official JSON schema."""
    assert [error.message for error in validator.iter_errors(load(spec))] == []


def test_contract_is_one_of_the_retail_world(spec: Path) -> None:
    """File, contract and table share one name, and none is missing or unknown."""
    contract = load(spec)
    assert {path.name.removesuffix(".odcs.yaml") for path in SPECS} == DATASETS
    assert contract["name"] == contract["schema"][0]["name"] == spec.name.removesuffix(".odcs.yaml")


def test_every_column_is_described(spec: Path) -> None:
    """A column without a description is not declared well enough to use."""
    columns = load(spec)["schema"][0]["properties"]
    assert [column["name"] for column in columns if not column.get("description")] == []


def test_times_and_references_name_known_columns(spec: Path) -> None:
    """What a contract points at exists: its own time columns, and the columns of other contracts."""
    contracts = {path.name.removesuffix(".odcs.yaml"): load(path) for path in SPECS}
    known = {f"{name}.{c['name']}" for name, found in contracts.items() for c in found["schema"][0]["properties"]}
    contract = load(spec)
    settings = {item["property"]: item["value"] for item in contract["customProperties"]}
    times = {f"{contract['name']}.{settings[name]}" for name in ("eventTime", "orderBy") if name in settings}
    links = {link["to"] for c in contract["schema"][0]["properties"] for link in c.get("relationships", [])}
    assert times | links <= known


def test_personal_data_has_a_strategy(spec: Path) -> None:
    """A column tagged as personal data says how it is protected."""
    for column in load(spec)["schema"][0]["properties"]:
        strategies = [
            item["value"]["strategy"] for item in column.get("customProperties", []) if item["property"] == "pii"
        ]
        assert bool(strategies) == ("pii" in column.get("tags", [])), column["name"]
        assert set(strategies) <= {"hash", "mask", "drop", "tokenize", "keep"}
