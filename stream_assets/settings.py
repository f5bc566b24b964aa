"""The one place that reads the environment. Every other room gets a frozen `Settings`.

Each field is one environment variable; the table in docs/settings.md is generated from `FIELDS`. Reading settings touches
no file and opens no connection.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stream_assets.errors import SettingsError

PROJECT = Path(__file__).resolve().parent.parent

FIELDS = {
    "STREAM_HOME": ("`.stream`", "All state: landing, lake, spark, checkpoints, reports, dagster."),
    "STREAM_CONTRACTS": ("the sample's", "Folder of `*.odcs.yaml` contracts."),
    "STREAM_LANDING": ("`$STREAM_HOME/landing`", "Landing zone, `<dataset>/<YYYY-MM-DD>/files`."),
    "STREAM_LAKE": ("`$STREAM_HOME/lake`", "The lake: a folder or an object-store URI."),
    "STREAM_SERVER": ("`landing`", "Which of a contract's servers is read; one without it is read from its first."),
    "STREAM_VIEWS": ("`views` in `$STREAM_CONTRACTS`", "Folder of `*.yaml` live views."),
    "STREAM_CHECKPOINTS": (
        "`$STREAM_HOME/checkpoints`",
        "Progress and state of streams: a folder or an object-store URI.",
    ),
    "STREAM_TRIGGER_SECONDS": ("`1`", "How often a stream looks for new records."),
    "STREAM_MAX_FILES_PER_TRIGGER": (
        "`100`",
        "How many files a stream takes in at once: the limit that keeps a backlog from flooding it.",
    ),
    "STREAM_DEDUP_DAYS": ("`7`", "How long a stream remembers an event, to know its repeats."),
    "STREAM_REFRESH_SECONDS": (
        "`300`",
        "How often streams ask for Silver and Gold of the days they touched (by the `late_data` sensor).",
    ),
    "STREAM_REPORT_SECONDS": ("`30`", "How often streams report to Dagster."),
    "STREAM_DBT_PROJECT": ("`dbt_project`", "The dbt project that makes Gold."),
    "SPARK_REMOTE": ("unset", "Unset: a Spark server of our own, on loopback. Set (`sc://…`): that cluster."),
    "STREAM_SPARK_MEMORY": ("`3g`", "Heap of our own Spark server."),
    "STREAM_SPARK_CORES": ("all", "Cores of our own Spark server."),
    "STREAM_SPARK_IDLE_MINUTES": ("`30`", "Our own Spark server stops after so long without work; 0 keeps it."),
    "STREAM_STANDBY": (
        "`on`",
        "`off`: no process stays loaded beside our own Spark server, and every command takes seconds to start.",
    ),
    "STREAM_JARS": ("`~/.cache/stream/jars`", "Where JVM libraries are kept once downloaded."),
    "STREAM_PII_SALT": ("made once, in `$STREAM_HOME/secrets`", "Secret mixed into hashed personal data."),
    "STREAM_SCHEDULES": ("`off`", "`on` starts every schedule and the late-data sensor with the daemon."),
    "STREAM_ENVIRONMENT": (
        "`development`",
        "`development`, `staging` or `production`: topics have 1, 2 or 3 replicas.",
    ),
    "STREAM_SERVICES_PORT": (
        "free ones, kept",
        "First of the five ports of our own Kafka, Postgres, Kafka Connect and schema registry.",
    ),
    "STREAM_KAFKA_BOOTSTRAP": ("our own broker", "Kafka cluster, `host:port,host:port`."),
    "STREAM_KAFKA_PROTOCOL": ("`PLAINTEXT`", "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`."),
    "STREAM_KAFKA_MECHANISM": ("unset", "`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`."),
    "STREAM_KAFKA_USER": ("unset", "User name for SASL."),
    "STREAM_KAFKA_PASSWORD": ("unset", "Password for SASL. A secret."),
    "STREAM_KAFKA_CA_FILE": ("the system's", "Certificates (PEM) that the cluster's must be signed by."),
    "STREAM_KAFKA_MAX_RECORDS": ("`500000`", "Records of a topic taken over in one commit; more take several."),
    "STREAM_SCHEMA_REGISTRY": (
        "our own",
        "Schema registry of topics in Avro or Protobuf, `http://…`, with Confluent's interface.",
    ),
    "STREAM_SCHEMA_REGISTRY_USER": ("unset", "User name for the schema registry."),
    "STREAM_SCHEMA_REGISTRY_PASSWORD": ("unset", "Password for the schema registry. A secret."),
    "STREAM_SCHEMA_REGISTRY_CA_FILE": ("the system's", "Certificates (PEM) that the registry's must be signed by."),
    "STREAM_POSTGRES_DSN": ("our own server", "Postgres whose changes are followed, `postgresql://…`. A secret."),
    "STREAM_CONNECT_URL": ("our own worker", "Kafka Connect with Debezium, `http://…`."),
    "STREAM_CONNECT_PASSWORD": (
        "our own server's",
        "What the Connect worker makes the password of Postgres from, such as `${file:…}`.",
    ),
    "STREAM_ROLLBACK_DAYS": (
        "`30`",
        "History younger than this is never vacuumed: how far back a table can be restored.",
    ),
    "STREAM_REPORT_DAYS": ("`90`", "Reports and logs of runs are kept this long."),
    "STREAM_PRICE_GB_MONTH": ("`0.023`", "What storing a GB for a month costs, for `stream cost`."),
    "STREAM_PRICE_CORE_HOUR": ("`0.05`", "What a core of the engine costs per hour, for `stream cost`."),
    "STREAM_COST_BUDGET": ("unset", "Most that a month may cost; more is an alert."),
    "STREAM_ALERT_SLACK_URL": ("unset", "Slack incoming webhook that gets alerts. A secret."),
    "STREAM_ALERT_WEBHOOK_URL": ("unset", "Any other address that gets alerts as JSON. A secret."),
    "STREAM_ALERT_WEBHOOK_SECRET": ("unset", "Key that signs what the webhook gets (HMAC-SHA256). A secret."),
    "STREAM_ALERT_SMTP_URL": ("unset", "Mail server, `smtp://user:password@host:587` or `smtps://…:465`. A secret."),
    "STREAM_ALERT_SMTP_CA": ("the system's", "File of certificates by which the mail server is trusted, in PEM."),
    "STREAM_ALERT_EMAIL_FROM": ("unset", "Sender of alerts by mail."),
    "STREAM_ALERT_EMAIL_TO": ("unset", "Receivers, separated by commas; `owner` stands for the dataset's owner."),
    "STREAM_ALERT_FILE": ("`$STREAM_HOME/alerts/alerts.jsonl`", "File that gets every alert, one JSON line each."),
    "STREAM_ALERT_ROUTES": (
        "everything to all",
        "Who gets what: `warning=slack, error=slack+email, team:finance=email`.",
    ),
    "STREAM_ALERT_QUIET_HOURS": ("none", "Warnings wait until these are over: `22:00-07:00 Europe/Paris` (else UTC)."),
    "STREAM_ALERT_REMIND_HOURS": ("`24`", "An open incident is told again after so long; 0 never."),
}

SECRETS = {
    "STREAM_PII_SALT",
    "STREAM_ALERT_SLACK_URL",
    "STREAM_ALERT_WEBHOOK_URL",
    "STREAM_ALERT_WEBHOOK_SECRET",
    "STREAM_ALERT_SMTP_URL",
    "STREAM_KAFKA_PASSWORD",
    "STREAM_SCHEMA_REGISTRY_PASSWORD",
    "STREAM_POSTGRES_DSN",
}
"""Variables whose values are never shown, stored or passed on."""

SEVERITIES = ("warning", "error", "critical")
"""How bad an incident is, the worst last."""

CHANNELS = ("file", "slack", "webhook", "email")
"""Where alerts can go. The file is always there."""


@dataclass(frozen=True)
class QuietHours:
    """A part of every day, which may run over midnight."""

    start: time
    end: time
    zone: ZoneInfo

    def __str__(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M} {self.zone.key}"


@dataclass(frozen=True)
class AlertSettings:
    """Who is told about incidents, by which way and when. Addresses that open a door are left out of its text."""

    slack_url: str | None = field(repr=False)
    webhook_url: str | None = field(repr=False)
    webhook_secret: str | None = field(repr=False)
    smtp_url: str | None = field(repr=False)
    smtp_ca: Path | None
    """Certificates by which the mail server is trusted; None for the system's."""
    email_from: str | None
    email_to: tuple[str, ...]
    file: Path
    routes: Mapping[str, tuple[str, ...]]
    """Channels by severity (`error`) or owner (`team:finance`, an address). Empty: everything goes to all."""
    quiet_hours: QuietHours | None
    remind_hours: float

    @classmethod
    def from_env(cls, env: Mapping[str, str], home: Path) -> AlertSettings:
        """Read what concerns alerts."""
        smtp_url = _url(env, "STREAM_ALERT_SMTP_URL", ("smtp", "smtps"))
        receivers = tuple(name.strip() for name in (env.get("STREAM_ALERT_EMAIL_TO") or "").split(",") if name.strip())
        if smtp_url and not (receivers and env.get("STREAM_ALERT_EMAIL_FROM")):
            raise SettingsError(
                "STREAM_ALERT_SMTP_URL is set: give STREAM_ALERT_EMAIL_FROM and STREAM_ALERT_EMAIL_TO too"
            )
        return cls(
            slack_url=_url(env, "STREAM_ALERT_SLACK_URL", ("http", "https")),
            webhook_url=_url(env, "STREAM_ALERT_WEBHOOK_URL", ("http", "https")),
            webhook_secret=env.get("STREAM_ALERT_WEBHOOK_SECRET") or None,
            smtp_url=smtp_url,
            smtp_ca=Path(env["STREAM_ALERT_SMTP_CA"]) if env.get("STREAM_ALERT_SMTP_CA") else None,
            email_from=env.get("STREAM_ALERT_EMAIL_FROM") or None,
            email_to=receivers,
            file=_path(env, "STREAM_ALERT_FILE", home / "alerts" / "alerts.jsonl"),
            routes=_routes(env, "STREAM_ALERT_ROUTES"),
            quiet_hours=_quiet_hours(env, "STREAM_ALERT_QUIET_HOURS"),
            remind_hours=_number(env, "STREAM_ALERT_REMIND_HOURS", 24),
        )

    def to_env(self) -> dict[str, str]:
        """The environment that gives these settings again, secrets left out."""
        return {
            "STREAM_ALERT_SMTP_CA": str(self.smtp_ca or ""),
            "STREAM_ALERT_EMAIL_FROM": self.email_from or "",
            "STREAM_ALERT_EMAIL_TO": ",".join(self.email_to),
            "STREAM_ALERT_FILE": str(self.file),
            "STREAM_ALERT_ROUTES": ", ".join(f"{who}={'+'.join(names)}" for who, names in self.routes.items()),
            "STREAM_ALERT_QUIET_HOURS": str(self.quiet_hours or ""),
            "STREAM_ALERT_REMIND_HOURS": str(self.remind_hours),
        }


