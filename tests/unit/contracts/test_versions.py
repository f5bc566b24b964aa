"""Semantic versions of contracts: the step must be as large as the change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stream_assets.contracts.model import Contract
from stream_assets.contracts.versions import diff_datasets, next_version, version_step
from tests.documents import contract, document, with_column


@pytest.fixture
def old(tmp_path: Path) -> Contract:
    return contract(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        ("1.2.3", "2.0.0", "major"),
        ("1.2.3", "1.3.0", "minor"),
        ("1.2.3", "1.2.4", "patch"),
        ("1.9.0", "1.10.0", "minor"),
        ("1.2.3", "1.2.3", "none"),
        ("1.2.3", "1.1.9", "none"),
        ("1.2.3", "0.9.9", "none"),
    ],
)
def test_the_step_is_the_largest_part_that_was_raised(old: str, new: str, step: str) -> None:
    assert version_step(old, new) == step


@pytest.mark.parametrize(("step", "after"), [("major", "2.0.0"), ("minor", "1.3.0"), ("patch", "1.2.4"), ("none", "1.2.3")])  # fmt: skip
def test_the_next_version_starts_the_smaller_parts_again(step: str, after: str) -> None:
    assert next_version("1.2.3", step) == after  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("version", "change", "verdict"),
    [
        ("1.0.0", {"max_lateness": 1}, "failure"),
        ("1.1.0", {"max_lateness": 1}, "failure"),
        ("2.0.0", {"max_lateness": 1}, "ok"),
        ("1.0.1", {"tier": 1}, "warning"),
        ("1.1.0", {"tier": 1}, "ok"),
        ("1.0.0", {"purpose": "Other words."}, "warning"),
        ("1.0.1", {"purpose": "Other words."}, "ok"),
        ("0.9.0", {"max_lateness": 1}, "failure"),
    ],
)
def test_breaking_without_a_major_version_fails_and_less_only_warns(
    version: str, change: dict, verdict: str, old: Contract
) -> None:
    found = diff_datasets({"readings": old}, {"readings": replace(old, version=version, **change)})
    assert [diff.verdict for diff in found] == [verdict]
    assert bool(found[0].advice) is (verdict != "ok")


def test_an_optional_column_asks_for_a_minor_version(old: Contract, tmp_path: Path) -> None:
    new = contract(tmp_path / "new", with_column(document()))
    (found,) = diff_datasets({"readings": old}, {"readings": new})
    assert (found.needs, found.verdict) == ("minor", "warning")
    assert found.advice == "Set version to 1.1.0 or later."


def test_a_removed_dataset_fails_until_it_is_said_on_purpose(old: Contract) -> None:
    (found,) = diff_datasets({"readings": old}, {})
    assert (found.verdict, found.needs) == ("failure", "major")
    assert "--allow-removed readings" in found.advice
    (allowed,) = diff_datasets({"readings": old}, {}, allow_removed=["readings"])
    assert allowed.verdict == "ok"


def test_a_new_dataset_is_told_and_fine(old: Contract) -> None:
    (found,) = diff_datasets({}, {"readings": old})
    assert (found.verdict, found.changes[0].what) == ("ok", "added")


def test_what_stayed_is_left_out(old: Contract) -> None:
    assert diff_datasets({"readings": old}, {"readings": old}) == []
