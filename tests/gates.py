"""A gate before an HTTP server, for tests: TLS with a certificate of an authority made here, and a user and password."""

import base64
import ipaddress
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

USER, PASSWORD = "reader", "a:pass wörd"


@dataclass
class Gate:
    """Where it is, and the paths that were asked for behind it by those it let in."""

    url: str
    let_in: list[str] = field(default_factory=list)


class Authority:
    """Signs certificates of servers on this machine."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._signed(self.name, self.key, x509.BasicConstraints(ca=True, path_length=0))
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(made.public_bytes(Encoding.PEM))

    def server_file(self, address: str) -> Path:
        """Key and certificate of a server at this address."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        at = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        made = self._signed(subject, key, x509.BasicConstraints(ca=False, path_length=None), at)
        file = self.folder / f"{address}.pem"
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(secret + made.public_bytes(Encoding.PEM))
        return file

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        draft = x509.CertificateBuilder(
            self.name, subject, key.public_key(), x509.random_serial_number(), now - timedelta(days=1), now + timedelta(days=1)
        )  # fmt: skip
        for extension in extensions:
            draft = draft.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return draft.sign(self.key, hashes.SHA256())


@contextmanager
def gate(behind: str, certificate: Path) -> Iterator[Gate]:
    """A gate before the server at this address, which lets in whoever knows the password."""
    told = Gate("")

    class Keeper(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            expected = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            if self.headers.get("Authorization") != f"Basic {expected}":
                self.answer(401, b'{"error_code": 40101, "message": "Unauthorized"}')
                return
            told.let_in.append(self.path)
            try:
                with urllib.request.urlopen(behind + self.path) as answer:
                    self.answer(answer.status, answer.read())
            except urllib.error.HTTPError as error:
                self.answer(error.code, error.read())

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that turns away is what some tests want."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Quiet(("127.0.0.1", 0), Keeper) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        told.url = f"https://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()