REPLICATION = {"development": 1, "staging": 2, "production": 3}
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True)
class LiveSettings:
    """The servers that streams need. What is unset is our own server on this machine. Its text holds no secret."""

    environment: str
    services_port: int | None
    kafka_bootstrap: str | None
    kafka_protocol: str
    kafka_mechanism: str | None
    kafka_user: str | None
    kafka_password: str | None = field(repr=False)
    kafka_ca_file: str | None
    kafka_max_records: int
    registry_url: str | None
    registry_user: str | None
    registry_password: str | None = field(repr=False)
    registry_ca_file: str | None
    postgres_dsn: str | None = field(repr=False)
    connect_url: str | None
    connect_password: str | None

    @property
    def replication(self) -> int:
        """Replicas of each topic."""
        return REPLICATION[self.environment]

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> LiveSettings:
        """Read what concerns streams."""
        mechanism = _choice(env, "STREAM_KAFKA_MECHANISM", MECHANISMS, None)
        if mechanism and not (env.get("STREAM_KAFKA_USER") and env.get("STREAM_KAFKA_PASSWORD")):
            raise SettingsError("STREAM_KAFKA_MECHANISM is set: give STREAM_KAFKA_USER and STREAM_KAFKA_PASSWORD too")
        return cls(
            environment=_choice(env, "STREAM_ENVIRONMENT", tuple(REPLICATION), "development") or "",
            services_port=int(_number(env, "STREAM_SERVICES_PORT", 0)) or None,
            kafka_bootstrap=env.get("STREAM_KAFKA_BOOTSTRAP") or None,
            kafka_protocol=_choice(env, "STREAM_KAFKA_PROTOCOL", PROTOCOLS, "PLAINTEXT") or "",
            kafka_mechanism=mechanism,
            kafka_user=env.get("STREAM_KAFKA_USER") or None,
            kafka_password=env.get("STREAM_KAFKA_PASSWORD") or None,
            kafka_ca_file=env.get("STREAM_KAFKA_CA_FILE") or None,
            kafka_max_records=max(1, int(_number(env, "STREAM_KAFKA_MAX_RECORDS", 500_000))),
            registry_url=_registry_url(env),
            registry_user=env.get("STREAM_SCHEMA_REGISTRY_USER") or None,
            registry_password=env.get("STREAM_SCHEMA_REGISTRY_PASSWORD") or None,
            registry_ca_file=env.get("STREAM_SCHEMA_REGISTRY_CA_FILE") or None,
            postgres_dsn=_url(env, "STREAM_POSTGRES_DSN", ("postgresql", "postgres")),
            connect_url=_url(env, "STREAM_CONNECT_URL", ("http", "https")),
            connect_password=_reference(env, "STREAM_CONNECT_PASSWORD"),
        )

    def to_env(self) -> dict[str, str]:
        """The environment that gives these settings again, secrets left out."""
        return {
            "STREAM_ENVIRONMENT": self.environment,
            "STREAM_SERVICES_PORT": str(self.services_port or ""),
            "STREAM_KAFKA_BOOTSTRAP": self.kafka_bootstrap or "",
            "STREAM_KAFKA_PROTOCOL": self.kafka_protocol,
            "STREAM_KAFKA_MECHANISM": self.kafka_mechanism or "",
            "STREAM_KAFKA_USER": self.kafka_user or "",
            "STREAM_KAFKA_CA_FILE": self.kafka_ca_file or "",
            "STREAM_KAFKA_MAX_RECORDS": str(self.kafka_max_records),
            "STREAM_SCHEMA_REGISTRY": self.registry_url or "",
            "STREAM_SCHEMA_REGISTRY_USER": self.registry_user or "",
            "STREAM_SCHEMA_REGISTRY_CA_FILE": self.registry_ca_file or "",
            "STREAM_CONNECT_URL": self.connect_url or "",
            "STREAM_CONNECT_PASSWORD": self.connect_password or "",
        }


