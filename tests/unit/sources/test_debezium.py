"""Connectors from contracts: the right table under the right names, exact values, and no password."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_assets.contracts.model import Contract
from stream_assets.errors import ContractError
from stream_assets.sources.debezium import Capture, capture_of, connector_config
from tests.documents import contract, document

DSN = "postgresql://reader:pa%40ss@db.example:6432/shop?sslmode=require"


def captured(tmp_path: Path, **options: Any) -> tuple[Contract, Capture]:
    made = document(datasetKind="entity")
    custom = [{"property": name, "value": value} for name, value in options.items()]
    made["servers"] = [
        {"server": "live", "type": "postgres", "host": "db", "port": 5432, "database": "shop", "schema": "sales", "customProperties": custom}
    ]  # fmt: skip
    law = contract(tmp_path, made)
    return law, capture_of(law, law.servers[0], "lab.readings.changes")


def test_a_table_is_captured_under_the_name_of_its_dataset(tmp_path: Path) -> None:
    """Slot, publication and connector are named after the dataset: found again by anyone, on any machine."""
    law, wanted = captured(tmp_path)
    assert law.is_change_log
    config = connector_config(wanted, DSN, "${secrets:/run:postgres}")
    assert (wanted.connector, config["slot.name"], config["publication.name"]) == (
        "stream-readings", "stream_readings", "stream_readings",
    )  # fmt: skip
    assert (config["database.hostname"], config["database.port"], config["database.dbname"]) == (
        "db.example",
        "6432",
        "shop",
    )
    assert config["table.include.list"] == r"sales\.readings"
    assert config["transforms.route.replacement"] == "lab.readings.changes"
    assert config["database.sslmode"] == "require"


def test_nothing_is_skipped_or_rounded(tmp_path: Path) -> None:
    """Truncations and tombstones come too; decimals and moments are text."""
    config = connector_config(captured(tmp_path)[1], DSN, "x")
    exact = {name: config[name] for name in ("skipped.operations", "decimal.handling.mode", "time.precision.mode")}
    assert exact == {
        "skipped.operations": "none", "decimal.handling.mode": "string", "time.precision.mode": "isostring",
    }  # fmt: skip
    assert config["tombstones.on.delete"] == "true"


def test_the_password_stays_out(tmp_path: Path) -> None:
    """Connect stores and shows configurations."""
    config = connector_config(captured(tmp_path)[1], DSN, "${secrets:/run:postgres}")
    assert config["database.password"] == "${secrets:/run:postgres}"
    assert not [value for value in config.values() if "pa@ss" in value or "pa%40ss" in value]


@pytest.mark.parametrize(
    ("mode", "theirs"),
    [("initial", "initial"), ("initial_only", "initial_only"), ("never", "no_data"), ("schema_only", "no_data")],
)
def test_snapshot_modes(tmp_path: Path, mode: str, theirs: str) -> None:
    """The four modes of a contract are modes of Debezium 3."""
    assert connector_config(captured(tmp_path, snapshot=mode)[1], DSN, "x")["snapshot.mode"] == theirs


def test_a_long_name_is_still_a_slot(tmp_path: Path) -> None:
    """Postgres cuts names at 63 bytes, silently: two long names must not become one."""
    wanted = captured(tmp_path)[1]
    slots = {replace(wanted, dataset="d" * 62 + end).slot for end in "ab"}
    assert len(slots) == 2
    assert max(map(len, slots)) <= 63


@pytest.mark.parametrize(
    "options",
    [
        {"pattern": "trigger"},
        {"snapshot": "always"},
        {"replicaIdentity": "half"},
        {"pattern": "timestamp"},
        {"table": "a; drop"},
        {"overlapMinutes": -1},
        {"snapshots": "initial"},
    ],
)
def test_a_server_that_cannot_be_followed_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    """A wrong word in a contract is found before anything runs."""
    with pytest.raises(ContractError):
        captured(tmp_path, **options)
