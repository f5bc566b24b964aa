"""Our own Kafka Connect worker with Debezium. It keeps connectors and positions in Kafka: a killed worker resumes."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

from stream_assets.errors import SettingsError
from stream_assets.services.addresses import connect_url, kafka, ports, postgres_password_file
from stream_assets.services.broker import java_command
from stream_assets.settings import Settings


def prepare_connect(settings: Settings, folder: Path) -> None:
    """Write the configuration."""
    text = "".join(f"{name}={value}\n" for name, value in connect_config(settings, folder).items())
    config = folder / "worker.properties"
    config.touch(mode=0o600)
    config.write_text(text)


def connect_command(settings: Settings, folder: Path) -> list[str]:
    """Runs the worker."""
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    return java_command(settings, "debezium", main, folder / "worker.properties")


def password_reference(settings: Settings) -> str:
    """What the worker makes the source's password from: Connect stores configurations, and shows them to who asks."""
    if settings.live.connect_password:
        return settings.live.connect_password
    if settings.live.postgres_dsn or settings.live.connect_url:
        raise SettingsError(
            "STREAM_CONNECT_PASSWORD is unset: say what the Connect worker makes the password of Postgres from, such as "
            "${file:/run/secrets/postgres.properties:password} or ${env:STREAM_SOURCE_PASSWORD}"
        )
    return f"${{secrets:{postgres_password_file(settings).parent}:{postgres_password_file(settings).name}}}"


def connect_answers(settings: Settings) -> bool:
    """Whether the worker has joined its group and takes orders."""
    try:
        with urllib.request.urlopen(f"{connect_url(settings)}/connectors", timeout=3) as answer:  # noqa: S310 settings allow only http
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


def connect_config(settings: Settings, folder: Path) -> dict[str, object]:
    """Plain JSON without schemas; loopback only; exactly-once on the source side is Bronze's business."""
    plugins = folder / "plugins"
    plugins.mkdir(exist_ok=True)
    storage = {
        f"{kind}.storage.{name}": value
        for kind in ("offset", "config", "status")
        for name, value in (("topic", f"stream-connect-{kind}"), ("replication.factor", settings.live.replication))
    }
    converter = "org.apache.kafka.connect.json.JsonConverter"
    return {
        **kafka(settings).for_java(),
        **{f"{side}.{name}": value for side in ("producer", "consumer") for name, value in _security(settings).items()},
        "group.id": "stream-connect",
        "listeners": f"http://127.0.0.1:{ports(settings).connect}",
        "rest.advertised.host.name": "127.0.0.1",
        "key.converter": converter,
        "key.converter.schemas.enable": "false",
        "value.converter": converter,
        "value.converter.schemas.enable": "false",
        "offset.storage.partitions": 4,
        "status.storage.partitions": 2,
        **storage,
        # What was read since is read again after a death, and a snapshot whose end was not noted is taken anew.
        "offset.flush.interval.ms": 1_000,
        **_providers(settings),
        "scheduled.rebalance.max.delay.ms": 0,
        "plugin.discovery": "hybrid_warn",
        "plugin.path": plugins,
    }


def _providers(settings: Settings) -> dict[str, object]:
    """Where a connector may get secrets from: our own, and STREAM_SOURCE_… of the worker's environment."""
    package, secrets = "org.apache.kafka.common.config.provider", postgres_password_file(settings).parent
    return {
        "config.providers": "secrets,env",
        "config.providers.secrets.class": f"{package}.DirectoryConfigProvider",
        "config.providers.secrets.param.allowed.paths": secrets,
        "config.providers.env.class": f"{package}.EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "STREAM_SOURCE_.*",
    }


def _security(settings: Settings) -> dict[str, str]:
    return {name: value for name, value in kafka(settings).for_java().items() if name != "bootstrap.servers"}