@dataclass(frozen=True)
class Settings:
    """Where everything is and how much of the machine may be used."""

    home: Path
    contracts: Path
    landing: str
    lake: str
    server: str
    views: Path
    checkpoints: str
    trigger_seconds: float
    max_files_per_trigger: int
    dedup_days: float
    report_seconds: float
    refresh_seconds: float
    dbt_project: Path
    spark_remote: str | None
    spark_memory: str
    spark_cores: int
    spark_idle_minutes: float
    standby: bool
    jars: Path
    pii_salt: str | None = field(repr=False)
    schedules_on: bool
    rollback_days: float
    report_days: float
    price_gb_month: float
    price_core_hour: float
    cost_budget: float | None
    alerts: AlertSettings
    live: LiveSettings

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Read the settings from the environment, with defaults that fit a laptop."""
        env = os.environ if env is None else env
        home = Path(env.get("STREAM_HOME") or PROJECT / ".stream").expanduser().absolute()
        contracts = _path(env, "STREAM_CONTRACTS", PROJECT / "stream_assets" / "contracts" / "specs")
        return cls(
            home=home,
            contracts=contracts,
            landing=_place(env, "STREAM_LANDING", home / "landing"),
            lake=_place(env, "STREAM_LAKE", home / "lake"),
            server=env.get("STREAM_SERVER") or "landing",
            views=_path(env, "STREAM_VIEWS", contracts / "views"),
            checkpoints=_place(env, "STREAM_CHECKPOINTS", home / "checkpoints"),
            trigger_seconds=_number(env, "STREAM_TRIGGER_SECONDS", 1),
            max_files_per_trigger=int(_number(env, "STREAM_MAX_FILES_PER_TRIGGER", 100)),
            dedup_days=_number(env, "STREAM_DEDUP_DAYS", 7),
            report_seconds=_number(env, "STREAM_REPORT_SECONDS", 30),
            refresh_seconds=_number(env, "STREAM_REFRESH_SECONDS", 300),
            dbt_project=_path(env, "STREAM_DBT_PROJECT", PROJECT / "dbt_project"),
            spark_remote=env.get("SPARK_REMOTE") or None,
            spark_memory=env.get("STREAM_SPARK_MEMORY") or "3g",
            spark_cores=int(_number(env, "STREAM_SPARK_CORES", os.cpu_count() or 2)),
            spark_idle_minutes=_number(env, "STREAM_SPARK_IDLE_MINUTES", 30),
            standby=_switch(env, "STREAM_STANDBY", default="on"),
            jars=_path(env, "STREAM_JARS", Path("~/.cache/stream/jars")),
            pii_salt=env.get("STREAM_PII_SALT") or None,
            schedules_on=_switch(env, "STREAM_SCHEDULES"),
            rollback_days=_number(env, "STREAM_ROLLBACK_DAYS", 30),
            report_days=_number(env, "STREAM_REPORT_DAYS", 90),
            price_gb_month=_number(env, "STREAM_PRICE_GB_MONTH", 0.023),
            price_core_hour=_number(env, "STREAM_PRICE_CORE_HOUR", 0.05),
            cost_budget=_number(env, "STREAM_COST_BUDGET", 0) or None,
            alerts=AlertSettings.from_env(env, home),
            live=LiveSettings.from_env(env),
        )

    def to_env(self) -> dict[str, str]:
        """The environment that gives these settings again, secrets left out."""
        env = {
            "STREAM_HOME": str(self.home),
            "STREAM_CONTRACTS": str(self.contracts),
            "STREAM_LANDING": self.landing,
            "STREAM_LAKE": self.lake,
            "STREAM_SERVER": self.server,
            "STREAM_VIEWS": str(self.views),
            "STREAM_CHECKPOINTS": self.checkpoints,
            "STREAM_TRIGGER_SECONDS": str(self.trigger_seconds),
            "STREAM_MAX_FILES_PER_TRIGGER": str(self.max_files_per_trigger),
            "STREAM_DEDUP_DAYS": str(self.dedup_days),
            "STREAM_REPORT_SECONDS": str(self.report_seconds),
            "STREAM_REFRESH_SECONDS": str(self.refresh_seconds),
            "STREAM_DBT_PROJECT": str(self.dbt_project),
            "STREAM_SPARK_MEMORY": self.spark_memory,
            "STREAM_SPARK_CORES": str(self.spark_cores),
            "STREAM_SPARK_IDLE_MINUTES": str(self.spark_idle_minutes),
            "STREAM_STANDBY": "on" if self.standby else "off",
            "STREAM_JARS": str(self.jars),
            "STREAM_SCHEDULES": "on" if self.schedules_on else "off",
            "STREAM_ROLLBACK_DAYS": str(self.rollback_days),
            "STREAM_REPORT_DAYS": str(self.report_days),
            "STREAM_PRICE_GB_MONTH": str(self.price_gb_month),
            "STREAM_PRICE_CORE_HOUR": str(self.price_core_hour),
            "STREAM_COST_BUDGET": str(self.cost_budget or ""),
            **self.alerts.to_env(),
            **self.live.to_env(),
        }
        return env | ({"SPARK_REMOTE": self.spark_remote} if self.spark_remote else {})

    @property
    def is_lake_at_hand(self) -> bool:
        """Whether the lake lies on disks of this machine, where its processes can take turns; an object store is Spark's alone."""
        return "://" not in self.lake

    def table_path(self, layer: str, name: str) -> str:
        """Where a table lies in the lake."""
        return f"{self.lake}/{layer}/{name}"


