"""Our own schema registry: Apicurio, which speaks Confluent's interface, with its schemas in a file beside it."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

from stream_assets.services.addresses import ports, schema_registry
from stream_assets.services.broker import java_command
from stream_assets.settings import Settings


def prepare_registry(settings: Settings, folder: Path) -> None:
    """Write the configuration where it looks for it: in `config` of the folder it is started in."""
    config = folder / "config" / "application.properties"
    config.parent.mkdir(exist_ok=True)
    config.write_text("".join(f"{name}={value}\n" for name, value in registry_config(settings, folder).items()))


def registry_command(settings: Settings, _: Path) -> list[str]:
    """Runs the registry."""
    return java_command(settings, "registry", "io.quarkus.runner.GeneratedMain")


def registry_answers(settings: Settings) -> bool:
    """Whether the registry serves its interface."""
    try:
        with urllib.request.urlopen(f"{schema_registry(settings).url}/schemas/types", timeout=3) as answer:  # noqa: S310 loopback
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


def registry_config(settings: Settings, folder: Path) -> dict[str, object]:
    """Loopback only. Ids must outlive a restart and a kill: messages carry them for as long as they are kept."""
    # By default H2 writes half a second after a commit: what was registered just before a kill, or a slow stop, was lost.
    database = f"jdbc:h2:file:{folder / 'data' / 'registry'};WRITE_DELAY=0"
    return {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": ports(settings).registry,
        "quarkus.log.level": "WARN",
        "quarkus.http.access-log.enabled": "false",
        "apicurio.storage.kind": "sql",
        "apicurio.storage.sql.kind": "h2",
        "apicurio.datasource.url": database,
    }
