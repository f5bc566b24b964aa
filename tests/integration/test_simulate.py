"""A proposed contract over the history in Bronze, against Polars and against what refining with it really does."""

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from stream_assets.settings import Settings
from stream_assets.silver.effects import Simulation, Tally
from stream_assets.silver.simulate import Trial, prepare_trial, simulate
from tests.documents import bend, contract, document, with_column, write
from tests.lakes import as_lines, deliver, forget_tables, lake_at, land_days, ledger, refine_days, rows, table, version

STREAM = Path(sys.executable).with_name("stream")
LAYERS = ("bronze", "silver", "quarantine")
DAY = date(2025, 3, 9)


@pytest.fixture
def sample(sample_in_catalogue) -> Settings:
    return sample_in_catalogue.lake


def spec(lake: Settings, name: str) -> dict[str, Any]:
    return yaml.safe_load((lake.contracts / f"{name}.odcs.yaml").read_text(encoding="utf-8"))


def column(made: dict[str, Any], name: str) -> dict[str, Any]:
    return next(item for item in made["schema"][0]["properties"] if item["name"] == name)


def versions(lake: Settings, name: str) -> list[int]:
    return [version(lake, layer, name) for layer in LAYERS]


def simulated(spark, lake: Settings, folder: Path, made: dict[str, Any], **days: date) -> Simulation:
    return simulate(spark, lake, prepare_trial(lake, write(folder, made, made["name"]), **days))


def silver(lake: Settings, name: str) -> pl.DataFrame:
    return pl.from_arrow(table(lake, "silver", name).to_pyarrow_table())  # pyright: ignore


@pytest.mark.parametrize("name", ["orders", "payments", "customers", "stores"])
def test_the_same_contract_changes_nothing(sample: Settings, spark, tmp_path: Path, name: str) -> None:
    """Events, entities and reference data: the contract in force gives what the ledger says, and nothing is written."""
    before = versions(sample, name)
    found = simulated(spark, sample, tmp_path, spec(sample, name))
    assert not found.differs and not found.notes
    assert found.total.before == found.total.after
    entries = ledger(sample, "silver", name)
    assert {d.day: d.ledger for d in found.days} == {
        day: Tally(e["accepted"], e["quarantined"], e["duplicates"]) for day, e in entries.items() if e["rows_in"]
    }
    assert versions(sample, name) == before


def test_a_tightened_range_rejects_the_rows_that_polars_counts(sample: Settings, spark, tmp_path: Path) -> None:
    held = silver(sample, "orders")
    limit = int(held["total_cents"].quantile(0.9) or 0)
    made = spec(sample, "orders")
    column(made, "total_cents")["logicalTypeOptions"]["maximum"] = limit
    before = versions(sample, "orders")
    found = simulated(spark, sample, tmp_path, made)

    over = held.filter(pl.col("total_cents") > limit)
    per_day = {str(day): n for day, n in over.group_by("_event_date").len().iter_rows()}
    assert found.total.moves["accepted → quarantined"] == len(over) > 50
    rule = next(r for r in found.total.rules if r.rule == "validity__total_cents__range")
    older = found.total.moves.get("duplicates → quarantined", 0)
    assert rule.newly_rejected == found.total.newly_rejected == len(over) + older
    rejected = {d.day: d.effects.moves.get("accepted → quarantined", 0) for d in found.days}
    assert {day: n for day, n in rejected.items() if n} == per_day
    assert found.total.recovered == 0 and not found.schema
    assert versions(sample, "orders") == before


def test_a_loosened_rule_recovers_what_it_alone_kept_out(sample: Settings, spark, tmp_path: Path) -> None:
    """Rows that also break another rule stay in quarantine."""
    rejected = rows(sample, "quarantine", "orders", ["_violations"])
    alone = Counter(row["_violations"][0] for row in rejected if len(row["_violations"]) == 1)
    rule = "validity__status__allowed"
    assert alone[rule] > 0
    made = spec(sample, "orders")
    del column(made, "status")["quality"]
    found = simulated(spark, sample, tmp_path, made)
    assert found.total.recovered == alone[rule]
    effect = next(r for r in found.total.rules if r.rule == rule)
    assert (effect.before, effect.after) == (sum(rule in row["_violations"] for row in rejected), 0)
    assert effect.recovered == alone[rule] and found.total.newly_rejected == 0


def test_only_the_days_asked_for_are_told(sample: Settings, spark, tmp_path: Path) -> None:
    first, last = date(2025, 3, 5), date(2025, 3, 6)
    found = simulated(spark, sample, tmp_path, spec(sample, "orders"), first=first, last=last)
    assert [d.day for d in found.days] == [str(first), str(last)]
    assert not found.differs and not found.notes


def readings(day: date) -> list[dict[str, Any]]:
    """Records that come late, twice, too big, with texts for nothing and without values."""
    return [
        {
            "reading_id": f"{day}-{n % 35}",
            "taken_at": f"{day - timedelta(days=n % 3)}T10:00:{n:02}Z",
            "amount": f"{n}.50",
            "pieces": n - 3,
            "ratio": None if n % 5 == 0 else n / 40,
            "text": "NA" if n % 4 == 0 else f"text {n}",
        }
        for n in range(40)
    ]


