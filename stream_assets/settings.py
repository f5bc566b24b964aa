"""The one place that reads the environment. Every other room gets a frozen `Settings`.

Each field is one environment variable; the table in the README is generated from `FIELDS`. Reading settings touches
no file and opens no connection.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stream_assets.errors import SettingsError

PROJECT = Path(__file__).resolve().parent.parent

FIELDS = {
    "STREAM_HOME": ("`.stream`", "All state: landing, lake, spark, checkpoints, reports, dagster."),
    "STREAM_CONTRACTS": ("the sample's", "Folder of `*.odcs.yaml` contracts."),
    "STREAM_LANDING": ("`$STREAM_HOME/landing`", "Landing zone, `<dataset>/<YYYY-MM-DD>/files`."),
    "STREAM_LAKE": ("`$STREAM_HOME/lake`", "The lake: a folder or an object-store URI."),
    "STREAM_DBT_PROJECT": ("`dbt_project`", "The dbt project that makes Gold."),
    "SPARK_REMOTE": ("unset", "Unset: a Spark server of our own, on loopback. Set (`sc://…`): that cluster."),
    "STREAM_SPARK_MEMORY": ("`3g`", "Heap of our own Spark server."),
    "STREAM_SPARK_CORES": ("all", "Cores of our own Spark server."),
    "STREAM_SPARK_IDLE_MINUTES": ("`30`", "Our own Spark server stops after so long without work; 0 keeps it."),
    "STREAM_JARS": ("`~/.cache/stream/jars`", "Where JVM libraries are kept once downloaded."),
    "STREAM_PII_SALT": ("made once, in `$STREAM_HOME/secrets`", "Secret mixed into hashed personal data."),
    "STREAM_SCHEDULES": ("`off`", "`on` starts every schedule and sensor with the daemon."),
}


@dataclass(frozen=True)
class Settings:
    """Where everything is and how much of the machine may be used."""

    home: Path
    contracts: Path
    landing: str
    lake: str
    dbt_project: Path
    spark_remote: str | None
    spark_memory: str
    spark_cores: int
    spark_idle_minutes: float
    jars: Path
    pii_salt: str | None
    schedules_on: bool

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Read the settings from the environment, with defaults that fit a laptop."""
        env = os.environ if env is None else env
        home = Path(env.get("STREAM_HOME") or PROJECT / ".stream").expanduser().absolute()
        return cls(
            home=home,
            contracts=_path(env, "STREAM_CONTRACTS", PROJECT / "stream_assets" / "contracts" / "specs"),
            landing=_place(env, "STREAM_LANDING", home / "landing"),
            lake=_place(env, "STREAM_LAKE", home / "lake"),
            dbt_project=_path(env, "STREAM_DBT_PROJECT", PROJECT / "dbt_project"),
            spark_remote=env.get("SPARK_REMOTE") or None,
            spark_memory=env.get("STREAM_SPARK_MEMORY") or "3g",
            spark_cores=int(_number(env, "STREAM_SPARK_CORES", os.cpu_count() or 2)),
            spark_idle_minutes=_number(env, "STREAM_SPARK_IDLE_MINUTES", 30),
            jars=_path(env, "STREAM_JARS", Path("~/.cache/stream/jars")),
            pii_salt=env.get("STREAM_PII_SALT") or None,
            schedules_on=_switch(env, "STREAM_SCHEDULES"),
        )

    def to_env(self) -> dict[str, str]:
        """The environment that gives these settings again, secrets left out."""
        env = {
            "STREAM_HOME": str(self.home),
            "STREAM_CONTRACTS": str(self.contracts),
            "STREAM_LANDING": self.landing,
            "STREAM_LAKE": self.lake,
            "STREAM_DBT_PROJECT": str(self.dbt_project),
            "STREAM_SPARK_MEMORY": self.spark_memory,
            "STREAM_SPARK_CORES": str(self.spark_cores),
            "STREAM_SPARK_IDLE_MINUTES": str(self.spark_idle_minutes),
            "STREAM_JARS": str(self.jars),
            "STREAM_SCHEDULES": "on" if self.schedules_on else "off",
        }
        return env | ({"SPARK_REMOTE": self.spark_remote} if self.spark_remote else {})

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


def _switch(env: Mapping[str, str], name: str) -> bool:
    text = (env.get(name) or "off").lower()
    if text not in ("on", "off"):
        raise SettingsError(f"{name} is {text!r}: say on or off")
    return text == "on"
