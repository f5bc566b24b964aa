"""What a person and a machine see of a simulation."""

from __future__ import annotations

import io
import json

from rich.console import Console

from stream_assets.ops.show_simulation import show_simulation, simulation_document
from stream_assets.silver.effects import Group, SchemaChange, Simulation, add_up, add_up_days

DAY = "2025-03-09"
RULE = "completeness__campaign_id__required"
LEDGER = {DAY: {"accepted": 1_500, "quarantined": 0, "duplicates": 0}}


def simulation(*groups: Group, schema: tuple[SchemaChange, ...] = ()) -> Simulation:
    days = add_up_days(groups, (DAY,), LEDGER)
    return Simulation("orders", "1.0.0", "2.0.0", days, add_up(groups), schema, ("Something to know.",))


def shown(made: Simulation, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    show_simulation(console, made)
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_every_figure_that_differs_is_shown_beside_the_old_one() -> None:
    kept = Group(DAY, "accepted", "accepted", 1_000, changed=7, columns={"note": 7})
    lost = Group(DAY, "accepted", "quarantined", 500, broken_after=(RULE,))
    text = shown(simulation(kept, lost, schema=(SchemaChange("note", None, "string"),)))
    for part in ("1.0.0 → 2.0.0", DAY, "1,500 → 1,000", "0 → 500", RULE, "accepted → quarantined: 500 rows"):
        assert part in text
    assert "other values in note: 7 rows" in text and "gets note (string)" in text and "Something to know." in text
    assert "No difference" not in text


def test_no_difference_is_said() -> None:
    assert "No difference." in shown(simulation(Group(DAY, "accepted", "accepted", 1_500)))


def test_machines_get_the_same() -> None:
    made = simulation(Group(DAY, "accepted", "quarantined", 1_500, broken_after=(RULE,)))
    found = json.loads(json.dumps(simulation_document(made)))
    assert found["differs"] and found["total"]["newly_rejected"] == 1_500
    assert found["days"][0]["ledger"]["accepted"] == 1_500
    assert found["days"][0]["effects"]["rules"][0]["rule"] == RULE


def test_rules_keep_their_whole_name_on_a_narrow_screen() -> None:
    made = simulation(Group(DAY, "accepted", "quarantined", 1_500, broken_after=(RULE,)))
    assert RULE in shown(made, width=80)
