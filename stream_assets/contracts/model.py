"""What a contract says, as frozen values. No parsing here (see `load.py`) and no Spark: types are SQL names."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import date, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

DatasetKind = Literal["event", "entity", "reference"]
PiiStrategy = Literal["hash", "tokenize", "mask", "drop", "keep"]
DriftReaction = Literal["evolve", "freeze", "discard_column", "quarantine_row"]
FileFormat = Literal["jsonl", "csv", "parquet", "debezium"]
ServerKind = Literal["local", "kafka", "postgres"]
CHANGES = "debezium"
"""Format of records that are changes of a row, taken from a database's log."""
AVRO, PROTOBUF = "avro", "protobuf"
REGISTERED = (AVRO, PROTOBUF)
"""Formats of messages that are written by a schema of a registry."""
Severity = Literal["error", "warning"]
Strictness = Literal["gate", "warn", "sample"]

RESERVED_COLUMNS = (
    "_raw",
    "_source",
    "_position",
    "_delivery_date",
    "_event_date",
    "_ingested_at",
    "_run_id",
    "_contract_version",
    "_violations",
    "_quarantined_at",
    "_resolved_at",
    "_resolution",
    "_raw_bytes",
    "_header",
    "_key",
    "_message_key",
    "_message_headers",
    "_decoding",
)

HISTORY_COLUMNS = ("valid_from", "valid_to", "is_current")
"""Columns that Silver adds to an entity."""


@dataclass(frozen=True)
class Column:
    """One field of a record: where it comes from, its type, and what it promises."""

    name: str
    type: str
    """Spark SQL type name: string, bigint, double, decimal(p,s), boolean, date, timestamp."""
    source: str
    """Name of the field in the record as delivered."""
    description: str = ""
    required: bool = False
    pii: PiiStrategy | None = None
    timestamp_format: str | None = None
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    """ODCS logicalTypeOptions: minimum, maximum, minLength, maxLength, pattern, format."""
    allowed: tuple[str, ...] = ()
    references: tuple[str, str] | None = None
    """(dataset, column) this column points at."""
    profile: bool | None = None
    """Whether its distribution is watched; None leaves it to the column's type."""
    unique: bool = False
    """Whether readers are told that no value occurs twice. Records are only deduplicated by key."""

    @property
    def is_kept(self) -> bool:
        """Whether the column reaches Silver at all."""
        return self.pii != "drop"

    @property
    def silver_type(self) -> str:
        """Type after PII handling: a hashed number is text."""
        return "string" if self.pii in ("hash", "tokenize", "mask") else self.type


SHAPING = ("name", "type", "source", "required", "pii", "timestamp_format", "options", "allowed")
"""What a column says that decides about rows."""


@dataclass(frozen=True)
class Expression:
    """A promise between fields of one record, as a checked SQL boolean expression."""

    id: str
    sql: str
    severity: Severity
    dimension: str
    description: str = ""


@dataclass(frozen=True)
class CheckSetting:
    """How strictly a check or a rule is applied, where a contract departs from the default."""

    check: str
    """Name of a check or of a row rule; * stands for any text."""
    strictness: Strictness | None = None
    limit: float | None = None
    """What the check tolerates: a share of records, or a factor for volume."""
    fraction: float | None = None
    """The share of records a sampled rule looks at."""


@dataclass(frozen=True)
class Bounds:
    """What a contract promises about the records of one day."""

    id: str
    minimum: float | None
    maximum: float | None


@dataclass(frozen=True)
class Server:
    """One place where a dataset can be read. Addresses and passwords are settings: they differ from place to place."""

    name: str
    kind: ServerKind
    format: str = "json"
    """Of a record as delivered: a `FileFormat`, json, avro or protobuf for messages, debezium for changes."""
    path: str = ""
    """Files: folder inside the landing zone."""
    database: str = ""
    schema: str = ""
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    """Its custom properties: topic, peakThroughput, delivery, …"""


