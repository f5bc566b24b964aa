"""A bad rule is shipped and undone: days go back bit for bit, stay back, and end up as if it had never been."""

from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable

from stream_assets.bronze.land import land
from stream_assets.build import build_defs
from stream_assets.contracts.model import Contract
from stream_assets.engine.history import read_history
from stream_assets.errors import LakeError, StreamError
from stream_assets.ops.instance import descendants
from stream_assets.ops.rollback.execute import execute, held_days, release
from stream_assets.ops.rollback.plan import Plan, Request, plan_rollback
from stream_assets.ops.rollback.run import run_plan
from stream_assets.settings import Settings
from stream_assets.silver.refine import refine
from tests.documents import contract
from tests.integration.ops.conftest import DAY, House, day, law, reading
from tests.lakes import SALT, as_lines, contents, deliver, ledger, rows, version

BAD, MENDED = law("pieces >= 6", "1.1.0"), law("pieces >= 1", "1.2.0")
TABLES = ("silver/readings", "quarantine/readings", "gold/per_day", "gold/by_reading")


def plan_of(house: House, **request) -> Plan:
    defs = build_defs(house.settings)
    return plan_rollback(house.settings, Request(**request), lambda asset: descendants(defs, asset))


def undo(house: House, **request) -> Plan:
    plan = plan_of(house, **request)
    run_plan(house.settings, build_defs(house.settings), plan, "a bad rule")
    return plan


def versions(house: House) -> dict[str, int]:
    return {name: version(house.settings, *name.split("/")) for name in TABLES}


def fill(house: House) -> None:
    house.ship(law())
    for number in range(4):
        house.deliver(number, [reading(number, f"r{number}-{n}", n - 1) for n in range(10)])


def test_a_bad_rule_is_undone_bit_for_bit_and_stays_undone(house_of) -> None:
    """Rolled back, left alone by the next run, then mended: the same as if only the mended rule had ever been shipped."""
    house = house_of("house")
    fill(house)
    assert house.run(0, 2).status == "success"
    before = house.contents()
    house.ship(BAD)
    shipped = house.run(0, 3).run_ids[-1]
    spoilt = house.contents()
    assert all(spoilt[name] != before[name] for name in TABLES)

    untouched = versions(house)
    plan = plan_of(house, run=shipped[:13], downstream=True)
    assert {r.asset for r in plan.restores} == set(TABLES)
    assert not plan.problems
    assert not plan.rebuilds
    assert versions(house) == untouched, "a plan changes nothing"

    by_days = plan_of(house, asset="silver/readings", downstream=True)
    assert {r.asset: r.targets for r in by_days.restores} == {r.asset: r.targets for r in plan.restores}
    some = plan_of(house, asset="silver/readings", days=(day(0), day(1)), downstream=True)
    assert [(r.asset, len(r.days)) for r in some.rebuilds] == [("gold/by_reading", 2)]
    assert {r.asset: len(r.days) for r in some.restores} == dict.fromkeys(TABLES[:3], 2)

    done = undo(house, run=shipped, downstream=True)
    assert house.contents() == before
    page = ledger(house.settings, "silver", "readings")
    assert page[day(0).isoformat()]["rows_in"] == 10
    assert page[day(3).isoformat()]["accepted"] == 0, "what was not there before is not there again"
    assert not plan_of(house, run=shipped).restores, "undoing it again finds nothing to do"

    again = house.run(0, 3)
    assert again.status == "success", "held days fail no gate"
    assert {k: v for k, v in house.contents().items() if "gold" not in k} == {
        k: v for k, v in before.items() if "gold" not in k
    }
    assert house.contents(volatile=False)["gold/per_day"] == before["gold/per_day"]

    house.ship(MENDED)
    assert house.run(0, 3).status == "success"
    clean = house_of("clean", house.settings)
    clean.ship(MENDED)
    assert clean.run(0, 3).status == "success"
    assert house.contents(volatile=False) == clean.contents(volatile=False)
    assert done.undone == (shipped,)


def test_gold_that_others_changed_since_is_built_again(house_of) -> None:
    """A later run wrote another day into the same whole table: going back would lose it, so it is computed anew."""
    house = house_of("house")
    fill(house)
    house.run(0, 1)
    before = house.contents()
    house.ship(BAD)
    bad_run = house.run(0, 1).run_ids[-1]
    later = house.run(2, 2).run_ids[-1]
    plan = undo(house, run=bad_run, downstream=True)
    assert {r.asset: r.reason for r in plan.rebuilds} == {"gold/by_reading": f"changed since by {later}"}
    now = house.contents()
    kept = [row for row in now["silver/readings"] if "r2-" not in row]
    assert kept == before["silver/readings"]
    assert [row for row in now["gold/by_reading"] if "r2-" not in row] == before["gold/by_reading"]
    assert sum("r2-" in row for row in now["gold/by_reading"]) == 3


