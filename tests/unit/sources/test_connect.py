"""Kafka Connect's REST interface, as a worker answers it: busy for a moment, absent, refusing."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stream_assets.errors import AwayError, ServiceError
from stream_assets.sources import connect

Worker = Callable[..., str]


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A worker that gives these answers (status and body) in turn, the last one for ever; returns its address."""
    servers: list[ThreadingHTTPServer] = []

    def start(*answers: tuple[int, object]) -> str:
        waiting = list(answers)

        class Answering(BaseHTTPRequestHandler):
            def answer(self) -> None:
                status, body = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

            def log_message(self, *_: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


BUSY = (409, {"message": "Cannot complete request momentarily due to stale configuration"})


def test_a_busy_worker_is_asked_again(worker: Worker) -> None:
    connect.restart(worker(BUSY, BUSY, (202, {})), "shop")


def test_a_worker_that_stays_busy_is_told(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "BUSY_S", 0.1)
    with pytest.raises(ServiceError, match=r"409.*stale configuration"):
        connect.restart(worker(BUSY), "shop")


def test_whoever_only_looks_waits_no_longer_than_they_want(worker: Worker) -> None:
    """A worker that stays busy, and one that takes the question and keeps silent."""
    with pytest.raises(ServiceError, match="409"):
        connect.connector_state(worker(BUSY), "shop", patience_s=0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(AwayError, match="does not answer"):
        connect.connector_state(f"http://127.0.0.1:{silent.getsockname()[1]}", "shop", patience_s=0.2)


def test_a_refusal_is_not_repeated(worker: Worker) -> None:
    with pytest.raises(ServiceError, match=r"400.*no such class"):
        connect.register(worker((400, {"message": "no such class"}), (200, {})), "shop", {})


def test_a_connector_nobody_made_is_absent(worker: Worker) -> None:
    assert connect.connector_state(worker((404, {})), "shop") == connect.ABSENT


def test_a_connector_is_as_bad_as_its_task(worker: Worker) -> None:
    failed = {"state": "FAILED", "trace": "org.X: outer\n\tat a.b\nCaused by: org.Y: slot is gone\n\tat c.d"}
    url = worker((200, {"connector": {"state": "RUNNING"}, "tasks": [failed]}))
    assert connect.connector_state(url, "shop") == connect.ConnectorState("FAILED", "org.Y: slot is gone")
