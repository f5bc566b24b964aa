"""Debezium connectors from contracts: what to capture, how exactly, and under which names.

Pure: contract and addresses in, configuration out. `connect.py` hands it to Kafka Connect, `postgres.py` looks at the
database, `changes.py` reads what comes of it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from psycopg.conninfo import conninfo_to_dict

from stream_assets.contracts.model import Contract, Server
from stream_assets.sources.changes import UNAVAILABLE

SNAPSHOTS = {"initial": "initial", "initial_only": "initial_only", "never": "no_data", "schema_only": "no_data"}
"""Snapshot modes of a contract → those of Debezium 3, which calls both ways of taking no rows the same."""
HEARTBEAT_S = 10
HEARTBEAT = "stream-heartbeat"
MAX_NAME = 63


@dataclass(frozen=True)
class Capture:
    """How one table is captured: its names in the database, in Kafka Connect and in Kafka."""

    dataset: str
    schema: str
    table: str
    topic: str
    snapshot: str
    needs_full_rows: bool
    """Whether the log must hold the whole row before each change (REPLICA IDENTITY FULL)."""

    @property
    def reads_rows(self) -> bool:
        """Whether it begins with the rows that are there."""
        return SNAPSHOTS[self.snapshot] != "no_data"

    @property
    def reads_log(self) -> bool:
        """Whether it goes on with the log: only then is there a slot."""
        return self.snapshot != "initial_only"

    @property
    def connector(self) -> str:
        """Name of the connector."""
        return f"stream-{self.dataset}"

    @property
    def heartbeats(self) -> str:
        """Topic of the connector's signs of life, which nobody reads."""
        return f"__debezium-heartbeat.{self.connector}"

    @property
    def slot(self) -> str:
        """Name of the replication slot, and of the publication it reads."""
        name = f"stream_{self.dataset}"
        return name if len(name) <= MAX_NAME else f"{name[:54]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def capture_of(contract: Contract, server: Server, topic: str) -> Capture:
    """What a contract's Postgres server asks for."""
    return Capture(
        dataset=contract.name,
        schema=server.schema or "public",
        table=str(server.options.get("table", contract.name)),
        topic=topic,
        snapshot=str(server.options.get("snapshot", "initial")),
        needs_full_rows=server.options.get("replicaIdentity", "full") == "full",
    )


def connector_config(capture: Capture, dsn: str, password: str) -> dict[str, str]:
    """The configuration of a capture's connector.

    `password` is what the worker makes the password from, such as `${secrets:…}`: Connect stores and shows configurations.
    Values come as text wherever a number would lose something: decimals in full, moments in ISO 8601 to the microsecond.
    """
    place = conninfo_to_dict(dsn)
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": str(place.get("host", "127.0.0.1")),
        "database.port": str(place.get("port", 5432)),
        "database.user": str(place.get("user", "postgres")),
        "database.password": password,
        "database.dbname": str(place.get("dbname", "postgres")),
        **({"database.sslmode": str(place["sslmode"])} if "sslmode" in place else {}),
        "plugin.name": "pgoutput",
        "slot.name": capture.slot,
        "publication.name": capture.slot,
        "publication.autocreate.mode": "filtered",
        "table.include.list": re.escape(f"{capture.schema}.{capture.table}"),
        "snapshot.mode": SNAPSHOTS[capture.snapshot],
        "topic.prefix": capture.connector,
        "tombstones.on.delete": "true",
        "skipped.operations": "none",
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "interval.handling.mode": "string",
        "binary.handling.mode": "base64",
        "unavailable.value.placeholder": UNAVAILABLE,
        "retriable.restart.connector.wait.ms": "2000",
        "errors.max.retries": "-1",
        **_conversion(),
        **_routing(capture),
        **_heartbeat(),
    }


def _conversion() -> dict[str, str]:
    """Plain JSON, whatever the worker's own default is."""
    converter = "org.apache.kafka.connect.json.JsonConverter"
    return {
        f"{side}.converter{suffix}": value
        for side in ("key", "value")
        for suffix, value in (("", converter), (".schemas.enable", "false"))
    }


def _routing(capture: Capture) -> dict[str, str]:
    """Debezium names topics after tables; ours is named after the dataset."""
    return {
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": re.escape(f"{capture.connector}.{capture.schema}.{capture.table}"),
        "transforms.route.replacement": capture.topic,
    }


def _heartbeat() -> dict[str, str]:
    """Move the slot on while the table is idle and the rest of the database is not: else its log is kept, and fills the disk.

    The message is written into the log itself, so no table is needed. It is left out of Kafka again. It is a transaction: a
    connector that starts again looks for the first commit it has not read, and would wait for one of the idle table.
    """
    return {
        "heartbeat.interval.ms": str(HEARTBEAT_S * 1000),
        "heartbeat.action.query": f"select pg_logical_emit_message(true, '{HEARTBEAT}', now()::text)",
        "message.prefix.exclude.list": HEARTBEAT,
    }