@dataclass(frozen=True)
class Contract:
    """One dataset: its shape, its promises and how it is delivered."""

    name: str
    version: str
    domain: str
    purpose: str
    grain: str
    team: str
    owner: str
    kind: DatasetKind
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    event_time: str | None
    order_by: str | None
    envelope: bool
    max_lateness: int
    """Days after its event day on which a record may still arrive."""
    tier: int
    freshness: timedelta
    cadence: timedelta
    retention: timedelta
    history_start: date
    servers: tuple[Server, ...]
    """Where it can be read; the first unless settings name another."""
    expressions: tuple[Expression, ...]
    drift: DriftReaction
    null_values: tuple[str, ...]
    """Texts that stand for a missing value in the source, such as NA."""
    min_keep: float
    """Reference data: smallest accepted size of a new delivery, as a fraction of the last one."""
    file: Path
    fingerprint: str
    """Hash of everything the contract says: two equal fingerprints compile to the same pipeline."""
    row_counts: tuple[Bounds, ...] = ()
    """How many records a day may have."""
    check_settings: tuple[CheckSetting, ...] = ()

    @cached_property
    def shape(self) -> str:
        """Hash of what decides which rows Silver and quarantine hold: two equal shapes make the same rows.

        What a check tolerates, how strict it is, who owns the data and how fresh it must be change no row: days are judged
        anew by them, and not made anew.
        """
        columns = [tuple(getattr(column, name) for name in SHAPING) for column in self.record]
        promises = [(rule.id, rule.sql, rule.severity, rule.dimension) for rule in self.expressions]
        # A later setting may overrule an earlier one: with any sampled rule, all of them count.
        is_sampled = any(setting.fraction for setting in self.check_settings)
        sampled = [(s.check, s.fraction) for s in self.check_settings] if is_sampled else []
        roles = [self.name, self.kind, self.key, self.event_time, self.order_by, self.max_lateness]
        parts = [*roles, columns, promises, sampled, self.null_values, sorted(self.formats), self.envelope]
        told = json.dumps([*parts, self.drift == "quarantine_row"], sort_keys=True, default=str)
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    @cached_property
    def record(self) -> tuple[Column, ...]:
        """Every column a record carries, the envelope's first."""
        return (ENVELOPE if self.envelope else ()) + self.columns

    @cached_property
    def silver(self) -> tuple[Column, ...]:
        """The columns that reach Silver."""
        return tuple(column for column in self.record if column.is_kept)

    def server(self, name: str) -> Server:
        """The server of that name; the first one if the contract has none of that name."""
        return next((server for server in self.servers if server.name == name), self.servers[0])

    @cached_property
    def formats(self) -> frozenset[str]:
        """Every format its records may have. Bronze may hold several: it outlives a change of server."""
        return frozenset(server.format for server in self.servers)

    @property
    def files(self) -> Server | None:
        """The server whose deliveries are files, if there is one."""
        return next((server for server in self.servers if server.kind == "local"), None)

    @property
    def landing_path(self) -> str:
        """Folder of its files inside the landing zone; empty if it is not delivered as files."""
        return self.files.path if self.files else ""

    @property
    def format(self) -> str:
        """Format of its files, or of its first server's records."""
        return (self.files or self.servers[0]).format

    @property
    def live_servers(self) -> tuple[Server, ...]:
        """The servers whose records arrive by themselves."""
        return tuple(server for server in self.servers if server.kind != "local")

    @property
    def is_change_log(self) -> bool:
        """Whether records may be changes from a database's log, ordered by their place in it."""
        return CHANGES in self.formats

    @property
    def freshness_limit(self) -> timedelta:
        """How old the newest event may be. A target of days allows for the day itself, which is delivered when it is over."""
        day = timedelta(days=1)
        return self.freshness + (day if self.freshness >= day else timedelta())

    def setting(self, check: str) -> CheckSetting:
        """How strictly a check is applied; the last of the contract's settings that names it wins."""
        found = [s for s in self.check_settings if fnmatchcase(check, s.check)]
        return found[-1] if found else CheckSetting(check)

    def limit(self, check: str, default: float) -> float:
        """What a check tolerates."""
        given = self.setting(check).limit
        return default if given is None else given

    def column(self, name: str) -> Column:
        """The column of that name."""
        return next(column for column in self.record if column.name == name)


ENVELOPE = (
    Column("event_id", "string", "event_id", "Identifier of the event.", required=True, options={"format": "uuid"}),
    Column(
        "event_type", "string", "event_type", "What happened.", required=True, allowed=("created", "updated", "deleted")
    ),
    Column("event_timestamp", "timestamp", "timestamp", "When the event was published.", required=True),
    Column("event_version", "bigint", "version", "Version of the envelope.", required=True, options={"minimum": 1}),
    Column("event_source", "string", "source", "System that published the event.", required=True),
    Column("correlation_id", "string", "correlation_id", "Ties together the events of one business action."),
)
"""The one envelope of every event contract; its `data` field holds the contract's own columns."""
