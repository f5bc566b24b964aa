"""Rows by their fate under two contracts, added up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stream_assets.silver.effects import Group, SchemaChange, Simulation, Tally, add_up, add_up_days, schema_changes

RULES = st.lists(st.sampled_from(("a", "b", "c")), unique=True).map(tuple)


@st.composite
def groups(draw) -> Group:
    before, after = draw(RULES), draw(RULES)
    sound = st.sampled_from(("accepted", "duplicates"))
    return Group(
        day=draw(st.sampled_from(("2025-03-08", "2025-03-09"))),
        before="quarantined" if before else draw(sound),
        after="quarantined" if after else draw(sound),
        rows=draw(st.integers(1, 50)),
        broken_before=before,
        broken_after=after,
    )


def simulation(*made: Group, schema: tuple[SchemaChange, ...] = ()) -> Simulation:
    return Simulation("readings", "1.0.0", "2.0.0", (), add_up(made), schema)


@given(st.lists(groups()))
def test_every_row_is_counted_once_before_and_after(made: list[Group]) -> None:
    effects = add_up(made)
    rows = sum(group.rows for group in made)
    for tally in (effects.before, effects.after):
        assert tally.accepted + tally.quarantined + tally.duplicates == rows
    assert effects.after.quarantined == effects.before.quarantined + effects.newly_rejected - effects.recovered


@given(st.lists(groups()))
def test_days_add_up_to_the_whole(made: list[Group]) -> None:
    days = add_up_days(made, sorted({group.day for group in made}), {})
    assert sum(day.effects.newly_rejected for day in days) == add_up(made).newly_rejected
    assert sum(day.effects.after.accepted for day in days) == add_up(made).after.accepted


def test_a_row_counts_for_every_rule_it_breaks() -> None:
    effects = add_up(
        [
            Group("d", "accepted", "quarantined", 3, broken_after=("a", "b")),
            Group("d", "quarantined", "duplicates", 2, broken_before=("b",)),
            Group("d", "quarantined", "quarantined", 5, broken_before=("b",), broken_after=("a",)),
        ]
    )
    found = {rule.rule: (rule.before, rule.after, rule.newly_rejected, rule.recovered) for rule in effects.rules}
    assert found == {"a": (0, 8, 3, 0), "b": (7, 3, 3, 2)}
    assert (effects.newly_rejected, effects.recovered) == (3, 2)
    assert effects.moves == {"accepted → quarantined": 3, "quarantined → duplicates": 2}


def test_a_day_is_stale_when_the_ledger_says_something_else() -> None:
    made = [Group("a", "accepted", "accepted", 3), Group("b", "accepted", "accepted", 3)]
    ledger = {
        "a": {"accepted": 3, "quarantined": 0, "duplicates": 0},
        "b": {"accepted": 2, "quarantined": 1, "duplicates": 0},
    }
    stale = {day.day: day.is_stale for day in add_up_days(made, ("a", "b", "c"), ledger)}
    assert stale == {"a": False, "b": True, "c": True}
    assert add_up_days(made, ("a",), ledger)[0].ledger == Tally(accepted=3)


def test_a_difference_is_a_move_a_value_a_rule_a_warning_or_a_column() -> None:
    same = Group("d", "quarantined", "quarantined", 1, broken_before=("a",), broken_after=("a",))
    assert not simulation(
        same, Group("d", "accepted", "accepted", 4, warned_before=("w",), warned_after=("w",))
    ).differs
    assert simulation(same, Group("d", "accepted", "duplicates", 1)).differs
    assert simulation(same, Group("d", "accepted", "accepted", 4, changed=1, columns={"x": 1})).differs
    assert simulation(Group("d", "quarantined", "quarantined", 1, broken_before=("a",), broken_after=("b",))).differs
    assert simulation(same, Group("d", "accepted", "accepted", 4, warned_after=("w",))).differs
    assert simulation(same, schema=(SchemaChange("x", None, "string"),)).differs


def test_columns_come_go_and_change_type() -> None:
    found = schema_changes(
        {"kept": "string", "gone": "date", "other": "bigint"}, {"kept": "string", "other": "double", "new": "date"}
    )
    assert found == (
        SchemaChange("gone", "date", None),
        SchemaChange("other", "bigint", "double"),
        SchemaChange("new", None, "date"),
    )
