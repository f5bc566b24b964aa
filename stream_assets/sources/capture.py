"""Follows tables of a Postgres: brings connector, slot and topic into being, says how they stand, takes them down again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

from stream_assets.contracts.model import Contract, Server
from stream_assets.errors import ServiceError
from stream_assets.services.addresses import connect_url, kafka, postgres_dsn
from stream_assets.services.connect import password_reference
from stream_assets.settings import Settings
from stream_assets.sources import connect, postgres
from stream_assets.sources.changes import TRUNCATE
from stream_assets.sources.connect import ConnectorState
from stream_assets.sources.debezium import Capture, capture_of, connector_config
from stream_assets.sources.postgres import Slot
from stream_assets.sources.publish import publish
from stream_assets.sources.topics import Topic, ensure_topic, topic_name, topic_of

MAX_RETAINED_BYTES = 512 << 20
"""Log a slot may hold back before somebody is told. The database's own max_slot_wal_keep_size should be well above."""
WAIT_S = 60


@dataclass(frozen=True)
class CaptureState:
    """How the capture of a table stands, and what to do about it."""

    capture: Capture
    connector: ConnectorState
    slot: Slot | None

    @property
    def problem(self) -> tuple[str, str] | None:
        """What is wrong and what mends it; None if changes flow."""
        again, name = f"stream cdc resnapshot {self.capture.dataset}", self.capture.dataset
        if self.connector.state == "ABSENT":
            held = f" and its slot keeps {megabytes(self.slot)} of log" if self.slot else ""
            return f"the connector is not registered{held}", f"stream cdc up {name}"
        if not self.capture.reads_log:
            return self._connector_problem
        if self.slot is None:
            # Debezium makes the slot before it reads: without one there is nothing to go on from.
            return "the replication slot is gone: changes since then are lost to the log", again
        if self.slot.is_lost:
            return "the database has thrown away log that the slot still needed", again
        if self.slot.retained_bytes > MAX_RETAINED_BYTES and self.connector.state != "FAILED":
            return f"the slot keeps {megabytes(self.slot)} of log on the source's disk", f"stream cdc up {name}"
        if self._connector_problem is None and not self.slot.is_active:
            return "nobody reads the slot", f"stream cdc up {name}"
        return self._connector_problem

    @property
    def _connector_problem(self) -> tuple[str, str] | None:
        name, state = self.capture.dataset, self.connector.state
        if state == "FAILED":
            return f"the connector failed: {self.connector.reason}", f"stream cdc up {name}"
        return None if self.connector.is_running else (f"the connector is {state.lower()}", f"stream cdc resume {name}")


def megabytes(slot: Slot) -> str:
    """Log that a slot holds back, for people."""
    return f"{slot.retained_bytes / 1e6:,.1f} MB"


def captured(contracts: Iterable[Contract]) -> dict[str, tuple[Contract, Server]]:
    """The datasets whose changes come from a Postgres log, by name."""
    return {
        contract.name: (contract, server)
        for contract in contracts
        for server in contract.live_servers
        if server.kind == "postgres" and server.options.get("pattern", "log") == "log"
    }


def capture(contract: Contract, server: Server) -> Capture:
    """How a dataset is captured."""
    return capture_of(contract, server, topic_name(contract, server))


def start(settings: Settings, contract: Contract, server: Server, *, fix: bool = False) -> CaptureState:
    """Follow a table, and wait until its connector reads the log."""
    return _wait(settings, begin(settings, contract, server, fix=fix))


def begin(settings: Settings, contract: Contract, server: Server, *, fix: bool = False) -> Capture:
    """Verify a table, make its topics and register its connector.

    The topics are made first and by us: many a broker makes none by itself, or with defaults that suit nobody.
    """
    wanted = capture(contract, server)
    with postgres.connection(postgres_dsn(settings)) as database:
        if fix and wanted.needs_full_rows:
            postgres.set_full_rows(database, wanted)
        postgres.verify_table(database, wanted)
    _make_topics(settings, wanted, topic_of(settings, contract, server))
    url, config = connect_url(settings), connector_config(wanted, postgres_dsn(settings), password_reference(settings))
    connect.register(url, wanted.connector, config)
    connect.restart(url, wanted.connector)
    return wanted


def _make_topics(settings: Settings, wanted: Capture, changes: Topic) -> None:
    brief = {"message.timestamp.type": "LogAppendTime", "retention.ms": "3600000"}
    for topic in (changes, Topic(wanted.heartbeats, 1, settings.live.replication, brief)):
        ensure_topic(kafka(settings), topic)


def _wait(settings: Settings, wanted: Capture) -> CaptureState:
    """Wait until changes flow, or the connector gives up."""
    deadline = time.monotonic() + WAIT_S
    while True:
        state = look(settings, wanted)
        if state.problem is None or state.connector.state == "FAILED" or time.monotonic() > deadline:
            return state
        time.sleep(0.5)


def look(settings: Settings, wanted: Capture, patience_s: float | None = None) -> CaptureState:
    """How a capture stands."""
    slot = find_slot(settings, wanted)
    return CaptureState(wanted, connect.connector_state(connect_url(settings), wanted.connector, patience_s), slot)


def find_slot(settings: Settings, wanted: Capture) -> Slot | None:
    """The slot of a capture, if there is one. Kafka Connect need not answer for it."""
    with postgres.connection(postgres_dsn(settings)) as database:
        return postgres.slot_of(database, wanted)


def stop(settings: Settings, wanted: Capture, *, drop: bool) -> None:
    """Remove the connector. With `drop` also forget how far it had read, and its slot: the next start takes a snapshot."""
    url = connect_url(settings)
    if drop and connect.is_registered(url, wanted.connector):
        connect.command(url, wanted.connector, "stop")
        _until_stopped(url, wanted)
        connect.forget_offsets(url, wanted.connector)
    connect.remove(url, wanted.connector)
    if drop:
        with postgres.connection(postgres_dsn(settings)) as database:
            postgres.drop_capture(database, wanted)


def _until_stopped(url: str, wanted: Capture) -> None:
    deadline = time.monotonic() + WAIT_S
    while connect.connector_state(url, wanted.connector).state != "STOPPED":
        if time.monotonic() > deadline:
            raise ServiceError(f"{wanted.connector} does not stop. Look into the log of Kafka Connect.")
        time.sleep(0.2)


def resnapshot(settings: Settings, contract: Contract, server: Server) -> CaptureState:
    """Begin anew after changes were lost: every row is read again, and rows that vanished meanwhile end now.

    What happened meanwhile is unknown, and a table that is empty by now would say nothing. So the log is told first that
    everything ended, as a truncation would, and the snapshot then brings back what still exists. A capture that takes no
    snapshot goes on from now, with the rows known so far.
    """
    wanted = capture(contract, server)
    stop(settings, wanted, drop=True)
    if wanted.reads_rows:
        with postgres.connection(postgres_dsn(settings)) as database:
            position = postgres.log_position(database)
        _publish_end(settings, wanted, position)
    return start(settings, contract, server)


def _publish_end(settings: Settings, wanted: Capture, position: int) -> None:
    now = time.time_ns() // 1000
    source = {"lsn": position, "ts_us": now, "ts_ms": now // 1000, "snapshot": "false", "connector": "stream"}
    event = {"before": None, "after": None, "op": TRUNCATE, "ts_ms": now // 1000, "source": source}
    # Compaction keeps the last message of a key: every such mark has one of its own.
    key = json.dumps({"truncate": position})
    publish(kafka(settings), [(wanted.topic, key, json.dumps(event).encode())])
