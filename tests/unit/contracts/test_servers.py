"""Where a dataset can be read: which server is taken, and which servers are refused."""

from pathlib import Path
from typing import Any

import pytest

from stream_assets.errors import ContractError
from tests.documents import bend, contract, document

LIVE = {"server": "live", "type": "kafka", "host": "broker"}


def with_server(server: dict[str, Any], **custom: Any) -> dict[str, Any]:
    """A sound document that can also be read from this server."""
    properties = [{"property": name, "value": value} for name, value in custom.items()]
    return bend(document(), "servers.1", server | ({"customProperties": properties} if properties else {}))


def test_the_server_asked_for_is_taken(tmp_path: Path) -> None:
    made = contract(tmp_path, with_server(LIVE, topic="lab.readings"))
    assert made.server("live").kind == "kafka"
    assert made.server("live").options == {"topic": "lab.readings"}
    assert made.server("landing").path == "readings"


def test_a_contract_without_that_server_is_read_from_its_first(tmp_path: Path) -> None:
    """Reference data stays files when everything else is read live."""
    assert contract(tmp_path).server("live").name == "landing"


def test_a_contract_needs_no_files(tmp_path: Path) -> None:
    made = contract(tmp_path, bend(document(), "servers.0", LIVE))
    assert (made.files, made.landing_path, made.formats) == (None, "", {"json"})


def test_messages_are_json_unless_they_are_avro(tmp_path: Path) -> None:
    assert contract(tmp_path, with_server(LIVE)).server("live").format == "json"
    assert contract(tmp_path, with_server(LIVE | {"format": "avro"})).server("live").format == "avro"


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (with_server(LIVE | {"server": "landing"}), "servers"),
        (with_server(LIVE | {"format": "xml"}), "servers.live.format"),
        (with_server(LIVE, topic="lab readings"), "servers.live.topic"),
        (with_server(LIVE, topic=".."), "servers.live.topic"),
        (with_server(LIVE, peakThroughput=0), "servers.live.peakThroughput"),
        (with_server(LIVE, retentionDays="long"), "servers.live.retentionDays"),
        (with_server(LIVE, delivery="mostly-once"), "servers.live.delivery"),
        (with_server(LIVE, topics="x"), "servers.live.customProperties"),
        (
            with_server({"server": "shop", "type": "mysql", "host": "h", "port": 1, "database": "d"}),
            "servers.shop.type",
        ),
        (bend(document(datasetKind="reference"), "servers.1", LIVE), "servers.live.type"),
    ],
)
def test_a_server_that_cannot_be_read_is_refused(tmp_path: Path, made: dict[str, Any], field: str) -> None:
    with pytest.raises(ContractError) as refused:
        contract(tmp_path, made)
    assert refused.value.field == field
