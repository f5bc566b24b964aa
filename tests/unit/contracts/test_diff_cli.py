"""`stream contracts diff` on files, on folders and in a real git repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import bend, document, with_column, write

STREAM = Path(sys.executable).with_name("stream")


def diff(*args: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STREAM, "contracts", "diff", *args],
        env={**os.environ, "STREAM_CONTRACTS": str(folder), "COLUMNS": "160"},
        cwd=folder.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def git(folder: Path, *command: str) -> None:
    who = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", folder, *who, *command], check=True, capture_output=True)


@pytest.fixture
def contracts(tmp_path: Path) -> Path:
    """A contracts folder in a repository of a team, with one commit on main."""
    folder = tmp_path / "team" / "contracts"
    write(folder, document())
    git(folder.parent, "init", "--initial-branch", "main")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "-m", "Contracts")
    return folder


def test_nothing_changed(contracts: Path) -> None:
    done = diff("--against", "main", folder=contracts)
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 datasets changed" in done.stdout


def test_a_breaking_change_fails_and_says_whom_it_hurts(contracts: Path) -> None:
    write(contracts, document(maxLateness=0))
    done = diff("--against", "main", folder=contracts)
    assert done.returncode == 1
    for word in ("readings", "max_lateness", "2 → 0", "breaking", "tightens", "quarantined", "2.0.0"):
        assert word in done.stdout


def test_a_major_version_makes_it_right(contracts: Path) -> None:
    write(contracts, bend(document(maxLateness=0), "version", "2.0.0"))
    assert diff("--against", "main", folder=contracts).returncode == 0


def test_a_missing_minor_version_only_warns(contracts: Path) -> None:
    write(contracts, with_column(document()))
    done = diff("--against", "HEAD", "--json", folder=contracts)
    assert done.returncode == 0
    (found,) = json.loads(done.stdout)["datasets"]
    assert (found["verdict"], found["needs"], found["has"]) == ("warning", "minor", "none")
    assert found["changes"] == [
        {
            "field": "columns.extra",
            "what": "added (string, optional)",
            "kind": "non-breaking",
            "direction": "neutral",
            "reason": "Records without it are still accepted, and no reader depends on it yet.",
        }
    ]


@pytest.mark.parametrize("place", ["contracts", "contracts/readings.odcs.yaml"])
def test_a_commit_may_stand_for_old_and_a_place_for_new(place: str, contracts: Path) -> None:
    """One file is compared with that one file, not with the whole folder of then."""
    write(contracts, bend(bend(document(), "name", "others"), "schema.0.name", "others"), "others")
    git(contracts, "add", ".")
    git(contracts, "commit", "-m", "Others")
    write(contracts, document(maxLateness=0))
    done = diff("main", place, "--json", folder=contracts)
    assert [found["name"] for found in json.loads(done.stdout)["datasets"]] == ["readings"]


def test_two_commits(contracts: Path) -> None:
    write(contracts, document(maxLateness=0))
    git(contracts, "commit", "-am", "Stricter")
    there, back = (json.loads(diff(*way, "--json", folder=contracts).stdout) for way in (("HEAD~1", "HEAD"), ("HEAD", "HEAD~1")))  # fmt: skip
    assert [found["datasets"][0]["changes"][0]["direction"] for found in (there, back)] == ["tightens", "loosens"]


def test_two_folders_outside_of_git(tmp_path: Path) -> None:
    write(tmp_path / "old", document())
    write(tmp_path / "new", document(slaTier=1))
    done = diff("old", "new", folder=tmp_path / "new")
    assert done.returncode == 0
    assert "tier" in done.stdout


def test_a_removed_contract_fails_unless_it_is_meant(contracts: Path) -> None:
    (contracts / "readings.odcs.yaml").unlink()
    assert diff("--against", "main", folder=contracts).returncode == 1
    assert diff("--against", "main", "--allow-removed", "readings", folder=contracts).returncode == 0


def test_a_contract_that_is_refused_now_fails(contracts: Path) -> None:
    write(contracts, {"kind": "DataContract"}, "bad")
    done = diff("--against", "main", folder=contracts)
    assert done.returncode == 1
    assert "bad.odcs.yaml" in done.stderr


@pytest.mark.parametrize("reference", ["no-such-branch", "--output=x"])
def test_an_unknown_commit_is_explained(reference: str, contracts: Path) -> None:
    done = diff(f"--against={reference}", folder=contracts)
    assert done.returncode == 1
    assert reference in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_outside_of_git_is_explained(tmp_path: Path) -> None:
    write(tmp_path / "new", document())
    done = diff("--against", "main", folder=tmp_path / "new")
    assert done.returncode == 1
    assert "not a git repository" in done.stderr


def test_without_anything_to_compare_it_says_how(contracts: Path) -> None:
    done = diff(folder=contracts)
    assert done.returncode == 2
    assert "--against" in done.stderr


def test_patterns_are_shown_as_they_are(contracts: Path) -> None:
    """Brackets of a pattern are not markup."""
    write(contracts, bend(document(), "schema.0.properties.7.logicalTypeOptions", {"pattern": "^[red]x[/]$"}))
    assert "^[red]x[/]$" in diff("--against", "main", folder=contracts).stdout
