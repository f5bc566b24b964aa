"""What a simulation refuses before any engine starts, and which days it takes."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from stream_assets.errors import ContractError, StreamError
from stream_assets.settings import Settings
from stream_assets.silver.simulate import Trial, choose_days, prepare_trial
from tests.documents import bend, contract, document, with_column, write

DAYS = [date(2025, 1, 1) + timedelta(days=n) for n in range(40)]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    write(tmp_path / "contracts", document())
    return Settings.from_env({"STREAM_HOME": str(tmp_path), "STREAM_CONTRACTS": str(tmp_path / "contracts")})


def test_an_invalid_contract_is_refused_in_the_words_of_lint(settings: Settings, tmp_path: Path) -> None:
    file = write(tmp_path / "next", bend(document(), "version", "two"))
    with pytest.raises(ContractError, match="is not semantic"):
        prepare_trial(settings, file)


def test_a_dataset_without_a_contract_in_force_is_refused(settings: Settings, tmp_path: Path) -> None:
    made = bend(bend(document(), "name", "others"), "schema.0.name", "others")
    with pytest.raises(StreamError, match="no sound contract called others"):
        prepare_trial(settings, write(tmp_path / "next", made, "others"))


def test_without_bronze_it_says_what_to_run(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(StreamError, match=r"has no Bronze yet.*stream run"):
        prepare_trial(settings, write(tmp_path / "next", document()))


def test_days_the_wrong_way_round_are_refused(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(StreamError, match="is after"):
        prepare_trial(settings, write(tmp_path / "next", document()), first=DAYS[1], last=DAYS[0])


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("kind", document(datasetKind="entity")),
        ("key", bend(document(), "schema.0.properties.7.primaryKey", True)),
        ("event_time", with_column(document(eventTime="extra"), logicalType="timestamp")),
        ("format", bend(document(), "servers.0.format", "csv")),
    ],
)
def test_what_bronze_depends_on_cannot_be_simulated(settings: Settings, tmp_path: Path, name: str, made: dict) -> None:
    """Rows of another key, kind, time or format cannot be paired with those of the contract in force."""
    with pytest.raises(StreamError, match=f"has another {name}"):
        prepare_trial(settings, write(tmp_path / "next", made))


def test_by_default_the_last_thirty_days_are_taken() -> None:
    assert choose_days(reversed(DAYS), None, None) == DAYS[-30:]


def test_a_given_range_is_taken_whole() -> None:
    assert choose_days(DAYS, DAYS[2], None) == DAYS[2:]
    assert choose_days(DAYS, None, DAYS[35]) == DAYS[:36]
    assert choose_days(DAYS, date(2026, 1, 1), None) == []


def test_columns_of_another_type_are_compared_as_numbers_where_both_are(tmp_path: Path) -> None:
    """decimal(12,2) and double hold the same 1.10; text and number only meet as text."""
    made = bend(document(), "schema.0.properties.2.physicalType", "decimal(14,4)")
    made = bend(made, "schema.0.properties.3.logicalType", "string")
    del made["schema"][0]["properties"][8], made["schema"][0]["quality"]
    found = Trial(contract(tmp_path / "a"), contract(tmp_path / "b", made)).columns
    assert [name for name, as_text in found.items() if as_text] == ["pieces"]
    assert "detail" not in found and "amount" in found
