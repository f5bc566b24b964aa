"""Our own servers, up and down: each is prepared, started, waited for and stopped the same way. Loopback only."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from stream_assets.errors import ServiceError
from stream_assets.services import process
from stream_assets.services.addresses import Ports, ports, services_folder
from stream_assets.services.broker import broker_answers, broker_command, prepare_broker
from stream_assets.services.connect import connect_answers, connect_command, prepare_connect
from stream_assets.services.postgres import postgres_answers, postgres_command, prepare_postgres, system_user
from stream_assets.services.registry import prepare_registry, registry_answers, registry_command
from stream_assets.settings import Settings

START_TIMEOUT_S = 120
Report = Callable[[str, str], None]
"""Called as work goes on: service, what happens to it."""


@dataclass(frozen=True)
class Service:
    """One server: how it is made ready, run, found healthy and ended."""

    name: str
    prepare: Callable[[Settings, Path], None]
    command: Callable[[Settings, Path], list[str]]
    answers: Callable[[Settings], bool]
    replaced_by: Callable[[Settings], str | None]
    """The real server that settings name instead, if they do."""
    port: Callable[[Ports], int]
    end_by: signal.Signals = signal.SIGTERM
    user: Callable[[], str | None] = lambda: None
    is_extra: bool = False
    """Not everybody needs it: it belongs to the servers of a home once it was asked for by name."""


@dataclass(frozen=True)
class ServiceState:
    """How a server stands."""

    name: str
    state: str
    """running, starting (or stuck), stopped, or elsewhere (a setting names a real one)."""
    port: int | None = None
    pid: int | None = None
    log: Path | None = None


SERVICES = (
    Service(
        "kafka",
        prepare_broker,
        broker_command,
        broker_answers,
        lambda settings: "STREAM_KAFKA_BOOTSTRAP" if settings.live.kafka_bootstrap else None,
        lambda at: at.kafka,
    ),
    Service(
        "postgres",
        prepare_postgres,
        postgres_command,
        postgres_answers,
        lambda settings: "STREAM_POSTGRES_DSN" if settings.live.postgres_dsn else None,
        lambda at: at.postgres,
        # Fast shutdown: open sessions are rolled back rather than waited for.
        end_by=signal.SIGINT,
        user=system_user,
    ),
    Service(
        "connect",
        prepare_connect,
        connect_command,
        connect_answers,
        lambda settings: "STREAM_CONNECT_URL" if settings.live.connect_url else None,
        lambda at: at.connect,
    ),
    Service(
        "registry",
        prepare_registry,
        registry_command,
        registry_answers,
        lambda settings: "STREAM_SCHEMA_REGISTRY" if settings.live.registry_url else None,
        lambda at: at.registry,
        is_extra=True,
    ),
)
"""In the order they are started: Connect needs Kafka."""


def up(settings: Settings, names: Iterable[str] = (), *, report: Report = lambda *_: None) -> list[ServiceState]:
    """Start these servers (all, if none is named) unless they run, and wait until each answers."""
    for service in _chosen(settings, names):
        if other := service.replaced_by(settings):
            report(service.name, f"not started: {other} is set")
            continue
        folder = _folder(settings, service)
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "start.lock"):
            _bring_up(settings, service, folder, report)
    return status(settings, names)


def down(settings: Settings, names: Iterable[str] = (), *, report: Report = lambda *_: None) -> None:
    """Stop these servers (all, if none is named), the last started first."""
    for service in reversed(_chosen(settings, names)):
        was_up = process.end(_folder(settings, service), by=service.end_by, timeout_s=30)
        report(service.name, "stopped" if was_up else "was not running")


def status(settings: Settings, names: Iterable[str] = ()) -> list[ServiceState]:
    """How these servers stand. Asks each for a sign of life."""
    return [_state(settings, service) for service in _chosen(settings, names)]


def _chosen(settings: Settings, names: Iterable[str]) -> list[Service]:
    wanted = list(names)
    if strange := set(wanted) - {service.name for service in SERVICES}:
        known = ", ".join(service.name for service in SERVICES)
        raise ServiceError(f"There is no service called {min(strange)}: there are {known}.")
    usual = [s for s in SERVICES if not s.is_extra or _folder(settings, s).exists()]
    return [service for service in SERVICES if service.name in wanted] or usual


def _bring_up(settings: Settings, service: Service, folder: Path, report: Report) -> None:
    started = time.monotonic()
    if process.find(folder) is None:
        report(service.name, "starting")
        service.prepare(settings, folder)
        process.launch(folder, service.command(settings, folder), env={"TZ": "UTC"}, user=service.user())
    while not service.answers(settings):
        if process.find(folder) is None:
            raise ServiceError(
                f"{service.name} ended while starting. The end of {process.log_file(folder)}:\n{process.log_tail(folder)}"
            )
        if time.monotonic() - started > START_TIMEOUT_S:
            raise ServiceError(f"{service.name} does not answer. Look into {process.log_file(folder)}.")
        time.sleep(0.2)
    at = service.port(ports(settings))
    report(service.name, f"running on 127.0.0.1:{at} after {time.monotonic() - started:.1f} s")


def _state(settings: Settings, service: Service) -> ServiceState:
    if other := service.replaced_by(settings):
        return ServiceState(service.name, f"elsewhere: {other} is set")
    folder = _folder(settings, service)
    found = process.find(folder) if folder.exists() else None
    if found is None:
        return ServiceState(service.name, "stopped")
    state = "running" if service.answers(settings) else "not answering"
    return ServiceState(service.name, state, service.port(ports(settings)), found.pid, process.log_file(folder))


def _folder(settings: Settings, service: Service) -> Path:
    return services_folder(settings) / service.name
