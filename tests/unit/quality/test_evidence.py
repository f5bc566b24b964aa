"""What stands beside a failed check: a few records by name, and the commands that show them and judge them again."""

from pathlib import Path
from typing import Any

import pytest

from stream_assets.quality import outcomes as judge
from stream_assets.quality.evidence import with_evidence
from stream_assets.quality.samples import is_nobodys
from tests.documents import bend, contract, document

RULE, OTHER = "validity__amount__type", "completeness__taken_at__required"


def entry(samples: dict[str, list[str]], **counts: int) -> dict[str, Any]:
    violations = dict(counts or {RULE: 50})
    return {"rows_in": 100, "quarantined": sum(violations.values()), "violations": violations, "samples": samples}


def test_a_failed_check_names_records_of_its_own_days_and_rules() -> None:
    """Of the days above the limit only, of the rules of its family only, and never more than three."""
    entries = {
        "2025-01-01": entry({RULE: ["r1", "r2"], OTHER: ["o1"]}, **{RULE: 40, OTHER: 2}),
        "2025-01-02": entry({RULE: ["r3", "r4"]}),
        "2025-01-03": entry({RULE: ["r9"]}, **{RULE: 1}),
    }
    found = with_evidence("readings", judge.judge_rules(entries, "validity"), entries)
    assert found.facts["sample"] == ["r1", "r2", "r3"]
    assert found.facts["look"] == "stream quarantine show readings --day 2025-01-01..2025-01-02"
    assert found.facts["replay"] == "stream replay readings --from 2025-01-01 --to 2025-01-02"


def test_a_check_that_passed_names_nobody() -> None:
    entries = {"2025-01-01": entry({RULE: ["r1"]}, **{RULE: 1})}
    assert "sample" not in with_evidence("readings", judge.judge_rules(entries, "validity"), entries).facts


def test_accepted_records_are_named_without_a_way_to_quarantine() -> None:
    """A rule of severity warning rejects nothing: there is nothing to replay."""
    entries = {"2025-01-01": {"warnings": {RULE: 1}, "violations": {}, "samples": {RULE: ["r1"]}}}
    found = with_evidence("readings", judge.judge_warnings(entries), entries)
    assert (found.facts["sample"], "look" in found.facts) == (["r1"], False)


def test_entries_of_before_have_no_samples() -> None:
    entries = {"2025-01-01": {k: v for k, v in entry({}).items() if k != "samples"}}
    assert "sample" not in with_evidence("readings", judge.judge_rules(entries, "validity"), entries).facts


def _key(**more: Any) -> dict[str, Any]:
    return bend(document(), "schema.0.properties.0", {**document()["schema"][0]["properties"][0], **more})


@pytest.mark.parametrize(
    ("made", "is_shown"),
    [
        (document(), True),
        (_key(customProperties=[{"property": "pii", "value": {"strategy": "hash"}}]), False),
        (_key(customProperties=[{"property": "pii", "value": {"strategy": "keep", "reason": "x"}}]), False),
        (_key(relationships=[{"to": "people.person_id"}]), False),
    ],
    ids=["plain", "hashed", "kept", "points at somebody"],
)
def test_a_key_that_may_be_somebodys_is_not_shown(made: dict, is_shown: bool, tmp_path: Path) -> None:
    """Not even hashed: whoever is to be forgotten must be nowhere, in any form."""
    assert is_nobodys(contract(tmp_path, made)) == is_shown


def test_keys_of_people_are_not_shown(tmp_path: Path) -> None:
    made = document(datasetKind="entity")
    assert is_nobodys(contract(tmp_path / "things", made))
    pii = [{"property": "pii", "value": {"strategy": "hash"}}]
    people = bend(made, "schema.0.properties.7.customProperties", pii)
    assert not is_nobodys(contract(tmp_path / "people", people))


@pytest.mark.parametrize(("orphans", "limit", "passed"), [(0, 0.0, True), (1, 0.0, False), (1, 0.01, True)])
def test_orphans_are_held_to_a_limit(orphans: int, limit: float, passed: bool, tmp_path: Path) -> None:
    """None at all unless the contract tolerates a share of the day's records."""
    name = "consistency__text__references"
    pointing = bend(
        document(checks=[{"check": name, "limit": limit}]), "schema.0.properties.7.relationships", [{"to": "a.b"}]
    )
    law = contract(tmp_path, pointing)
    rows = judge.Orphans({"2025-01-01": orphans} if orphans else {}, ("r1",) if orphans else ())
    found = judge.judge_references(law, "text", rows, {"2025-01-01": {"accepted": 100}})
    assert (found.name, found.passed, found.facts["points_at"]) == (name, passed, "a.b")
    assert found.facts.get("sample") == (None if passed else ["r1"])
    if not passed:
        assert found.summary == "2025-01-01: 1 of 100 records point at no a.b"


def test_without_the_other_table_it_says_so(tmp_path: Path) -> None:
    law = contract(tmp_path, bend(document(), "schema.0.properties.7.relationships", [{"to": "a.b"}]))
    found = judge.judge_references(law, "text", None, {})
    assert (found.passed, found.summary) == (True, "there is no a.b yet to compare with")
