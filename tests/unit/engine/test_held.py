"""A day that was rolled back stays as it is until what made it wrong has changed."""

from stream_assets.engine.held import CONTRACT, DELIVERIES, hold, is_held

GOOD, BAD = {"inputs": "3:good:d1"}, {"inputs": "3:bad:d1"}


def test_a_bad_contract_is_held_off_until_it_changes() -> None:
    held = hold(GOOD, BAD, "inputs", "rollback-1")
    assert held["held"] == {"by": "rollback-1", "undone": "3:bad:d1", "until": CONTRACT}
    assert is_held(held, "3:bad:d1")
    assert is_held(held, "3:bad:d2"), "late data does not bring the bad rule back"
    assert not is_held(held, "3:mended:d1")
    assert not is_held(held, "4:bad:d1"), "other code computes something else"


def test_a_bad_delivery_is_held_off_until_it_comes_again() -> None:
    held = hold({"inputs": "3:law:d1"}, {"inputs": "3:law:d2"}, "inputs", "rollback-1")
    assert held["held"]["until"] == DELIVERIES
    assert is_held(held, "3:law:d2")
    assert not is_held(held, "3:law:d3")
    landed = hold({"files": "2:a"}, {"files": "2:b"}, "files", "rollback-1")
    assert is_held(landed, "2:b")
    assert not is_held(landed, "2:c")


def test_undoing_a_rollback_holds_nothing() -> None:
    held = hold(GOOD, BAD, "inputs", "rollback-1")
    assert hold(BAD, held, "inputs", "rollback-2") == BAD
    assert not is_held(BAD, "3:bad:d1")


def test_going_further_back_still_holds_off_what_was_undone_first() -> None:
    held = hold(GOOD, BAD, "inputs", "rollback-1")
    older = hold({"inputs": "2:older:d1"}, held, "inputs", "rollback-2")
    assert is_held(older, "3:bad:d1")


def test_a_day_that_never_was_is_held_empty() -> None:
    assert is_held(hold({"inputs": ""}, BAD, "inputs", "rollback-1"), "3:bad:d9")
