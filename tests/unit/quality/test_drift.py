"""Days that no rule names as wrong, and a clean year: what the distribution checks find, and how often they cry wolf.

Profiles are counted here with Polars from the sample's own records, not by the code that counts them in Spark.
"""

import math
from collections.abc import Callable
from datetime import date
from functools import cache
from typing import Any

import polars as pl
import pytest

from stream_assets.quality import drift
from stream_assets.quality.profile import STEPS_PER_DOUBLING, magnitude
from stream_assets.sample.sales import sell
from stream_assets.sample.world import World

CATEGORIES = ("store_id", "status", "channel", "currency", "country", "method")
NUMBERS = ("total_cents", "discount_cents", "amount")
ODD_DAY = "2025-03-19"
Change = Callable[[pl.DataFrame], pl.DataFrame]


@cache
def records(days: int, scale: float = 0.5, seed: int = 7) -> dict[str, dict[str, pl.DataFrame]]:
    """Dataset → day → the records delivered on the day they happened, without faults."""
    world = World(start=date(2025, 1, 1), days=days, scale=scale, seed=seed, faults=False)
    found: dict[str, dict[str, pl.DataFrame]] = {"orders": {}, "payments": {}}
    for day in range(days):
        for dataset, delivered, rows in sell(world, day):
            if dataset in found and delivered == day:
                part = pl.DataFrame(rows).filter(pl.col("_event_day") == day)
                before = found[dataset].get(world.iso_day(day))
                found[dataset][world.iso_day(day)] = part if before is None else pl.concat([before, part])
    return found


def entry(rows: pl.DataFrame, duplicates: int = 0) -> dict[str, Any]:
    """What the ledger would say of these records."""
    categories = {name: _counted(rows[name].cast(pl.String)) for name in CATEGORIES if name in rows.columns}
    numbers = {name: rows[name].cast(pl.Float64) for name in NUMBERS if name in rows.columns}
    profile = categories | {
        name: _counted(values.map_elements(_bucket, return_dtype=pl.String)) for name, values in numbers.items()
    }
    sums = {name: values.sum() for name, values in numbers.items()}
    counts = {"rows_in": rows.height + duplicates, "duplicates": duplicates, "prompt": rows.height + duplicates}
    return counts | {"profile": profile, "sums": sums}


def _bucket(value: float) -> str:
    return str(int(math.copysign(math.floor(math.log2(abs(value) + 1) * STEPS_PER_DOUBLING), value)))


def _counted(values: pl.Series) -> dict[str, Any]:
    counts = dict(values.drop_nulls().value_counts().iter_rows())
    return {"counts": counts, "nulls": values.null_count(), "others": 0}


def judge_all(entries: dict[str, Any], history: dict[str, Any]) -> dict[str, drift.Outcome]:
    columns = sorted({name for e in entries.values() for name in e["profile"]})
    outcomes = [
        drift.judge_volume(entries, history),
        drift.judge_duplicates(entries, history),
        *[drift.judge_column(name, entries, history, is_numeric=name in NUMBERS) for name in columns],
    ]
    return {outcome.name: outcome for outcome in outcomes}


def odd_day(dataset: str, change: Change, duplicates: float = 0.0) -> dict[str, drift.Outcome]:
    days = records(90)[dataset]
    changed = change(days[ODD_DAY])
    history = {day: entry(rows) for day, rows in days.items() if day < ODD_DAY}
    return judge_all({ODD_DAY: entry(changed, round(duplicates * changed.height))}, history)


def failed(outcomes: dict[str, drift.Outcome]) -> set[str]:
    return {name for name, outcome in outcomes.items() if not outcome.passed}


def halve_a_store(rows: pl.DataFrame) -> pl.DataFrame:
    store = rows["store_id"].value_counts(sort=True)["store_id"][0]
    return rows.filter((pl.col("store_id") != store) | (pl.int_range(pl.len()) % 2 == 0))


def replace(column: str, value: Any, every: int) -> Change:
    is_hit = pl.int_range(pl.len()) % every == 0
    return lambda rows: rows.with_columns(pl.when(is_hit).then(pl.lit(value)).otherwise(pl.col(column)).alias(column))


