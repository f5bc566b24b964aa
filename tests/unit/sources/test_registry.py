"""Schemas by id, as registries answer: found, unknown, refused, away."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stream_assets.errors import ServiceError, SettingsError
from stream_assets.services.addresses import RegistryAddress, ports, schema_registry
from stream_assets.settings import Settings
from stream_assets.sources import registry
from stream_assets.sources.framed import Schema
from stream_assets.sources.registry import ask_for_types, find_schema, find_schemas


@dataclass
class Registry:
    """A server that gives these answers (status and body) by path, and remembers what it was asked."""

    answers: dict[str, tuple[int, object]]
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self.server
        return f"http://127.0.0.1:{self.server.server_port}"

    def stop(self) -> None:
        assert self.server
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def running() -> Iterator[Registry]:
    made = Registry({"/schemas/ids/1": (200, {"schema": '"string"'})})

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append((self.path, self.headers.get("Authorization")))
            status, body = made.answers.get(self.path, (404, {"error_code": 40403, "message": "Schema not found"}))
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    made.server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=made.server.serve_forever, daemon=True).start()
    yield made
    made.stop()


@pytest.fixture
def address(running: Registry, tmp_path: Path) -> RegistryAddress:
    return RegistryAddress(running.url, tmp_path / "schemas")


def test_a_schema_is_asked_for_once(running: Registry, address: RegistryAddress) -> None:
    assert find_schemas(address, [1, 1]) == find_schemas(address, {1}) == {1: Schema('"string"')}
    assert [path for path, _ in running.asked] == ["/schemas/ids/1"]


def test_an_id_nobody_registered_is_asked_for_again(running: Registry, address: RegistryAddress) -> None:
    """It may be registered later."""
    assert find_schema(address, 2) is None
    running.answers["/schemas/ids/2"] = (200, {"schema": '"int"', "schemaType": "AVRO", "references": []})
    assert find_schema(address, 2) == Schema('"int"')


def test_schemas_that_a_schema_uses_come_with_it(running: Registry, address: RegistryAddress) -> None:
    """Each once, and after those it uses itself."""
    inner = {"subject": "city/eu", "version": 2, "name": "City"}
    running.answers |= {
        "/schemas/ids/7": (200, {"schema": "person", "references": [{"subject": "a", "version": 1, "name": "A"}, inner]}),
        "/subjects/a/versions/1": (200, {"schema": "address", "references": [inner]}),
        "/subjects/city%2Feu/versions/2": (200, {"schema": "city"}),
    }  # fmt: skip
    assert find_schema(address, 7) == Schema("person", (("City", "city"), ("A", "address")))


@pytest.mark.parametrize(
    "answer",
    [
        (404, {"detail": "no such page"}),
        (404, b"<html>"),
        (401, {"error_code": 401, "message": "who are you"}),
        (500, {}),
        (200, b"<html>"),
    ],
)
def test_what_is_no_answer_of_a_registry_is_an_error(
    running: Registry, address: RegistryAddress, answer: tuple[int, object]
) -> None:
    """A wrong address must not send everything to quarantine."""
    running.answers["/schemas/ids/3"] = answer
    with pytest.raises(ServiceError, match="STREAM_SCHEMA_REGISTRY"):
        find_schema(address, 3)


def test_schemas_seen_before_outlive_the_registry(running: Registry, address: RegistryAddress) -> None:
    """In another process too, whole; what was not seen must wait."""
    used = {"references": [{"subject": "b", "version": 1, "name": "b.proto"}], "schemaType": "PROTOBUF"}
    running.answers |= {
        "/schemas/ids/4": (200, {"schema": "a"} | used),
        "/subjects/b/versions/1": (200, {"schema": "b"}),
    }
    seen = find_schemas(address, [1, 4])
    running.stop()
    registry._fetch.cache_clear()
    assert find_schemas(address, [1, 4]) == seen
    assert seen == {1: Schema('"string"'), 4: Schema("a", (("b.proto", "b"),), "PROTOBUF")}
    with pytest.raises(ServiceError, match="stream services up registry"):
        find_schema(address, 2)
    with pytest.raises(ServiceError):
        find_schema(replace(address, kept=address.kept.with_name("another")), 1)


def test_the_password_goes_to_the_registry_and_nowhere_else(running: Registry, address: RegistryAddress) -> None:
    let_in = replace(address, user="me", password="canary-secret")  # noqa: S106 not one
    running.answers |= {"/schemas/types": (200, ["AVRO"]), "/schemas/ids/9": (403, {"message": "no"})}
    assert ask_for_types(let_in) == ["AVRO"]
    assert running.asked[-1][1] == "Basic " + base64.b64encode(b"me:canary-secret").decode()
    with pytest.raises(ServiceError) as refused:
        find_schema(let_in, 9)
    assert "canary-secret" not in f"{refused.value}{let_in!r}"


def test_an_address_with_a_password_is_refused() -> None:
    """Addresses are shown."""
    with pytest.raises(SettingsError, match="STREAM_SCHEMA_REGISTRY_PASSWORD") as refused:
        Settings.from_env({"STREAM_SCHEMA_REGISTRY": "https://me:canary-secret@host"})
    assert "canary" not in str(refused.value)


def test_ours_is_taken_unless_another_is_named(tmp_path: Path) -> None:
    ours = Settings.from_env({"STREAM_HOME": str(tmp_path)})
    assert schema_registry(ours).url == f"http://127.0.0.1:{ports(ours).registry}/apis/ccompat/v7"
    named = Settings.from_env({"STREAM_HOME": str(tmp_path), "STREAM_SCHEMA_REGISTRY": "https://host/"})
    assert schema_registry(named).url == "https://host"
    assert schema_registry(named).kept != schema_registry(ours).kept


def test_a_home_of_before_keeps_its_ports(tmp_path: Path) -> None:
    """It had no registry; the other servers must be found where they were."""
    home = Settings.from_env({"STREAM_HOME": str(tmp_path)})
    before = {"kafka": 1, "controller": 2, "postgres": 3, "connect": 4}
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "ports.json").write_text(json.dumps(before))
    found = ports(home)
    assert (found.kafka, found.connect) == (1, 4)
    assert found.registry > 1024
    assert ports(home) == found
