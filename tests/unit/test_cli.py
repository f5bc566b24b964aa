"""The command line: help everywhere, clear errors, useful exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STREAM = Path(sys.executable).with_name("stream")


def stream(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STREAM, *args], env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    "verb",
    [
        (),
        ("run",),
        ("status",),
        ("report",),
        ("sample",),
        ("contracts",),
        ("contracts", "lint"),
        ("contracts", "diff"),
        ("contracts", "propose"),
        ("contracts", "simulate"),
        ("contracts", "suggest"),
        ("engine",),
        ("dbt", "sync"),
        ("alerts",),
        ("alerts", "test"),
        ("alerts", "list"),
        ("alerts", "close"),
        ("backfill",),
        ("backfill", "plan"),
        ("backfill", "run"),
        ("maintain",),
        ("doctor",),
        ("cost",),
        ("rollback",),
        ("quarantine",),
        ("quarantine", "list"),
        ("quarantine", "show"),
        ("quarantine", "export"),
        ("replay",),
        ("why",),
        ("erase",),
    ],
)
def test_help_everywhere(verb: tuple[str, ...]) -> None:
    done = stream(*verb, "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_run_without_deliveries_says_what_to_do(tmp_path: Path) -> None:
    done = stream("run", STREAM_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "has no deliveries" in done.stderr
    assert "Traceback" not in done.stderr


def test_lint_names_file_field_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "bad.odcs.yaml").write_text("kind: DataContract\n")
    done = stream("contracts", "lint", str(tmp_path))
    assert done.returncode == 1
    for word in ("bad.odcs.yaml", "field", "problem", "remedy"):
        assert word in done.stdout


def test_bad_setting_is_explained(tmp_path: Path) -> None:
    done = stream("engine", "status", STREAM_HOME=str(tmp_path), STREAM_SPARK_CORES="many")
    assert done.returncode == 1
    assert "STREAM_SPARK_CORES" in done.stderr


def test_sample_if_empty_leaves_data_alone(tmp_path: Path) -> None:
    args = ("sample", "--days", "1", "--scale", "0.01", "--if-empty")
    assert stream(*args, STREAM_HOME=str(tmp_path)).returncode == 0
    before = {f: f.stat().st_mtime_ns for f in (tmp_path / "landing").rglob("*.*")}
    assert "left as it is" in " ".join(stream(*args, STREAM_HOME=str(tmp_path)).stdout.split())
    assert {f: f.stat().st_mtime_ns for f in (tmp_path / "landing").rglob("*.*")} == before
