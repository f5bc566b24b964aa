"""Each check, judged from what a run counted: a passing case, a failing case, and what it says without data."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stream_assets.quality import drift
from stream_assets.quality import outcomes as judge
from stream_assets.quality.checks import BRONZE_CHECKS, SILVER_CHECKS
from stream_assets.quality.gates import GATES, is_gate
from tests.documents import contract, document

NOW = datetime(2025, 3, 10, 12, tzinfo=UTC)


def entry(rows_in: int = 100, quarantined: int = 0, duplicates: int = 0, **facts: Any) -> dict[str, Any]:
    counts = {"rows_in": rows_in, "accepted": rows_in - quarantined - duplicates, "quarantined": quarantined}
    return (
        counts
        | {"duplicates": duplicates, "prompt": rows_in, "violations": {}, "new_columns": [], "missing_columns": []}
        | facts
    )


def days(count: int, rows_in: int = 100) -> dict[str, dict[str, Any]]:
    return {(date(2025, 1, 1) + timedelta(days=n)).isoformat(): entry(rows_in) for n in range(count)}


def test_reconciliation_adds_up() -> None:
    found = judge.judge_reconciliation({"2025-01-01": entry(100, 3, 2)}, {"2025-01-01": 100})
    assert found.passed
    assert found.summary == "100 in = 95 accepted + 3 quarantined + 2 duplicates"


@pytest.mark.parametrize(
    ("counts", "landed"),
    [
        (entry(100, accepted=99), {"2025-01-01": 100}),
        (entry(100), {"2025-01-01": 101}),
        (entry(100), {}),
    ],
    ids=["a record unaccounted for", "Bronze holds more", "Bronze holds none"],
)
def test_reconciliation_finds_a_lost_record(counts: dict, landed: dict) -> None:
    """Bronze is counted by itself, so a record lost while reading it is found too."""
    found = judge.judge_reconciliation({"2025-01-01": counts}, landed)
    assert not found.passed
    assert list(found.facts["wrong_days"]) == ["2025-01-01"]


@pytest.mark.parametrize(
    ("family", "rule"),
    [
        ("completeness", "completeness__a__required"),
        ("validity", "validity__a__type"),
        ("validity", "consistency__record__discount_within_total"),
        ("validity", "uniqueness__record__one_of_two"),
    ],
)
def test_the_share_of_rejected_records_stays_small(family: str, rule: str) -> None:
    """Every rule, promises between fields included, is counted by one of the two checks."""
    few = judge.judge_rules({"2025-01-01": entry(100, 5, violations={rule: 5})}, family)
    many = judge.judge_rules({"2025-01-01": entry(100, 6, violations={rule: 6}), "2025-01-02": entry()}, family)
    assert few.passed
    assert not many.passed
    assert many.facts["days_above"] == {"2025-01-01": 0.06}
    assert many.facts["rows_per_rule"] == {rule: 6}


def test_one_family_does_not_answer_for_another() -> None:
    counts = {"2025-01-01": entry(100, 50, violations={"completeness__a__required": 50})}
    assert judge.judge_rules(counts, "validity").passed
    assert not judge.judge_rules(counts, "completeness").passed


def test_a_record_that_breaks_many_rules_is_one_record() -> None:
    """Four rules on one record of a hundred are one percent, not four."""
    rules = {f"validity__{name}__type": 1 for name in "abcdefgh"}
    assert judge.judge_rules({"2025-01-01": entry(100, 1, violations=rules)}, "validity").passed


def test_without_records_there_is_nothing_to_reject() -> None:
    found = judge.judge_rules({"2025-01-01": entry(0)}, "validity")
    assert (found.passed, found.summary) == (True, "no records")


@pytest.mark.parametrize(
    ("age", "passed"), [(timedelta(days=3), True), (timedelta(days=3, seconds=1), False), (-timedelta(hours=1), True)]
)
def test_freshness_follows_the_newest_event(age: timedelta, passed: bool, tmp_path: Path) -> None:
    """A target of days allows for the day itself, which is only delivered when it is over."""
    found = judge.judge_freshness(contract(tmp_path), NOW - age, NOW)
    assert found.passed is passed


def test_freshness_without_events_fails(tmp_path: Path) -> None:
    found = judge.judge_freshness(contract(tmp_path), None, NOW)
    assert (found.passed, found.summary) == (False, "no event yet")


def test_a_delivery_is_landed_completely() -> None:
    day = date(2025, 1, 1)
    assert judge.judge_delivery({day: 5}, {day: 5}).passed
    assert judge.judge_delivery({day: 5}, {}).passed
    lost = judge.judge_delivery({day: 4}, {day: 5})
    assert not lost.passed
    assert lost.facts["wrong_days"] == {"2025-01-01": {"in_files": 5, "in_bronze": 4}}


def test_unreadable_and_unfinished_files_are_told() -> None:
    assert judge.judge_files([], []).passed
    aside = judge.judge_files([SimpleNamespace(source="a/b.gz", problem="cannot be read")], [])
    assert (aside.passed, aside.facts["unreadable"]) == (False, {"a/b.gz": "cannot be read"})
    waiting = judge.judge_files([], [date(2025, 1, 1)])
    assert (waiting.passed, waiting.facts["still_being_written"]) == (False, ["2025-01-01"])


@pytest.mark.parametrize(
    ("facts", "kind", "names"),
    [
        ({"new_columns": ["tier"]}, "new", ["tier"]),
        ({"missing_columns": ["note"]}, "missing", ["note"]),
        ({"violations": {"completeness__reading_id__required": 60}}, "missing", ["reading_id"]),
        ({"violations": {"validity__pieces__type": 60}}, "retyped", ["pieces"]),
        ({"missing_columns": ["pieces"], "new_columns": ["piece"]}, "renamed-looking", ["pieces → piece"]),
    ],
)
def test_drift_is_a_column_more_or_less_or_other(facts: dict, kind: str, names: list[str], tmp_path: Path) -> None:
    found = judge.judge_drift(contract(tmp_path), {"2025-01-01": entry(100, **facts)})
    assert not found.passed
    assert found.facts["drift"]["2025-01-01"][kind] == names
    assert found.facts["proposal"] == "stream contracts propose readings"


def test_a_few_bad_records_are_no_drift(tmp_path: Path) -> None:
    few = {"completeness__reading_id__required": 50, "validity__pieces__type": 10}
    assert judge.judge_drift(contract(tmp_path), {"2025-01-01": entry(100, violations=few)}).passed


def test_a_contract_may_discard_unknown_columns(tmp_path: Path) -> None:
    """They are told all the same; a missing column still fails."""
    law = contract(tmp_path, document(schemaDrift="discard_column"))
    more = judge.judge_drift(law, {"2025-01-01": entry(new_columns=["tier"])})
    less = judge.judge_drift(law, {"2025-01-01": entry(new_columns=["tier"], missing_columns=["note"])})
    assert more.passed
    assert "tier" in more.summary
    assert not less.passed


@pytest.mark.parametrize(
    ("bound", "accepted", "passed"),
    [
        ({"mustBeGreaterThan": 100}, 101, True),
        ({"mustBeGreaterThan": 100}, 100, False),
        ({"mustBeBetween": [10, 20]}, 20, True),
        ({"mustBeBetween": [10, 20]}, 21, False),
        ({"mustBeLessOrEqualTo": 5}, 6, False),
        ({"mustBe": 7}, 7, True),
    ],
)
def test_row_counts_are_held_to_the_contract(bound: dict, accepted: int, passed: bool, tmp_path: Path) -> None:
    made = document()
    made["schema"][0]["quality"] = [{"id": "enough", "metric": "rowCount", "severity": "error", **bound}]
    found = judge.judge_row_count(contract(tmp_path, made), {"2025-01-01": entry(accepted)})
    assert found.passed is passed


def test_gates_and_limits_are_the_contracts_choice(tmp_path: Path) -> None:
    """Any check may be a gate, a default gate may be none, and the last setting that names a check wins."""
    law = contract(
        tmp_path,
        document(
            checks=[
                {"check": "validity__table__*", "strictness": "gate", "limit": 0.01},
                {"check": "validity__table__warnings", "strictness": "warn"},
                {"check": "completeness__delivery__landed", "strictness": "warn"},
            ]
        ),
    )
    assert is_gate(law, "validity__table__rejected_share")
    assert is_gate(law, "completeness__table__reconciled")
    assert not is_gate(law, "validity__table__warnings")
    assert not is_gate(law, "completeness__delivery__landed")
    assert law.limit("validity__table__rejected_share", 0.05) == 0.01
    assert not judge.judge_rules(
        {"2025-01-01": entry(100, 2, violations={"validity__a__type": 2})}, "validity", 0.01
    ).passed


def test_a_frozen_schema_is_a_gate(tmp_path: Path) -> None:
    assert is_gate(contract(tmp_path, document(schemaDrift="freeze")), "validity__schema__drift")
    assert not is_gate(contract(tmp_path, document()), "validity__schema__drift")


@pytest.mark.parametrize(("age", "passed"), [(timedelta(days=3), True), (timedelta(days=4), False)])
def test_a_delivery_arrives_in_time(age: timedelta, passed: bool, tmp_path: Path) -> None:
    assert judge.judge_arrival(contract(tmp_path), NOW - age, NOW).passed is passed
    assert judge.judge_arrival(contract(tmp_path), None, NOW).summary == "no delivery yet"


def test_every_declared_check_is_judged(tmp_path: Path) -> None:
    """The UI shows exactly the checks that exist, named family, table and rule; gates are among them."""
    counts = {"2025-01-01": entry()}
    silver = [
        judge.judge_reconciliation(counts, {}),
        judge.judge_rules(counts, "completeness"),
        judge.judge_rules(counts, "validity"),
        judge.judge_warnings(counts),
        judge.judge_drift(contract(tmp_path), counts),
        drift.judge_duplicates(counts, {}),
        drift.judge_volume(counts, {}),
        judge.judge_freshness(contract(tmp_path), None, NOW),
    ]
    bronze = [
        judge.judge_delivery({}, {}),
        judge.judge_files([], []),
        judge.judge_arrival(contract(tmp_path), None, NOW),
        drift.judge_deliveries(counts, {}),
    ]
    assert {found.name for found in silver} == set(SILVER_CHECKS)
    assert {found.name for found in bronze} == set(BRONZE_CHECKS)
    assert {*SILVER_CHECKS, *BRONZE_CHECKS} >= GATES
    assert all(found.name.count("__") == 2 for found in silver + bronze)


def test_warnings_are_told_and_their_absence_passes() -> None:
    noted = judge.judge_warnings({"2025-01-01": {"warnings": {"consistency__record__x": 2}}})
    assert (noted.passed, noted.facts["rows_per_rule"]) == (False, {"consistency__record__x": 2})
    assert judge.judge_warnings({"2025-01-01": {"warnings": {}}}).passed
