"""What things cost is counted from what lies on disk and what steps took, at the prices given."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stream_assets.engine.footprint import Footprint
from stream_assets.ops.cost.count import Bill, StepTime, count_cost, suggest_savings
from stream_assets.ops.cost.instance import cost_conditions
from stream_assets.settings import Settings
from tests.documents import contract, document

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PRICES = {"STREAM_PRICE_GB_MONTH": "2", "STREAM_PRICE_CORE_HOUR": "10", "STREAM_SPARK_CORES": "4"}


def footprint(name: str, *sizes: int, history: int = 0) -> Footprint:
    live = {f"{n}.parquet": (size, NOW) for n, size in enumerate(sizes)}
    disk = live | ({"old.parquet": (history, NOW)} if history else {})
    return Footprint(name, {"": sizes}, 1, disk, frozenset(live))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"STREAM_HOME": str(tmp_path), **PRICES})


def times(step: str, *seconds: float, rows: int = 1, ago: float = 0) -> list[StepTime]:
    return [StepTime(step, NOW.timestamp() - ago, s, rows) for s in seconds]


def test_storage_counts_history_and_compute_counts_cores(settings: Settings) -> None:
    found = {"silver/readings": footprint("silver/readings", 10**9, history=10**9)}
    old = times("refine_readings", 9_999, ago=timedelta(days=40).total_seconds())
    (cost,) = count_cost(settings, found, [*old, *times("refine_readings", 1_800, 1_800)], NOW.timestamp())
    assert (cost.live_bytes, cost.disk_bytes, cost.runs) == (10**9, 2 * 10**9, 2)
    assert (cost.storage, cost.compute) == (4.0, 40.0)


def test_gold_tables_share_their_step_by_bytes(settings: Settings) -> None:
    found = {"gold/a": footprint("gold/a", 300), "gold/b": footprint("gold/b", 100)}
    costs = count_cost(settings, found, times("build_gold", 100), NOW.timestamp())
    assert [cost.seconds_month for cost in costs] == [75.0, 25.0]


def test_savings_name_small_files_and_idle_schedules(settings: Settings, tmp_path: Path) -> None:
    law = replace(contract(tmp_path, document()), cadence=timedelta(hours=1))
    found = {"silver/readings": footprint("silver/readings", *[1_000] * 9)}
    seen = [*times("refine_readings", 90, 90), *times("refine_readings", *[36] * 5, rows=0)]
    costs = count_cost(settings, found, seen, NOW.timestamp())
    tips = suggest_savings(settings, {"readings": law}, found, seen, costs)
    assert [tip.text.split(" ")[0] for tip in tips] == ["1", "5"]
    assert [tip.saving for tip in tips] == [pytest.approx(2.0), pytest.approx(2.0)]
    busy = times("refine_readings", *[36] * 7)
    assert suggest_savings(settings, {"readings": law}, {}, busy, []) == []


def test_a_table_that_nothing_reads_costs_all_it_costs(settings: Settings) -> None:
    found = {name: footprint(name, 10**9) for name in ("silver/readings", "silver/gauges")}
    costs = count_cost(settings, found, times("refine_gauges", 360), NOW.timestamp())
    (tip,) = suggest_savings(settings, {}, found, [], costs, unread={"silver/gauges"})
    assert (tip.subject, tip.saving) == ("silver/gauges", pytest.approx(6.0))


def test_more_than_the_budget_is_an_alert(settings: Settings) -> None:
    costs = tuple(count_cost(settings, {"silver/a": footprint("a", 10**9)}, [], NOW.timestamp()))
    assert cost_conditions(Bill(costs, (), budget=3.0)) == []
    assert cost_conditions(Bill(costs, (), budget=None)) == []
    (condition,) = cost_conditions(Bill(costs, (), budget=1.0))
    assert (condition.rule, condition.severity) == ("cost_budget", "warning")