def _path(env: Mapping[str, str], name: str, default: Path) -> Path:
    return Path(env.get(name) or default).expanduser().absolute()


def _place(env: Mapping[str, str], name: str, default: Path) -> str:
    """A folder, made absolute, or an object-store URI, kept as it is."""
    value = (env.get(name) or str(default)).rstrip("/")
    return value if "://" in value else str(Path(value).expanduser().absolute())


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name) or str(default)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if number < 0:
        raise SettingsError(f"{name} is {text!r}: give a number of zero or more")
    return number


def _choice(env: Mapping[str, str], name: str, known: tuple[str, ...], default: str | None) -> str | None:
    text = env.get(name) or default
    if text is not None and text not in known:
        raise SettingsError(f"{name} is {text!r}: use {', '.join(known)}")
    return text


def _switch(env: Mapping[str, str], name: str, default: str = "off") -> bool:
    text = (env.get(name) or default).lower()
    if text not in ("on", "off"):
        raise SettingsError(f"{name} is {text!r}: say on or off")
    return text == "on"


def _url(env: Mapping[str, str], name: str, schemes: tuple[str, ...]) -> str | None:
    """An address that may hold a secret: a refusal does not repeat it."""
    value = env.get(name) or None
    try:
        address = urlsplit(value or "")
        is_sound = address.scheme in schemes and address.hostname and (address.port is None or address.port > 0)
    except ValueError:
        is_sound = False
    if value and not is_sound:
        raise SettingsError(
            f"{name} is not an address (its value is kept out of sight): it starts with {schemes[0]}://host"
        )
    return value