def step(spark, lake: Settings, contract: Contract, run_id: str, *days: date) -> None:
    """Land and refine days, without an orchestrator."""
    land(spark, lake, contract, days, run_id=f"{run_id}-land")
    refine(spark, lake, contract, days, run_id=run_id, salt=SALT)


def go_back(spark, lake: Settings, **request) -> Plan:
    plan = plan_rollback(lake, Request(**request), lambda _: [])
    execute(spark, plan, "a test")
    return plan


def exact(lake: Settings, layer: str) -> list[str]:
    """Every row, with who wrote it and when."""
    return sorted(map(repr, rows(lake, layer, "readings")))


def test_a_rollback_can_be_undone_and_a_hold_released(lake: Settings, spark, tmp_path: Path) -> None:
    """It is a commit like any other. A released day is computed again under the contract in force."""
    good, bad = contract(tmp_path / "good", law()), contract(tmp_path / "bad", BAD)
    days = [day(0), day(1)]
    for number in range(2):
        deliver(lake, f"readings/{day(number)}/a.jsonl", as_lines([reading(number, f"r{n}", n - 1) for n in range(10)]))
    step(spark, lake, good, "good-run", *days)
    sound = exact(lake, "silver"), exact(lake, "quarantine")
    step(spark, lake, bad, "bad-run", *days)
    spoilt = contents(lake, "silver", "readings")
    done = go_back(spark, lake, run="bad-run")
    assert (exact(lake, "silver"), exact(lake, "quarantine")) == sound
    go_back(spark, lake, run=done.id)
    assert contents(lake, "silver", "readings") == spoilt
    undone = version(lake, "silver", "readings")
    step(spark, lake, bad, "again", *days)
    assert version(lake, "silver", "readings") == undone, "nothing is stale, nothing is held"

    go_back(spark, lake, asset="silver/readings", days=(day(1), day(1)), to="1")
    history = read_history(lake.table_path("silver", "readings"))
    assert history
    assert set(held_days(history, None)) == {day(1).isoformat()}
    step(spark, lake, bad, "held", *days)
    accepted = {d: e["accepted"] for d, e in ledger(lake, "silver", "readings").items()}
    assert accepted == {str(day(0)): 3, str(day(1)): 9}
    release(spark, history, "silver/readings", None, "release-1")
    step(spark, lake, bad, "released", *days)
    assert contents(lake, "silver", "readings") == spoilt


def test_what_was_vacuumed_away_is_refused_with_its_date(lake: Settings, spark, tmp_path: Path) -> None:
    """Nothing is restored by halves: the plan says how far back these days can be had."""
    deliver(lake, f"readings/{DAY}/a.jsonl", as_lines([reading(0, f"r{n}", n) for n in range(10)]))
    step(spark, lake, contract(tmp_path / "good", law()), "good-run", DAY)
    step(spark, lake, contract(tmp_path / "bad", BAD), "bad-run", DAY)
    path = lake.table_path("silver", "readings")
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    plan = plan_rollback(lake, Request(run="bad-run"), lambda _: [])
    assert len(plan.problems) == 1
    assert "vacuumed away" in plan.problems[0]
    assert "can be had back to version 2 of 20" in plan.problems[0]
    before = version(lake, "silver", "readings"), version(lake, "quarantine", "readings")
    with pytest.raises(LakeError, match="Nothing was rolled back"):
        execute(spark, plan, "")
    assert (version(lake, "silver", "readings"), version(lake, "quarantine", "readings")) == before
    with pytest.raises(StreamError, match="No commit in the lake"):
        plan_rollback(lake, Request(run="nobody"), lambda _: [])


def test_entities_go_back_whole_and_a_bad_delivery_stays_out(lake: Settings, spark, tmp_path: Path) -> None:
    """Bronze is held until the delivery changes; Silver follows from what Bronze has."""
    people = contract(tmp_path, law(datasetKind="entity"))
    file = f"readings/{DAY}/a.jsonl"
    deliver(lake, file, as_lines([reading(0, "a", 1), reading(0, "b", 2)]))
    step(spark, lake, people, "good", DAY)
    sound = exact(lake, "silver"), exact(lake, "bronze")
    deliver(lake, file, as_lines([reading(0, "a", 100), reading(0, "c", 200)]))
    step(spark, lake, people, "bad", DAY)
    plan = go_back(spark, lake, run="bad")
    assert [r.asset for r in plan.restores] == ["silver/readings"]
    assert exact(lake, "silver") == sound[0]
    go_back(spark, lake, asset="bronze/readings")
    assert exact(lake, "bronze") == sound[1]
    step(spark, lake, people, "next", DAY)
    assert (exact(lake, "silver"), exact(lake, "bronze")) == sound
    deliver(lake, file, as_lines([reading(0, "a", 7)]))
    step(spark, lake, people, "mended", DAY)
    assert [(row["reading_id"], row["pieces"]) for row in rows(lake, "silver", "readings")] == [("a", 7)]
