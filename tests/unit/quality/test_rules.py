"""The row rules that follow from a contract: one per promise, named by family, column and rule."""

from pathlib import Path

import pytest

from stream_assets.quality.rules import build_rules
from tests.documents import bend, contract, document, with_column


def ids(folder: Path, made: dict) -> list[str]:
    return [rule.id for rule in build_rules(contract(folder, made))]


def test_a_contract_without_options_has_the_rules_of_its_types(tmp_path: Path) -> None:
    """Text is always of its type; a key is required whether it says so or not; an event time has a window."""
    assert ids(tmp_path, document()) == [
        "completeness__reading_id__required",
        "validity__taken_at__type",
        "completeness__taken_at__required",
        "validity__amount__type",
        "validity__pieces__type",
        "validity__ratio__type",
        "validity__is_final__type",
        "validity__due_date__type",
        "validity__taken_at__window",
        "consistency__record__pieces_positive",
    ]


ALLOWED = {
    "id": "known",
    "metric": "invalidValues",
    "arguments": {"validValues": ["a", "b"]},
    "mustBe": 0,
    "severity": "error",
}


@pytest.mark.parametrize(
    ("column", "rule", "argument"),
    [
        ({"required": True}, "completeness__extra__required", None),
        ({"quality": [ALLOWED]}, "validity__extra__allowed", ("a", "b")),
        (
            {"logicalType": "integer", "logicalTypeOptions": {"minimum": 1, "exclusiveMaximum": 9}},
            "validity__extra__range",
            {"minimum": 1, "exclusiveMaximum": 9},
        ),
        ({"logicalTypeOptions": {"minLength": 2}}, "validity__extra__length", {"minLength": 2}),
        ({"logicalTypeOptions": {"pattern": "^x"}}, "validity__extra__pattern", "^x"),
        ({"logicalTypeOptions": {"format": "uuid"}}, "validity__extra__format", "uuid"),
    ],
)
def test_each_promise_is_one_rule(column: dict, rule: str, argument: object, tmp_path: Path) -> None:
    made = build_rules(contract(tmp_path, with_column(document(), **column)))
    assert [found.argument for found in made if found.id == rule] == [argument]


def test_the_envelope_has_rules_of_its_own(tmp_path: Path) -> None:
    found = ids(tmp_path, document(envelope=True))
    assert {"validity__event_id__format", "validity__event_type__allowed", "validity__event_version__range"} <= set(
        found
    )


def test_reference_data_has_no_window(tmp_path: Path) -> None:
    """What has no event time cannot be late."""
    made = document(datasetKind="reference", eventTime=None, orderBy=None)
    assert not [rule for rule in ids(tmp_path, made) if rule.endswith("__window")]


@pytest.mark.parametrize(
    ("dimension", "family"),
    [
        ("consistency", "consistency"),
        ("completeness", "completeness"),
        ("uniqueness", "uniqueness"),
        ("conformity", "validity"),
    ],
)
def test_a_rule_between_columns_is_of_its_dimension(dimension: str, family: str, tmp_path: Path) -> None:
    made = bend(document(), "schema.0.quality.0.dimension", dimension)
    assert ids(tmp_path, made)[-1] == f"{family}__record__pieces_positive"


def test_a_warning_is_known_as_such(tmp_path: Path) -> None:
    """A rule that only warns must not quarantine; its severity travels with it."""
    made = bend(document(), "schema.0.quality.0.severity", "warning")
    assert build_rules(contract(tmp_path, made))[-1].severity == "warning"
