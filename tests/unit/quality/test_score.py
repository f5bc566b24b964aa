"""The quality score: the weighted share of checks that passed."""

import pytest

from stream_assets.quality.score import (
    DIMENSIONS,
    CheckResult,
    dataset_score,
    dimension_of,
    family_of,
    family_scores,
    quality_score,
    scores_by,
)


def check(passed: bool, is_gate: bool = False) -> CheckResult:
    return CheckResult("silver/orders", "validity__table__x", passed, is_gate)


def test_all_passed_is_one_and_none_passed_is_zero() -> None:
    assert quality_score([check(True), check(True, is_gate=True)]) == 1
    assert quality_score([check(False)]) == 0


def test_a_gate_weighs_three_checks() -> None:
    assert quality_score([check(False, is_gate=True), check(True)]) == 0.25
    assert quality_score([check(True, is_gate=True), check(False)]) == 0.75


def test_without_checks_there_is_no_score() -> None:
    assert quality_score([]) is None


def result(asset: str, name: str, passed: bool) -> CheckResult:
    return CheckResult(asset, name, passed, is_gate=name == "completeness__table__reconciled")


def test_a_family_has_its_weight_however_many_checks_it_has() -> None:
    """Completeness weighs 3 and distribution 1: ten odd columns cost a quarter, as one does."""
    sound = result("silver/a", "completeness__table__reconciled", True)
    for columns in (1, 10):
        odd = [result("silver/a", f"distribution__c{n}__drift", False) for n in range(columns)]
        assert quality_score([sound, *odd]) == 0.75


def test_bronze_and_silver_of_a_dataset_are_judged_together_and_gold_by_table() -> None:
    assert result("bronze/a", "x", True).dataset == result("silver/a", "x", True).dataset == "a"
    assert result("gold/fct_a", "x", True).dataset == "gold/fct_a"


def test_datasets_weigh_by_tier() -> None:
    """A critical dataset weighs 3, an important one 2, all others 1: (3 × 0 + 2 × 1 + 1 × 1) / 6."""
    checks = [
        result("silver/a", "freshness__table__event_time", False),
        result("silver/b", "freshness__table__event_time", True),
        result("gold/c", "unique_c_id", True),
    ]
    assert quality_score(checks, {"a": 1, "b": 2}) == 0.5
    assert scores_by(checks, family_of, {"a": 1, "b": 2}) == {"freshness": 0.4, "uniqueness": 1.0}


def test_family_scores_make_the_score_of_a_dataset() -> None:
    """(3 × 3/4 + 2 × 0) / 5."""
    checks = [
        result("silver/a", "completeness__table__reconciled", True),
        result("silver/a", "completeness__table__rejected_share", False),
        result("silver/a", "uniqueness__table__duplicate_share", False),
    ]
    assert family_scores(checks) == {"completeness": 0.75, "uniqueness": 0.0}
    assert dataset_score(checks) == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("name", "family", "dimension"),
    [
        ("completeness__delivery__landed", "completeness", "completeness"),
        ("validity__table__rejected_share", "validity", "validity"),
        ("validity__schema__drift", "validity", "consistency"),
        ("uniqueness__table__duplicate_share", "uniqueness", "uniqueness"),
        ("distribution__amount__drift", "distribution", "accuracy"),
        ("freshness__table__event_time", "freshness", "timeliness"),
        ("consistency__record__discount_within_total", "validity", "consistency"),
        ("not_null_dim_stores_store_id", "completeness", "completeness"),
        ("unique_dim_stores_store_id", "uniqueness", "uniqueness"),
        ("is_key_fct_campaigns_campaign_id__order_date", "uniqueness", "uniqueness"),
        ("relationships_fct_orders_store_id__store_id__ref_dim_stores_", "validity", "consistency"),
        ("accepted_values_fct_orders_channel__web__app__store", "validity", "validity"),
    ],
)
def test_every_check_and_rule_has_a_family_and_a_dimension(name: str, family: str, dimension: str) -> None:
    assert (family_of(name), dimension_of(name)) == (family, dimension)
    assert dimension in DIMENSIONS