FAULTS: dict[str, tuple[str, Change, float, str]] = {
    "a store's sales halve": ("orders", halve_a_store, 0, "distribution__store_id__drift"),
    "a channel vanishes": (
        "orders",
        lambda rows: rows.filter(pl.col("channel") != "app"),
        0,
        "distribution__channel__drift",
    ),
    "a country appears": ("payments", replace("country", "XX", 40), 0, "distribution__country__drift"),
    "amounts in the wrong unit": (
        "orders",
        lambda rows: rows.with_columns(pl.col("total_cents") * 100),
        0,
        "distribution__total_cents__drift",
    ),
    "a third of the amounts in the wrong unit": (
        "orders",
        lambda rows: rows.with_columns(
            pl.when(pl.int_range(pl.len()) % 3 == 0).then(pl.col("total_cents") // 100).otherwise(pl.col("total_cents"))
        ),
        0,
        "distribution__total_cents__drift",
    ),
    "half a day is missing": ("orders", lambda rows: rows.head(rows.height // 2), 0, "distribution__table__volume"),
    "a day is delivered twice": ("orders", lambda rows: rows, 1.0, "uniqueness__table__duplicate_share"),
    "a day is delivered twice, by volume": ("orders", lambda rows: rows, 1.0, "distribution__table__volume"),
    "discounts get lost": ("orders", replace("discount_cents", 0, 1), 0, "distribution__discount_cents__drift"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_no_rule_names_is_found(fault: str) -> None:
    """Each by the family that should find it, with words for a person."""
    dataset, change, duplicates, check = FAULTS[fault]
    outcomes = odd_day(dataset, change, duplicates)
    assert check in failed(outcomes)
    assert ODD_DAY in outcomes[check].facts.get("odd_days", outcomes[check].facts.get("days_above", {}))


def test_the_same_day_unchanged_is_fine() -> None:
    assert not failed(odd_day("orders", lambda rows: rows))
    assert not failed(odd_day("payments", lambda rows: rows))


def test_a_clean_year_stays_quiet() -> None:
    """At most one false alarm in a thousand judgements."""
    alarms, judgements = [], 0
    for days in records(365).values():
        entries = {day: entry(rows) for day, rows in days.items()}
        for day in list(entries)[drift.NEEDED_DAYS :]:
            outcomes = judge_all({day: entries[day]}, {d: e for d, e in entries.items() if d < day})
            judgements += len(outcomes)
            alarms += [(day, name, outcomes[name].summary) for name in failed(outcomes)]
    assert judgements > 4_000
    assert len(alarms) <= judgements / 1_000, alarms


@pytest.mark.parametrize("known", [0, 3, 6])
def test_without_a_baseline_it_says_so(known: int) -> None:
    """A check that cannot judge yet must not look like one that did."""
    days = {day: entry(rows) for day, rows in list(records(90)["orders"].items())[: known + 1]}
    last = max(days)
    for outcome in judge_all({last: days[last]}, days).values():
        if outcome.name.startswith("distribution"):
            assert (outcome.passed, outcome.summary) == (True, f"no baseline yet ({known + 1} of 7 days)")


def test_a_backfill_is_held_to_what_was_before_it() -> None:
    """Later days are no baseline for an older one."""
    days = {day: entry(rows) for day, rows in records(90)["orders"].items()}
    first = min(days)
    assert all(
        outcome.passed for outcome in judge_all({first: days[first]}, {d: days[d] for d in days if d != first}).values()
    )


def test_psi_is_the_textbook_figure() -> None:
    """Sum of (p - q) ln(p / q), computed by hand."""
    assert drift.psi({"a": 50, "b": 50}, {"a": 80, "b": 20}) == pytest.approx(0.4159, abs=1e-4)
    assert drift.psi({"a": 50, "b": 50}, {"a": 500, "b": 500}) == 0


def test_a_bucket_is_told_by_its_magnitude() -> None:
    assert magnitude("0") == 0
    assert magnitude(_bucket(1000)) == pytest.approx(1000, rel=0.2)
    assert magnitude(_bucket(-1000)) == pytest.approx(-1000, rel=0.2)