def proposed_reading() -> dict[str, Any]:
    """Tighter here, looser there, and another meaning elsewhere."""
    made = with_column(document(nullValues=["NA"]), name="extra")
    bend(made, "schema.0.quality.0.implementation.expression", "pieces >= -1")
    bend(made, "schema.0.properties.4.required", True)
    bend(made, "schema.0.properties.3.logicalTypeOptions", {"maximum": 33})
    bend(made, "version", "2.0.0")
    return made


def fill(spark, lake: Settings, *laws: Any, days: list[date]) -> None:
    for day in days:
        deliver(lake, f"readings/{day}/part.jsonl", as_lines(readings(day)))
    for law in laws:
        land_days(spark, lake, law, *days)
        refine_days(spark, lake, law, *[days[0] - timedelta(days=n) for n in (2, 1)], *days)


def test_it_tells_what_refining_would_do(lake: Settings, spark, tmp_path: Path) -> None:
    """The same Bronze refined with the proposed contract has the counts of the simulation, day by day and rule by rule."""
    days = [DAY - timedelta(days=n) for n in (2, 1, 0)]
    current, proposed = contract(tmp_path / "now"), contract(tmp_path / "next", proposed_reading())
    fill(spark, lake, current, days=days)
    found = simulate(spark, lake, Trial(current, proposed))
    assert not found.notes and found.differs

    forget_tables(spark)
    other = lake_at(lake, tmp_path / "other")
    fill(spark, other, current, proposed, days=days)
    entries = {day: entry for day, entry in ledger(other, "silver", "readings").items() if entry["rows_in"]}
    after = {d.day: d.effects.after for d in found.days}
    assert after == {day: Tally(e["accepted"], e["quarantined"], e["duplicates"]) for day, e in entries.items()}
    broken = {d.day: {r.rule: r.after for r in d.effects.rules if r.after} for d in found.days}
    assert broken == {day: entry["violations"] for day, entry in entries.items()}
    assert [(c.column, c.before, c.after) for c in found.schema] == [("extra", None, "string")]


def test_changed_values_are_counted_by_column(lake: Settings, spark, tmp_path: Path) -> None:
    """A text that becomes a missing value, and a number that becomes text, in rows that stay."""
    made = document(nullValues=["NA"])
    bend(made, "schema.0.properties.4.logicalType", "string")
    current, proposed = contract(tmp_path / "now"), contract(tmp_path / "next", made)
    fill(spark, lake, current, days=[DAY])
    found = simulate(spark, lake, Trial(current, proposed))
    held = silver(lake, "readings")
    absent = held.filter(pl.col("text") == "NA").height
    assert found.total.columns.get("text") == absent > 0
    assert not found.total.moves
    assert [(c.column, c.before, c.after) for c in found.schema] == [("ratio", "double", "string")]


def test_a_shorter_lateness_quarantines_late_records(lake: Settings, spark, tmp_path: Path) -> None:
    """They are judged by both contracts, though the proposed one alone would not look that far."""
    days = [DAY - timedelta(days=n) for n in (2, 1, 0)]
    current, proposed = contract(tmp_path / "now"), contract(tmp_path / "next", document(maxLateness=1))
    fill(spark, lake, current, days=days)
    found = simulate(spark, lake, Trial(current, proposed))
    held = silver(lake, "readings")
    late = held.filter((pl.col("_delivery_date") - pl.col("_event_date")) > timedelta(days=1)).height
    assert found.total.moves["accepted → quarantined"] == late > 0
    (rule,) = [r for r in found.total.rules if r.newly_rejected]
    assert rule.rule == "validity__taken_at__window"


def test_days_not_refined_yet_are_noted(lake: Settings, spark, tmp_path: Path) -> None:
    current = contract(tmp_path / "now")
    fill(spark, lake, current, days=[DAY])
    deliver(lake, f"readings/{DAY}/more.jsonl", as_lines([{"reading_id": "x", "taken_at": f"{DAY}T12:00:00Z"}]))
    land_days(spark, lake, current, DAY)
    found = simulate(spark, lake, Trial(current, current))
    assert [day.day for day in found.days if day.is_stale] == [str(DAY)]
    assert "not up to date" in found.notes[0] and not found.differs


def test_the_command_prints_a_table_and_json(sample: Settings, tmp_path: Path) -> None:
    made = spec(sample, "orders")
    column(made, "note")["required"] = True
    file = write(tmp_path, made, "orders")
    env = {**os.environ, **sample.to_env()}
    command = [STREAM, "contracts", "simulate", str(file)]
    shown, printed = (
        subprocess.run([*command, *more], env=env, capture_output=True, text=True, check=True).stdout
        for more in ((), ("--json",))
    )
    missing = silver(sample, "orders")["note"].null_count()
    found = json.loads(printed)
    assert found["total"]["moves"]["accepted → quarantined"] == missing > 0
    assert found["differs"] and "completeness__note__required" in shown and "nothing was written" in shown
