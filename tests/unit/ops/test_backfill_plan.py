"""A plan names what is really stale and nothing else, and says what making it again takes. No engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from stream_assets.contracts.model import Bounds, CheckSetting
from stream_assets.engine.ledger import Commit
from stream_assets.errors import StreamError
from stream_assets.gold.models import Model
from stream_assets.ops.backfill.estimate import History, StepRun, fit, rate_of
from stream_assets.ops.backfill.make import Facts, Request, _Work, make_plan, scopes_of
from stream_assets.ops.backfill.plan import Plan, ranges_of, stages_of
from stream_assets.ops.backfill.stale import CODE, CONTRACT, INPUT, NEVER, UPSTREAM, WHOLE, Scope, find_stale
from tests.ledgers import FACTS, TOTALS, MadeLake
from tests.unit.ops.conftest import DAYS

ALL = {name: Scope(DAYS[0], DAYS[-1]) for name in ("readings", "*")}
ASSETS = ("silver/readings", "quarantine/readings", "gold/facts", "gold/totals")


def iso(*days: date) -> list[str]:
    return [day.isoformat() for day in days]


def test_nothing_is_stale_in_a_lake_just_built(made: MadeLake) -> None:
    assert find_stale(made.look(), ASSETS, ALL) == {}


def test_another_contract_makes_every_day_stale_and_what_is_made_of_it(made: MadeLake) -> None:
    stale = find_stale(made.look(replace(made.law, null_values=("n/a",))), ASSETS, ALL)
    assert stale["silver/readings"] == stale["quarantine/readings"] == dict.fromkeys(iso(*DAYS), CONTRACT)
    assert stale["gold/facts"] == dict.fromkeys(iso(*DAYS), UPSTREAM)
    assert stale["gold/totals"] == {WHOLE: UPSTREAM}


def test_what_only_judges_days_makes_none_stale(made: MadeLake) -> None:
    """A limit, a gate, an owner, a target: the rows would be the same."""
    judged = replace(
        made.law,
        check_settings=(CheckSetting("validity__table__rejected_share", strictness="gate", limit=0.01),),
        row_counts=(Bounds("enough", 1, None),),
        freshness=timedelta(hours=9),
        owner="somebody@example.com",
        version="1.1.0",
        fingerprint="changed",
    )
    assert find_stale(made.look(judged), ASSETS, ALL) == {}


def test_only_days_in_the_window_are_looked_at(made: MadeLake) -> None:
    window = {name: Scope(DAYS[1], DAYS[2]) for name in ALL}
    stale = find_stale(made.look(replace(made.law, null_values=("n/a",))), ASSETS, window)
    assert [*stale["silver/readings"]] == [*stale["gold/facts"]] == iso(DAYS[1], DAYS[2])


def test_a_delivery_makes_stale_only_days_it_holds_records_of(made: MadeLake) -> None:
    """It is among the inputs of every day it might have held records of; that says nothing yet."""
    made.land(DAYS[5], DAYS[5], DAYS[4], files="b")
    stale = find_stale(made.look(), ASSETS, ALL)
    assert stale["silver/readings"] == dict.fromkeys(iso(DAYS[4], DAYS[5]), INPUT)
    assert stale["gold/facts"] == dict.fromkeys(iso(DAYS[4], DAYS[5]), UPSTREAM)


def test_a_delivery_that_lost_its_records_of_a_day_makes_that_day_stale(made: MadeLake) -> None:
    made.land(DAYS[5], DAYS[5], DAYS[4], files="b")
    made.refine(*DAYS)
    made.build(*DAYS)
    assert find_stale(made.look(), ASSETS, ALL) == {}
    made.land(DAYS[5], DAYS[5], files="c")
    assert [*find_stale(made.look(), ASSETS, ALL)["silver/readings"]] == iso(DAYS[4], DAYS[5])


def test_days_refined_after_gold_was_built_are_stale_there(made: MadeLake) -> None:
    made.land(DAYS[2], DAYS[2], DAYS[2], files="b")
    made.refine(DAYS[2])
    assert find_stale(made.look(), ASSETS, ALL) == {
        "gold/facts": {str(DAYS[2]): INPUT},
        "gold/totals": {WHOLE: UPSTREAM},
    }
    made.build(DAYS[2])
    assert find_stale(made.look(), ASSETS, ALL) == {}


def test_another_model_is_stale_on_its_own_and_silver_is_not(made: MadeLake) -> None:
    stale = find_stale(made.look(None, replace(FACTS, code="other"), TOTALS), ASSETS, ALL)
    assert stale == {"gold/facts": dict.fromkeys(iso(*DAYS), CODE), "gold/totals": {WHOLE: UPSTREAM}}


def test_compaction_makes_nothing_stale(made: MadeLake) -> None:
    page = CommitProperties({"userMetadata": Commit("maintenance", "readings", "silver", "").to_json()})
    for asset in ("silver/readings", "gold/facts"):
        for _ in range(2):
            write_deltalake(f"{made.settings.lake}/{asset}", pa.table({"a": [2]}), mode="append")
        DeltaTable(f"{made.settings.lake}/{asset}").optimize.compact(commit_properties=page)
    assert find_stale(made.look(), ASSETS, ALL) == {}


def test_files_that_are_new_or_changed_are_to_be_landed(made: MadeLake) -> None:
    """And with them the days of Silver that they may hold records of."""
    for day in (date(2025, 3, 6), date(2025, 3, 9)):
        folder = Path(made.settings.landing) / "readings" / str(day)
        folder.mkdir(parents=True)
        (folder / "part.jsonl").write_text("{}\n")
    scope = {name: Scope(DAYS[0], date(2025, 3, 9)) for name in ALL}
    stale = find_stale(made.look(), ("bronze/readings", *ASSETS), scope)
    assert stale["bronze/readings"] == {"2025-03-06": INPUT, "2025-03-09": NEVER}
    assert [*stale["silver/readings"]] == [f"2025-03-{n:02}" for n in range(4, 11)]


def test_the_reason_gives_the_scope(made: MadeLake) -> None:
    lake = made.look()
    bug = scopes_of(lake, Request("bug", "x", DAYS[0], DAYS[1]), ASSETS)
    assert bug["readings"] == Scope(DAYS[0], DAYS[1])
    logic = scopes_of(lake, Request("logic", "x"), ASSETS)
    assert logic["readings"] == Scope(made.law.history_start - timedelta(days=2), lake.today)
    new = scopes_of(lake, Request("new-source", "x"), ASSETS)
    assert new["*"] == logic["readings"]
    with pytest.raises(StreamError, match="window"):
        scopes_of(lake, Request("bug", "x"), ASSETS)
    with pytest.raises(StreamError, match="all of history"):
        scopes_of(lake, Request("schema", "x", DAYS[0], DAYS[1]), ASSETS)


def test_a_plan_survives_its_file_and_knows_the_way_back(made: MadeLake) -> None:
    lake = made.look(replace(made.law, null_values=("n/a",)))
    history = History((StepRun("refine_readings", 10.0, 100), StepRun("refine_readings", 20.0, 1_100)), 2.0)
    request = Request("bug", "x", DAYS[0], DAYS[-1], days_per_chunk=4)
    plan = make_plan(lake, request, Facts(ASSETS, history))
    silver = [chunk for chunk in plan.chunks if chunk.stage == 1]
    assert [(c.first, c.last, c.rows, c.seconds) for c in silver] == [
        ("2025-03-01", "2025-03-04", 40, 12.1),
        ("2025-03-05", "2025-03-06", 20, 11.9),
    ]
    assert [(c.stage, c.assets) for c in plan.chunks[2:]] == [
        (3, ("gold/facts",)),
        (3, ("gold/facts",)),
        (4, ("gold/totals",)),
    ]
    assert plan.versions["silver/readings"] == 0
    assert "stream rollback --asset silver/readings --to 0 --partition 2025-03-01..2025-03-06" in plan.rollback
    assert plan.bases["refine_readings"] == "its own runs (2)"
    assert Plan.from_json(plan.to_json()) == plan


def test_days_to_come_are_taken_to_be_as_those_there_were(made: MadeLake) -> None:
    """Of rejected records too, which most days have none of: such a day is made, and takes nothing."""
    rows = pa.table({"day": [day for day in DAYS for _ in range(5)], "n": range(30)})
    page = Commit("run", "readings", "gold", "1.0.0", {day: {} for day in iso(*DAYS)}).to_json()
    facts, aside = (f"{made.settings.lake}/{asset}" for asset in ("gold/parted", "quarantine/readings"))
    write_deltalake(facts, rows, partition_by=["day"], commit_properties=CommitProperties({"userMetadata": page}))
    write_deltalake(aside, pa.table({"_event_date": DAYS[:1], "_raw": ["x"]}), partition_by=["_event_date"])
    work, new = _Work(made.look(), History()), "2025-03-09"
    assert [work.rows("gold/parted", day) for day in (str(DAYS[0]), new)] == [5, 5]
    assert work.bytes("gold/parted", [new]) == pytest.approx(work.bytes("gold/parted", iso(*DAYS)) / 6, abs=1)
    first, made_since, to_come = (work.bytes("quarantine/readings", [day]) for day in (str(DAYS[0]), str(DAYS[1]), new))
    assert (made_since, to_come) == (0, pytest.approx(first / 6, abs=1))
    assert first > 0


def test_an_exhausted_budget_blocks(made: MadeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = made.look(replace(made.law, null_values=("n/a",), freshness=timedelta(minutes=1), tier=1))
    commits = lake.log("silver/readings")
    long_ago = datetime.now(tz=commits[0].committed_at.tzinfo) - timedelta(days=40)
    lake.logs["silver/readings"] = [replace(commit, committed_at=long_ago) for commit in commits]
    plan = make_plan(lake, Request("bug", "x", DAYS[0], DAYS[-1]), Facts(ASSETS, History()))
    assert [check.name for check in plan.blockers] == ["tier policy"]
    assert plan.impact[0]["state"] == "exhausted"


def test_tables_without_days_wait_for_all_days_of_their_parents() -> None:
    small = Model("small", "c", frozenset({"silver/x"}), None)
    facts = Model("facts", "c", frozenset({"silver/x", "gold/small"}), "day")
    totals = Model("totals", "c", frozenset({"gold/facts"}), None)
    report = Model("report", "c", frozenset({"gold/totals", "gold/facts"}), "day")
    assert stages_of({m.asset: m for m in (small, facts, totals, report)}) == {
        "gold/small": 2,
        "gold/facts": 3,
        "gold/totals": 4,
        "gold/report": 5,
    }


def test_one_cold_start_does_not_bend_the_estimate() -> None:
    runs = [StepRun("s", 2 + 0.001 * rows, rows) for rows in (100, 1_000, 5_000, 20_000)] + [StepRun("s", 60, 100)]
    fixed, per_row = fit(runs)
    assert fixed == pytest.approx(2, rel=0.2)
    assert per_row == pytest.approx(0.001, rel=0.2)


def test_a_large_run_that_started_the_engine_does_not_say_what_a_row_takes() -> None:
    """The start is counted by itself; where nothing else is known, such a run is still better than a guess."""
    week = [StepRun("s", seconds, 10_000) for seconds in (7, 8, 6, 7)]
    cold = StepRun("s", 23, 35_000, is_cold=True)
    assert rate_of("s", History((*week, cold))).seconds(35_000) == pytest.approx(7.5, abs=0.5)
    assert rate_of("s", History((cold,))).basis == "its own runs"


def test_days_of_one_size_do_not_say_what_a_row_takes() -> None:
    """A week of about equal days, whose times vary as they do: ten times the rows take about what a usual row takes more."""
    week = [
        StepRun("s", seconds, rows) for seconds, rows in ((6, 300), (9, 310), (5, 290), (30, 305), (7, 320), (6, 315))
    ]
    fixed, per_row = fit(week)
    assert 5 <= fixed + per_row * 3_000 <= 9
    large = [StepRun("s", seconds, 1_000_000) for seconds in (22, 24, 30)]
    fixed, per_row = fit(large)
    assert 120 <= fixed + per_row * 7_000_000 <= 200


def test_some_tables_of_gold_take_a_share_of_all() -> None:
    rate = rate_of("build_gold", History(tuple(StepRun("build_gold", 30.0, 100, tables=10) for _ in range(5))))
    assert rate.seconds(100, 10) == pytest.approx(30.0)
    assert rate.seconds(40, 4) == pytest.approx(30.0 * 0.58, rel=0.01)


def test_a_step_without_history_is_estimated_by_its_layer() -> None:
    history = History((StepRun("refine_a", 4.0, 100), StepRun("refine_a", 5.0, 200)))
    assert rate_of("refine_b", history).basis == "other datasets"
    assert rate_of("land_b", history).basis == "a guess"


def test_ranges_never_span_a_day_that_is_not_stale() -> None:
    days = iso(DAYS[0], DAYS[1], DAYS[2], DAYS[4])
    assert ranges_of(days, 2) == [(DAYS[0], DAYS[1]), (DAYS[2], DAYS[2]), (DAYS[4], DAYS[4])]
