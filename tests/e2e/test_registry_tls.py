"""A real registry behind TLS and a password: the right certificates let us in, and whatever is wrong is said in one sentence."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from stream_assets.errors import ServiceError
from stream_assets.services.addresses import RegistryAddress, schema_registry
from stream_assets.settings import Settings
from stream_assets.sources.registry import ask_for_types, find_schema
from tests.gates import PASSWORD, USER, Authority, Gate, gate

TEXT = json.dumps({"type": "record", "name": "Behind", "fields": [{"name": "id", "type": "string"}]})


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest.fixture
def guarded(registry: Settings, authority: Authority) -> Iterator[Gate]:
    with gate(schema_registry(registry).url, authority.server_file("127.0.0.1")) as made:
        yield made


def address(guarded: Gate, ca_file: Path | str, **others: str) -> RegistryAddress:
    """As settings give it."""
    given = {
        "STREAM_HOME": str(Path(ca_file).parent),
        "STREAM_SCHEMA_REGISTRY": guarded.url,
        "STREAM_SCHEMA_REGISTRY_CA_FILE": str(ca_file),
        "STREAM_SCHEMA_REGISTRY_USER": USER,
        "STREAM_SCHEMA_REGISTRY_PASSWORD": PASSWORD,
    }
    return schema_registry(Settings.from_env(given | others))


def refusal(asked: RegistryAddress) -> str:
    with pytest.raises(ServiceError) as caught:
        ask_for_types(asked)
    assert PASSWORD not in str(caught.value) and PASSWORD not in repr(asked)
    return str(caught.value)


def test_the_right_certificates_and_password_let_us_in(registry: Settings, guarded: Gate, authority: Authority) -> None:
    """A schema is as the registry has it; one that it does not have is unknown, not an error."""
    client = SchemaRegistryClient({"url": schema_registry(registry).url})
    id_ = client.register_schema("behind-value", Schema(TEXT, "AVRO"))
    asked = address(guarded, authority.file)
    found = find_schema(asked, id_)
    assert found and json.loads(found.text) == json.loads(TEXT)
    assert find_schema(asked, 2_000_000_000) is None
    assert guarded.let_in == [f"/schemas/ids/{id_}", "/schemas/ids/2000000000"]


def test_a_server_that_cannot_prove_who_it_is_gets_no_password(
    guarded: Gate, authority: Authority, tmp_path: Path
) -> None:
    """Certificates of another authority, the system's, or those of another address."""
    other = Authority(tmp_path, "other")
    for asked in (address(guarded, other.file), address(guarded, other.file, STREAM_SCHEMA_REGISTRY_CA_FILE="")):
        told = refusal(asked)
        assert told.startswith(f"The schema registry at {guarded.url} cannot prove who it is (")
        assert "STREAM_SCHEMA_REGISTRY_CA_FILE" in told
    elsewhere = address(guarded, authority.file, STREAM_SCHEMA_REGISTRY=guarded.url.replace("127.0.0.1", "localhost"))
    assert "cannot prove who it is" in refusal(elsewhere)
    assert not guarded.let_in


def test_a_wrong_password_is_told(guarded: Gate, authority: Authority) -> None:
    """So is none at all."""
    for wrong in ({"STREAM_SCHEMA_REGISTRY_PASSWORD": "wrong"}, {"STREAM_SCHEMA_REGISTRY_USER": ""}):
        assert "refused /schemas/types (401: Unauthorized)" in refusal(address(guarded, authority.file, **wrong))


def test_a_file_without_certificates_is_told(guarded: Gate, tmp_path: Path) -> None:
    """Missing, or something else."""
    (tmp_path / "text.pem").write_text("no certificate")
    for name in ("missing.pem", "text.pem"):
        told = refusal(address(guarded, tmp_path / name))
        assert told.startswith(f"STREAM_SCHEMA_REGISTRY_CA_FILE: {tmp_path / name} cannot be used (")
