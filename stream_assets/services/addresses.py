"""Where Kafka, Postgres, Kafka Connect and the schema registry are: real ones by settings, else our own of this STREAM_HOME."""

from __future__ import annotations

import hashlib
import json
import socket
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from urllib.parse import quote

from filelock import FileLock

from stream_assets.secrets import secret_file
from stream_assets.settings import Settings

DATABASE = "shop"
"""The database of our own Postgres."""


@dataclass(frozen=True)
class Ports:
    """Where our own servers listen, all on loopback. Chosen once: clients and restarts find them again."""

    kafka: int
    controller: int
    postgres: int
    connect: int
    registry: int


@dataclass(frozen=True)
class KafkaAddress:
    """A Kafka cluster and how to be let in. Its text holds no password."""

    bootstrap: str
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    def for_clients(self) -> dict[str, str]:
        """Configuration of librdkafka clients."""
        given = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
            "ssl.ca.location": self.ca_file,
        }
        return {name: value for name, value in given.items() if value}

    def for_java(self) -> dict[str, str]:
        """Configuration of Java clients: Spark's Kafka source, Kafka Connect."""
        given = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": self._login(),
            "ssl.truststore.type": "PEM" if self.ca_file else None,
            "ssl.truststore.location": self.ca_file,
        }
        return {name: value for name, value in given.items() if value}

    def _login(self) -> str | None:
        if not self.mechanism:
            return None
        kind = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
        user, password = (_java_quoted(text or "") for text in (self.user, self.password))
        return f"org.apache.kafka.common.security.{kind} required username={user} password={password};"


@dataclass(frozen=True)
class RegistryAddress:
    """A schema registry and how to be let in. Its text holds no password."""

    url: str
    kept: Path
    """Where schemas are kept for when it is away: ids mean something in one registry only."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None


def kafka(settings: Settings) -> KafkaAddress:
    """The cluster of STREAM_KAFKA_BOOTSTRAP, or our own broker."""
    live = settings.live
    if live.kafka_bootstrap is None:
        return KafkaAddress(f"127.0.0.1:{ports(settings).kafka}")
    return KafkaAddress(
        live.kafka_bootstrap,
        live.kafka_protocol,
        live.kafka_mechanism,
        live.kafka_user,
        live.kafka_password,
        live.kafka_ca_file,
    )


def postgres_dsn(settings: Settings) -> str:
    """STREAM_POSTGRES_DSN, or that of our own server. It holds a password: never show it."""
    if settings.live.postgres_dsn:
        return settings.live.postgres_dsn
    password = quote(postgres_password(settings), safe="")
    return f"postgresql://postgres:{password}@127.0.0.1:{ports(settings).postgres}/{DATABASE}"


def connect_url(settings: Settings) -> str:
    """STREAM_CONNECT_URL, or that of our own worker."""
    return settings.live.connect_url or f"http://127.0.0.1:{ports(settings).connect}"


def schema_registry(settings: Settings) -> RegistryAddress:
    """The registry of STREAM_SCHEMA_REGISTRY, or our own."""
    live = settings.live
    url = live.registry_url or f"http://127.0.0.1:{ports(settings).registry}/apis/ccompat/v7"
    kept = settings.home / "schemas" / hashlib.sha256(url.encode()).hexdigest()[:12]
    return RegistryAddress(url, kept, live.registry_user, live.registry_password, live.registry_ca_file)


def postgres_password(settings: Settings) -> str:
    """The password of our own Postgres, made once."""
    return secret_file(postgres_password_file(settings))


def postgres_password_file(settings: Settings) -> Path:
    """Where that password is kept."""
    return settings.home / "secrets" / "postgres"


def services_folder(settings: Settings) -> Path:
    """State and logs of our own servers."""
    return settings.home / "services"


def ports(settings: Settings) -> Ports:
    """The ports of our own servers: from STREAM_SERVICES_PORT on, else free ones, chosen on first use and kept."""
    if settings.live.services_port:
        return Ports(*range(settings.live.services_port, settings.live.services_port + len(fields(Ports))))
    file = services_folder(settings) / "ports.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_suffix(".lock")):
        known = json.loads(file.read_text()) if file.exists() else {}
        if len(known) < len(fields(Ports)):
            # A home that was made when there were fewer servers keeps the ports it has.
            known = asdict(_free_ports()) | known
            file.write_text(json.dumps(known))
        return Ports(**known)


def _free_ports() -> Ports:
    probes = [socket.socket() for _ in fields(Ports)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return Ports(*(probe.getsockname()[1] for probe in probes))
    finally:
        for probe in probes:
            probe.close()


def _java_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
