"""The quality score: the weighted share of checks that passed."""

from stream_assets.quality.score import CheckResult, quality_score


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
