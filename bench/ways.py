"""The three ways to do the job, each as a command line with its own lake."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import yaml

from bench.data import Landing
from bench.job import DATASETS, SALT
from bench.measure import Cost, run_measured
from stream_assets.settings import PROJECT

SPECS = PROJECT / "stream_assets" / "contracts" / "specs"
DBT_PROJECT = Path(__file__).with_name("dbt_project")
_KEPT_SETTINGS = ("STREAM_JARS", "STREAM_SPARK_MEMORY", "STREAM_SPARK_CORES")
"""Settings of ours that the benchmark takes from its environment, for both ways that use Spark."""


@dataclass(frozen=True)
class Script:
    """A plain script: a process of its own for every load."""

    module: str
    landing: Landing
    root: Path

    @property
    def lake(self) -> Path:
        """Where its tables are."""
        return self.root / "lake"

    def run(self, mode: str, first: date, last: date) -> Cost:
        """Load these deliveries."""
        command = [
            sys.executable,
            "-m",
            self.module,
            mode,
            str(self.landing.folder),
            str(self.lake),
            str(first),
            str(last),
        ]
        return run_measured(command, env=environment(), log=self.root / f"{mode}-{first}.log")

    def copy(self, root: Path) -> Script:
        """The same, with a copy of its lake in another folder."""
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        return Script(self.module, self.landing, root)


@dataclass(frozen=True)
class Stream:
    """Stream: `stream run`, with a home, contracts and a dbt project of its own."""

    landing: Landing
    root: Path
    rules: bool = True

    @property
    def lake(self) -> Path:
        """Where its tables are."""
        return self.root / "home" / "lake"

    def prepare(self) -> None:
        """What `make setup` does before the first run: folders, contracts, the dbt manifest."""
        write_contracts(self.root / "contracts", self.landing.size.first_day, rules=self.rules)
        shutil.copytree(DBT_PROJECT, self.root / "dbt_project", dirs_exist_ok=True)
        self._stream("prepare")

    def run(self, first: date, last: date) -> Cost:
        """Load these deliveries; the Spark server counts too."""
        command = [stream_command(), "run", "--from", str(first), "--to", str(last)]
        return run_measured(command, env=self.env(), log=self.root / f"run-{first}-{last}.log", also=self.server)

    def repair(self, first: date, last: date) -> tuple[list[Cost], int]:
        """Plan and run what is stale of these days. Returns what each took, and the partitions that were made."""
        file = self.root / "plan.json"
        days = ["--from", str(first), "--to", str(last)]
        plan = ["plan", "--reason", "bug", "--select", "group:bronze", *days, "--out", str(file)]
        costs = [self._backfill(*plan)]
        found = json.loads(file.read_text())
        costs.append(self._backfill("run", found["id"], "--force"))
        return costs, found["estimate"]["partitions"]

    def _backfill(self, *arguments: str) -> Cost:
        command = [stream_command(), "backfill", *arguments]
        return run_measured(command, env=self.env(), log=self.root / f"backfill-{arguments[0]}.log", also=self.server)

    def touch(self, first: date, last: date) -> None:
        """Make the deliveries of these days look new, as if they had been sent again."""
        for dataset in DATASETS:
            for folder in (self.landing.folder / dataset.name).iterdir():
                if str(first) <= folder.name <= str(last):
                    (folder / dataset.file_name).touch()

    def stop(self) -> None:
        """Stop the Spark server."""
        self._stream("engine", "stop")

    def _stream(self, *arguments: str) -> None:
        subprocess.run([stream_command(), *arguments], env=self.env(), check=True, stdout=subprocess.DEVNULL)

    def env(self) -> dict[str, str]:
        """Its environment."""
        return environment() | {
            "STREAM_HOME": str(self.root / "home"),
            "STREAM_LANDING": str(self.landing.folder),
            "STREAM_CONTRACTS": str(self.root / "contracts"),
            "STREAM_DBT_PROJECT": str(self.root / "dbt_project"),
            "STREAM_PII_SALT": SALT,
        }

    def server(self) -> list[int]:
        """Processes that work for its commands: its engine, and the one on standby."""
        folder = self.root / "home" / "spark"
        found: list[int] = []
        with suppress(OSError, ValueError):
            state = json.loads((folder / "server.json").read_text())
            found += [state["keeper"], state["pid"]]
        with suppress(OSError, ValueError):
            found.append(int((folder / "standby.pid").read_text()))
        return found


def write_contracts(folder: Path, since: date, *, rules: bool) -> None:
    """The two contracts, of a history since then: as they are, or without anything a record could break but its form, types and day."""
    folder.mkdir(parents=True, exist_ok=True)
    for dataset in DATASETS:
        file = SPECS / f"{dataset.name}.odcs.yaml"
        contract = yaml.safe_load(file.read_text(encoding="utf-8"))
        table, known = contract["schema"][0], {other.name for other in DATASETS}
        for custom in contract["customProperties"]:
            if custom["property"] == "replay":
                custom["value"]["historyStart"] = since.isoformat()
        for column in table["properties"]:  # what points at datasets that are not part of the job
            if any(link["to"].partition(".")[0] not in known for link in column.get("relationships", ())):
                del column["relationships"]
        if not rules:
            for element in (table, *table["properties"]):
                for promise in ("quality", "required", "logicalTypeOptions"):
                    element.pop(promise, None)
        (folder / file.name).write_text(yaml.safe_dump(contract, sort_keys=False), encoding="utf-8")


def environment() -> dict[str, str]:
    """The environment without settings of ours, but for a few."""
    ours = ("STREAM_", "DAGSTER_", "DBT_", "SPARK_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours) or name in _KEPT_SETTINGS}
    return kept | {"DO_NOT_TRACK": "1", "TZ": "UTC", "PYTHONPATH": str(PROJECT)}


def stream_command() -> str:
    """The command `stream` of this environment."""
    return str(Path(sys.executable).with_name("stream"))
