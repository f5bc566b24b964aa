"""What a run that was killed left undone is found in the ledgers: the days its deliveries brought records of, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from stream_assets.contracts.model import Contract
from stream_assets.engine.held import CONTRACT, RETENTION
from stream_assets.gold.models import Model
from stream_assets.ops.backfill.missed import missed_days
from stream_assets.ops.backfill.stale import Scope
from stream_assets.silver.audit import VERDICT
from stream_assets.silver.refine import REFINE_VERSION
from tests.documents import contract, document
from tests.ledgers import FACTS, MadeLake
from tests.unit.ops.conftest import DAYS

LATE, BETWEEN, LAST = DAYS[3:]
ALL = ("bronze/readings", "silver/readings", "quarantine/readings", "gold/facts", "gold/totals")


def missed(made: MadeLake, law: Contract | None = None, *, asked: date = LAST, wanted: tuple[str, ...] = ALL) -> list:
    return sorted(missed_days(made.look(law), wanted, Scope(asked, asked)))


def test_nothing_is_missed_in_a_lake_just_built(made: MadeLake) -> None:
    assert missed(made) == []


def test_a_day_that_landed_records_belong_to_is_missed_until_it_is_made(made: MadeLake) -> None:
    """In Silver, and then in Gold. A day between them, which the delivery might have held records of, is not."""
    made.land(LAST, LAST, LATE, files="b")
    assert missed(made) == [LATE]
    made.refine(LATE, LAST)
    assert missed(made) == [LATE]
    made.build(LATE, LAST)
    assert missed(made) == []


def test_a_day_that_lost_a_record_is_missed(made: MadeLake) -> None:
    made.land(LAST, LAST, LATE, files="b")
    made.refine(*DAYS)
    made.build(*DAYS)
    made.land(LAST, LAST, files="c")
    assert missed(made) == [LATE]


def test_what_another_delivery_brought_is_for_a_run_of_that_day(made: MadeLake) -> None:
    made.land(BETWEEN, BETWEEN, LATE, files="b")
    assert missed(made) == []
    assert missed(made, asked=BETWEEN) == [LATE]


def test_another_contract_alone_makes_no_day_missed(made: MadeLake) -> None:
    """Every day is stale then: to make them anew is what a backfill is for. It hides no late record either."""
    other = replace(made.law, null_values=("n/a",))
    assert missed(made, other) == []
    made.land(LAST, LAST, LATE, files="b")
    assert missed(made, other) == [LATE]


def test_of_days_that_were_never_made_only_those_with_records_are_missed(tmp_path: Path) -> None:
    """A first run of one day in the middle of much that is landed."""
    lake = MadeLake(tmp_path / "home", contract(tmp_path, document(maxLateness=2)))
    for day in DAYS:
        lake.land(day, day)
    lake.land(LAST, LAST, LATE, files="b")
    assert missed(lake) == [LATE]
    lake.refine(*DAYS)
    assert missed(lake) == [LATE], "Gold of it was never built"


@pytest.mark.parametrize("until", [CONTRACT, RETENTION])
def test_a_held_day_is_not_missed(until: str, made: MadeLake) -> None:
    """Rolled back, or past its retention: late data does not bring it back."""
    made.refine(LATE, held={"by": "r", "undone": f"{REFINE_VERSION}:{made.law.shape}:bad", "until": until})
    made.land(LAST, LAST, LATE, files="b")
    assert missed(made) == []


def test_gold_that_was_put_back_on_purpose_stays(made: MadeLake) -> None:
    made.land(LAST, LAST, LATE, files="b")
    made.refine(LATE, LAST)
    made.build(LATE, LAST, inputs={}, restored={"reason": "a bad model"})
    assert missed(made) == []


def test_all_that_a_topic_brought_counts(made: MadeLake) -> None:
    """It is landed whole, whatever days are asked for."""
    made.land(BETWEEN, BETWEEN, LATE, files="b", from_topic=True)
    assert missed(made) == [LATE, BETWEEN]


def test_a_new_table_of_gold_is_for_a_backfill(made: MadeLake) -> None:
    """It lacks every day that a topic ever brought."""
    for day in DAYS:
        made.land(day, day, from_topic=True)
    new = Model("new", "code-3", frozenset({"silver/readings"}), "day")
    lake = made.look(None, FACTS, new)
    assert missed_days(lake, (*ALL, "gold/new"), Scope(LAST, LAST)) == set()


def test_a_day_that_failed_a_gate_is_tried_again_with_its_delivery(made: MadeLake) -> None:
    """A run of other days lets it be, until something else comes for it."""
    made.land(BETWEEN, BETWEEN, LATE, files="b", from_topic=True)
    made.refine(LATE, BETWEEN, layer="audit", **{VERDICT: {"gate": "found"}})
    assert missed(made) == []
    made.land(LAST, LAST, files="c")
    assert missed(made) == [], "part of what it is computed from, but none of its records"
    assert missed(made, asked=BETWEEN) == [LATE]
    made.land(BETWEEN, BETWEEN, LATE, files="d", from_topic=True)
    assert missed(made) == [LATE, BETWEEN]


def test_only_what_is_landed_and_refined_by_a_run_is_taken_up(made: MadeLake) -> None:
    made.land(LAST, LAST, LATE, files="b")
    assert missed(made, wanted=("bronze/readings",)) == []
    assert missed(made, wanted=("silver/readings", "gold/facts")) == []
    assert missed(made, wanted=("bronze/readings", "silver/readings")) == [LATE]


def test_a_log_that_cannot_be_read_is_told_by_its_own_step(made: MadeLake) -> None:
    made.land(LAST, LAST, LATE, files="b")
    for asset, left in (("gold/facts", [LATE]), ("silver/readings", [])):
        for file in Path(f"{made.settings.lake}/{asset}/_delta_log").glob("*.json"):
            file.write_text("not a commit\n")
        assert missed(made) == left
