"""The command line: help everywhere, clear errors, useful exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from stream_assets.cli import app

STREAM = Path(sys.executable).with_name("stream")


def stream(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STREAM, *args], env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=120
    )


def verbs(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and group of commands, by what is typed after `stream`."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from verbs(below, (*path, name))


@pytest.mark.parametrize("verb", verbs(get_command(app)), ids=lambda verb: " ".join(("stream", *verb)))
def test_help_everywhere(verb: tuple[str, ...]) -> None:
    """Every command says how it is used and what it is for."""
    done = CliRunner().invoke(app, [*verb, "--help"], prog_name="stream")
    usage, _, purpose = done.output.strip().partition("\n")
    assert done.exit_code == 0
    assert usage.strip().startswith("Usage: stream")
    assert purpose.strip()


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
