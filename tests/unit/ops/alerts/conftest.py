"""Real receivers on loopback: an HTTP server and an SMTP server that keep what they get and fail when told to."""

from __future__ import annotations

import json
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email import message_from_bytes
from email.message import Message
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stream_assets.settings import Settings


class HttpReceiver:
    """Keeps every request it took. `status` is what it answers; while that is not 200 it takes nothing."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/services/canary-token"
        self.status = 200
        self.tries = 0
        self.got: list[tuple[dict[str, str], bytes]] = []

    @property
    def documents(self) -> list[dict]:
        return [json.loads(body) for _, body in self.got]

    @property
    def ids(self) -> list[str]:
        return [headers["x-stream-alert-id"] for headers, _ in self.got]


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.tries += 1
            if kept.status == 200:
                kept.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(kept.status)
            self.send_header("Location", kept.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept = HttpReceiver(server.server_port)
    with serving(server):
        yield kept


class Mailbox:
    """Keeps the mails it took and the logins it saw."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.accepts_login = True
        self.logins: list[str] = []
        self.receivers: list[str] = []
        self.mails: list[Message] = []
        self.tls: ssl.SSLContext | None = None
        """With it, the server offers TLS and says what it was spoken to in."""
        self.spoken: list[str | None] = []


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of 127.0.0.1 that nobody signed but itself, with its key in the same file."""
    file = tmp_path / "mail.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", "-", "-out", "-"]
    file.write_bytes(subprocess.run([*made, *subject], check=True, capture_output=True).stdout)
    return file


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.say("220 ready")
            while line := self.rfile.readline().decode().strip():
                verb = line.split()[0].upper()
                if verb == "EHLO":
                    offers = ["250-mailbox", *(["250-STARTTLS"] if kept.tls else []), "250 AUTH PLAIN"]
                    self.say("\r\n".join(offers))
                elif verb == "STARTTLS" and kept.tls:
                    self.say("220 go on in TLS")
                    if not self.speak_tls(kept.tls):
                        return
                elif verb == "AUTH":
                    kept.logins.append(line)
                    self.say("235 welcome" if kept.accepts_login else "535 no")
                elif verb == "DATA":
                    kept.spoken.append(
                        self.connection.version() if isinstance(self.connection, ssl.SSLSocket) else None
                    )
                    self.say("354 go on")
                    kept.mails.append(message_from_bytes(b"".join(iter(self.rfile.readline, b".\r\n")), policy=default))
                    self.say("250 taken")
                elif verb == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    if verb == "RCPT":
                        kept.receivers.append(line)
                    self.say("250 fine")

        def speak_tls(self, context: ssl.SSLContext) -> bool:
            """Go on in TLS; False if the client hung up, because it does not trust us."""
            with suppress(ssl.SSLError, ConnectionError):
                self.connection = context.wrap_socket(self.connection, server_side=True)
                self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
                return True
            return False

        def finish(self) -> None:
            with suppress(OSError):  # a connection that was given up has nothing to flush
                super().finish()

        def say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept = Mailbox(server.server_address[1])
    with serving(server):
        yield kept


@pytest.fixture
def configure(tmp_path: Path) -> Callable[..., Settings]:
    """Settings of a fresh home, with these variables."""

    def settings(**env: str) -> Settings:
        return Settings.from_env({"STREAM_HOME": str(tmp_path / "home"), **env})

    return settings
