"""From what is known of a history to rules that could be promised."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_assets.contracts.evidence import (
    SHAPES,
    STRUCTURED,
    TAGGED,
    ColumnFacts,
    OrderFacts,
    ReferenceFacts,
    Shape,
    Survey,
    Target,
    order_pairs,
    possible_references,
)
from stream_assets.contracts.load import load_contract
from stream_assets.contracts.model import Contract
from stream_assets.contracts.suggest import Suggestion, lower_bound, suggest, upper_bound
from tests.documents import bend, contract, document, with_column

SPECS = Path(__file__).parents[3] / "stream_assets" / "contracts" / "specs"
DAYS = tuple(date(2025, 3, 1) + timedelta(days=n) for n in range(9))
ROWS = 5_000
PII = [{"property": "pii", "value": {"strategy": "hash"}}]


def survey(law: Contract, *, rows: int = ROWS, days: tuple[date, ...] = DAYS, **columns: ColumnFacts) -> Survey:
    """A history in which nothing but the given columns has a habit."""
    silent = {column.name: ColumnFacts(present=1) for column in law.columns}
    return Survey(rows, days, silent | columns)


def suggested(law: Contract, found: Survey) -> dict[str, Suggestion]:
    return {suggestion.rule: suggestion for suggestion in suggest(law, found)}


def promise(suggestion: Suggestion) -> dict[str, Any]:
    """What is added to the one column."""
    (column,) = suggestion.fragment["properties"]
    return {name: value for name, value in column.items() if name != "name"}


@pytest.fixture
def law(tmp_path: Path) -> Contract:
    return contract(tmp_path)


def test_a_column_that_always_has_a_value_may_be_required(law: Contract) -> None:
    found = suggested(law, survey(law, is_final=ColumnFacts(ROWS), due_date=ColumnFacts(ROWS - 1)))
    assert list(found) == ["completeness__is_final__required"]
    assert promise(found["completeness__is_final__required"]) == {"required": True}
    assert found["completeness__is_final__required"].evidence == "No null in 5,000 rows (9 days)."


def test_a_few_rows_prove_nothing(law: Contract) -> None:
    assert not suggested(law, survey(law, rows=99, is_final=ColumnFacts(99)))
    assert suggested(law, survey(law, rows=100, is_final=ColumnFacts(100))).popitem()[1].confidence == "low"


def test_few_stable_values_may_be_listed(law: Contract) -> None:
    found = suggested(law, survey(law, text=ColumnFacts(4_000, values={"b": DAYS[0], "a": DAYS[5]})))
    (rule,) = promise(found["validity__text__allowed"])["quality"]
    assert rule["arguments"] == {"validValues": ["a", "b"]}
    assert found["validity__text__allowed"].evidence == (
        "2 distinct values in 4,000 rows (9 days, 80.0% of all), none of them new in the last 3 days."
    )


@pytest.mark.parametrize(
    "facts",
    [
        ColumnFacts(ROWS - 1, values={"a": DAYS[0], "b": DAYS[6]}),
        ColumnFacts(999, values={"a": DAYS[0]}),
        ColumnFacts(ROWS - 1, values={str(n): DAYS[0] for n in range(21)}),
        ColumnFacts(ROWS - 1, values={"x" * 61: DAYS[0]}),
    ],
    ids=["new in the last third", "few rows", "many values", "long values"],
)
def test_values_that_may_not_be_all_are_not_listed(law: Contract, facts: ColumnFacts) -> None:
    assert not suggested(law, survey(law, text=facts))


def test_identifiers_are_not_listed_nor_bounded(tmp_path: Path) -> None:
    """Twelve stores today say nothing of the thirteenth."""
    law = contract(
        tmp_path, with_column(with_column(document(), name="store_id"), name="batch_id", logicalType="integer")
    )
    facts = {
        "store_id": ColumnFacts(ROWS - 1, values={"a": DAYS[0]}),
        "batch_id": ColumnFacts(ROWS - 1, smallest=1, largest=9),
    }
    assert not suggested(law, survey(law, **facts))


def test_a_range_leaves_room_and_is_friendly(law: Contract) -> None:
    found = suggested(law, survey(law, pieces=ColumnFacts(ROWS - 1, smallest=-7, largest=84_300)))
    assert promise(found["validity__pieces__range"]) == {"logicalTypeOptions": {"minimum": -10, "maximum": 200_000}}
    assert "Between -7 and 84,300 in 4,999 rows" in found["validity__pieces__range"].evidence


def test_only_the_open_side_of_a_range_is_suggested(tmp_path: Path) -> None:
    options = {"exclusiveMinimum": 0}
    law = contract(tmp_path, bend(document(), "schema.0.properties.3.logicalTypeOptions", options))
    found = suggested(law, survey(law, pieces=ColumnFacts(ROWS - 1, smallest=1, largest=3)))
    assert promise(found["validity__pieces__range"]) == {"logicalTypeOptions": {"maximum": 5}}


@pytest.mark.parametrize("largest", [2**63 - 1, float("inf")])
def test_a_bound_that_no_contract_holds_is_not_suggested(law: Contract, largest: float) -> None:
    assert not suggested(law, survey(law, pieces=ColumnFacts(ROWS - 1, smallest=0, largest=largest)))


@given(st.floats(-1e15, 1e15))
def test_bounds_are_outside(value: float) -> None:
    """Whatever was seen stays allowed."""
    assert lower_bound(value) <= value <= upper_bound(value)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != TAGGED])
def test_a_form_that_all_texts_have_is_suggested(law: Contract, shape: Shape) -> None:
    found = suggested(law, survey(law, text=ColumnFacts(ROWS - 1, matching={shape: ROWS - 1})))
    assert promise(found[f"validity__text__{shape.option}"]) == {"logicalTypeOptions": {shape.option: shape.argument}}
    assert not suggested(law, survey(law, text=ColumnFacts(ROWS - 1, matching={shape: ROWS - 2})))


def test_tagged_identifiers_promise_their_tag(law: Contract) -> None:
    matching = {TAGGED: ROWS - 1}
    found = suggested(law, survey(law, text=ColumnFacts(ROWS - 1, matching=matching, prefix="ses_0")))
    assert promise(found["validity__text__pattern"]) == {"logicalTypeOptions": {"pattern": "^ses_[0-9a-z]+$"}}
    assert not suggested(law, survey(law, text=ColumnFacts(ROWS - 1, matching=matching, prefix="se")))


def test_lengths_are_suggested_where_nothing_better_is_known(law: Contract) -> None:
    varied = suggested(law, survey(law, text=ColumnFacts(ROWS - 1, shortest=2, longest=70)))
    assert promise(varied["validity__text__length"]) == {"logicalTypeOptions": {"minLength": 1, "maxLength": 100}}
    fixed = suggested(law, survey(law, text=ColumnFacts(ROWS - 1, shortest=8, longest=8)))
    assert promise(fixed["validity__text__length"]) == {"logicalTypeOptions": {"minLength": 8, "maxLength": 8}}
    empty = suggested(law, survey(law, text=ColumnFacts(ROWS - 1, shortest=0, longest=8)))
    assert promise(empty["validity__text__length"]) == {"logicalTypeOptions": {"maxLength": 10}}


def test_json_kept_as_text_gets_no_rule_about_text(law: Contract) -> None:
    facts = ColumnFacts(ROWS - 1, shortest=2, longest=70, matching={STRUCTURED: ROWS - 1})
    assert not suggested(law, survey(law, detail=facts))


def test_of_personal_data_only_presence_is_looked_at(tmp_path: Path) -> None:
    """Even facts that should never have been collected make no suggestion."""
    law = contract(tmp_path, with_column(document(), name="email", customProperties=PII))
    facts = ColumnFacts(ROWS, is_unique=True, shortest=3, longest=9, prefix="ada@", values={"ada@example.com": DAYS[0]})
    found = suggested(law, survey(law, email=facts))
    assert list(found) == ["completeness__email__required"]
    assert "ada" not in repr(found)


def test_a_column_without_repetition_may_be_unique(law: Contract) -> None:
    facts = ColumnFacts(ROWS - 1, is_unique=True)
    found = suggested(law, survey(law, text=facts, reading_id=facts))
    assert promise(found["uniqueness__text__unique"]) == {"unique": True}
    assert "uniqueness__reading_id__unique" not in found


def test_what_is_stated_as_unique_is_not_suggested_again(tmp_path: Path) -> None:
    law = contract(tmp_path, with_column(document(), unique=True))
    assert not suggested(law, survey(law, extra=ColumnFacts(ROWS - 1, is_unique=True)))


def test_an_order_that_always_held_is_suggested(tmp_path: Path) -> None:
    made = with_column(document(), name="closed_at", logicalType="timestamp")
    law = contract(tmp_path, made)
    pair = ("taken_at", "closed_at")
    assert order_pairs(law) == [pair]

    def found(*facts: int) -> list[str]:
        orders = {pair: OrderFacts(*facts)}
        made = suggest(law, Survey(ROWS, DAYS, survey(law).columns, orders))
        return [s.fragment["quality"][0]["implementation"]["expression"] for s in made]

    assert found(2_000, 2_000, 3) == ["taken_at <= closed_at"]
    assert found(2_000, 3, 2_000) == ["closed_at <= taken_at"]
    assert found(2_000, 1_999, 3) == found(2_000, 2_000, 2_000) == found(999, 999, 3) == []


@pytest.mark.parametrize("sql", ["taken_at <= closed_at", "closed_at>taken_at", "pieces > 1 and taken_at < closed_at"])
def test_a_promised_order_is_not_suggested_again(tmp_path: Path, sql: str) -> None:
    made = with_column(document(), name="closed_at", logicalType="timestamp")
    law = contract(tmp_path, bend(made, "schema.0.quality.0.implementation.expression", sql))
    orders = {("taken_at", "closed_at"): OrderFacts(2_000, 2_000, 3)}
    assert not suggest(law, Survey(ROWS, DAYS, survey(law).columns, orders))


def test_amounts_are_paired_by_unit() -> None:
    """Cents compare with cents and moments with moments; keys, flags and personal data with nothing."""
    pairs = order_pairs(load_contract(SPECS / "orders.odcs.yaml"))
    assert set(pairs) == {
        ("total_cents", "discount_cents"),
        ("event_timestamp", "ordered_at"),
        ("event_timestamp", "updated_at"),
        ("ordered_at", "updated_at"),
    }


def test_a_reference_needs_the_name_and_protection_of_a_key() -> None:
    laws = {
        name: load_contract(SPECS / f"{name}.odcs.yaml") for name in ("orders", "customers", "stores", "web_events")
    }
    assert list(possible_references(laws["web_events"], laws)) == [("customer_id", Target("customers", "customer_id"))]
    assert not list(possible_references(laws["orders"], laws)), "already tied"


@pytest.mark.parametrize(("orphans", "expected"), [(0, [{"to": "customers.customer_id"}]), (1, None)])
def test_a_reference_is_suggested_when_no_value_is_an_orphan(orphans: int, expected: Any) -> None:
    law = load_contract(SPECS / "web_events.odcs.yaml")
    columns = survey(law, customer_id=ColumnFacts(3_000)).columns
    references = {("customer_id", Target("customers", "customer_id")): ReferenceFacts(70, orphans)}
    found = suggest(law, Survey(ROWS, DAYS, columns, references=references))
    assert [promise(made)["relationships"] for made in found] == ([expected] if expected else [])


def test_confidence_grows_with_rows_and_days_but_bounds_stay_guesses(law: Contract) -> None:
    days = tuple(date(2025, 3, 1) + timedelta(days=n) for n in range(14))
    facts = ColumnFacts(10_000, smallest=1, largest=9)
    found = suggested(law, survey(law, rows=10_000, days=days, pieces=facts))
    assert found["completeness__pieces__required"].confidence == "high"
    assert found["validity__pieces__range"].confidence == "medium"