def _registry_url(env: Mapping[str, str]) -> str | None:
    """Without a password: the address is shown, and part of what is told when the registry is away."""
    url = _url(env, "STREAM_SCHEMA_REGISTRY", ("http", "https"))
    if url and "@" in urlsplit(url).netloc:
        raise SettingsError(
            "STREAM_SCHEMA_REGISTRY holds a password (its value is kept out of sight): give STREAM_SCHEMA_REGISTRY_USER and "
            "STREAM_SCHEMA_REGISTRY_PASSWORD instead"
        )
    return url.rstrip("/") if url else None


def _reference(env: Mapping[str, str], name: str) -> str | None:
    """Where a secret is to be found, never the secret itself: a refusal does not repeat it."""
    value = env.get(name) or None
    if value and not (value.startswith("${") and value.endswith("}")):
        raise SettingsError(
            f"{name} is not a reference (its value is kept out of sight): write ${{provider:place:name}}"
        )
    return value


def _routes(env: Mapping[str, str], name: str) -> dict[str, tuple[str, ...]]:
    """`error=slack+email, team:finance=email` as a mapping."""
    routes = {}
    for rule in filter(None, (part.strip() for part in (env.get(name) or "").split(","))):
        who, _, channels = (part.strip() for part in rule.partition("="))
        names = tuple(channel.strip() for channel in channels.split("+"))
        is_somebody = who in SEVERITIES or who.startswith("team:") or "@" in who
        if not is_somebody or not set(names) <= set(CHANNELS):
            raise SettingsError(
                f"{name} has the rule {rule!r}: write who=channel+channel, who being {', '.join(SEVERITIES)}, team:name or the "
                f"owner's address, channels being {', '.join(CHANNELS)}"
            )
        routes[who] = names
    return routes


def _quiet_hours(env: Mapping[str, str], name: str) -> QuietHours | None:
    text = (env.get(name) or "").strip()
    if not text:
        return None
    hours, _, zone = text.partition(" ")
    try:
        start, end = (time.fromisoformat(part) for part in hours.split("-"))
        return QuietHours(start, end, ZoneInfo(zone.strip() or "UTC"))
    except (ValueError, ZoneInfoNotFoundError):
        raise SettingsError(f"{name} is {text!r}: write 22:00-07:00, with a time zone after it if not UTC") from None
