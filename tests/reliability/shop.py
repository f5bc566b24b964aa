"""The retail sample as a lakehouse of its own, worked on by `stream` commands in processes that can be killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path

from deltalake import DeltaTable

from stream_assets.engine.session import lake_tables
from stream_assets.settings import PROJECT, Settings

LAST = date(2026, 11, 14)
RULE, BAD = "discount_cents <= total_cents", "discount_cents <= total_cents and status <> 'cancelled'"
"""The rule of orders, and one that rejects too much."""
UNSTABLE = {"_run_id", "_quarantined_at", "_resolved_at", "_resolution"}
"""Columns that say when and by whom, and so differ between two equal tables."""
MADE = ("silver", "quarantine", "gold")


def open_shop(folder: Path) -> Settings:
    """An empty lakehouse with contracts of its own."""
    environment = {
        "STREAM_HOME": str(folder),
        "STREAM_CONTRACTS": str(folder / "contracts"),
        "STREAM_SPARK_MEMORY": "1536m",
        "STREAM_SPARK_IDLE_MINUTES": "3",
    }
    settings = Settings.from_env({**os.environ, **environment})
    if not settings.contracts.exists():
        shutil.copytree(Settings.from_env({}).contracts, settings.contracts)
    return settings


def bring(deliveries: Path, to: Settings, day: date) -> None:
    """Deliver a day."""
    for dataset in deliveries.iterdir():
        if (dataset / str(day)).is_dir():
            shutil.copytree(dataset / str(day), Path(to.landing) / dataset.name / str(day))


def ship(shop: Settings, rule: str) -> None:
    """Put another rule of orders in force."""
    file = shop.contracts / "orders.odcs.yaml"
    start, _, rest = file.read_text().partition("implementation: {expression: ")
    draft = file.with_suffix(".draft")  # a reader sees the one or the other
    draft.write_text(f"{start}implementation: {{expression: {rule}}}{rest.partition('}')[2]}")
    draft.replace(file)


def stream(shop: Settings, *command: str) -> subprocess.Popen[str]:
    """Start a command of `stream`."""
    env = {**os.environ, **shop.to_env(), "STREAM_PII_SALT": "salt of every shop"}
    code = [sys.executable, "-c", "from stream_assets.cli import main; main()", *command]
    return subprocess.Popen(code, cwd=PROJECT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def done(shop: Settings, *command: str) -> str:
    """Run a command to its good end. Returns what it said."""
    process = stream(shop, *command)
    output, _ = process.communicate(timeout=1800)
    assert process.returncode == 0, f"{' '.join(command)}: {output[-3000:]}"
    return output


def contents(shop: Settings) -> dict[str, Counter[str]]:
    """Every row of every table that is made of Bronze, read by delta-rs; of quarantine, what is rejected today."""
    found = [name for name in lake_tables(shop) if name.startswith(MADE)]
    return {name: Counter(map(repr, rows(f"{shop.lake}/{name}"))) for name in found}


def rows(path: str) -> list[dict]:
    """The rows of a table without what differs between two equal ones."""
    table = DeltaTable(path).to_pyarrow_table()
    standing = [row for row in table.to_pylist() if row.get("_resolved_at") is None]
    return [{name: row[name] for name in sorted(row.keys() - UNSTABLE)} for row in standing]
