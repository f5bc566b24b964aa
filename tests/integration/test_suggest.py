"""Rules from the habits of the sample, checked with Polars, against the simulation, and for what they give away."""

import copy
import json
import os
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from stream_assets.contracts.evidence import Survey, Target, order_pairs
from stream_assets.contracts.suggest import Suggestion, suggest
from stream_assets.errors import StreamError
from stream_assets.quality.survey import recent_days, survey_silver
from stream_assets.settings import Settings
from stream_assets.silver.simulate import prepare_trial, simulate
from tests.documents import bend, contract, document, with_column, write
from tests.lakes import as_lines, deliver, land_days, refine_days, table

STREAM = Path(sys.executable).with_name("stream")
DAY = date(2025, 3, 9)
PII = [{"property": "pii", "value": {"strategy": "keep", "reason": "a test"}}]


@pytest.fixture
def sample(sample_in_catalogue) -> Any:
    return sample_in_catalogue


def surveyed(spark, sample, name: str) -> Survey:
    law = sample.contracts[name]
    return survey_silver(spark, law, recent_days(sample.lake, law, 60), others=sample.contracts)


def held(lake: Settings, name: str) -> pl.DataFrame:
    return pl.from_arrow(table(lake, "silver", name).to_pyarrow_table())  # pyright: ignore


def with_fragments(made: dict[str, Any], suggestions: list[Suggestion]) -> dict[str, Any]:
    """A contract document with every suggestion written into it, as a person would."""
    made = copy.deepcopy(made)
    columns = {item["name"]: item for item in made["schema"][0]["properties"]}
    for suggestion in suggestions:
        made["schema"][0].setdefault("quality", []).extend(suggestion.fragment.get("quality", []))
        for part in suggestion.fragment.get("properties", []):
            for key, value in part.items():
                known = columns[part["name"]].get(key)
                columns[part["name"]][key] = known | value if isinstance(known, dict) else value
    return made


@pytest.mark.parametrize("name", ["orders", "order_items", "payments"])
def test_facts_are_those_that_polars_finds(sample, spark, name: str) -> None:
    found, frame, law = surveyed(spark, sample, name), held(sample.lake, name), sample.contracts[name]
    assert (found.rows, list(found.days)) == (len(frame), sorted(frame["_event_date"].unique()))
    for column in law.columns:
        facts = found.columns[column.name]
        values = frame[column.name].drop_nulls()
        assert facts.present == len(values)
        if column.pii:
            assert facts == type(facts)(present=len(values)), "of personal data nothing else is known"
            continue
        assert facts.is_unique == (len(values) > 0 and values.n_unique() == len(values)), column.name
        if column.type == "bigint":
            assert (facts.smallest, facts.largest) == (values.min(), values.max())
        if column.type == "string":
            lengths = values.str.len_chars()
            assert (facts.shortest, facts.longest) == (lengths.min(), lengths.max())
            assert all(value.startswith(facts.prefix) for value in values)
            if values.n_unique() <= 20:
                first_seen = frame.drop_nulls(column.name).group_by(column.name).agg(pl.col("_event_date").min())
                assert facts.values == dict(first_seen.iter_rows())
    for one, other in order_pairs(law):
        both = frame.drop_nulls([one, other])
        facts = found.orders[one, other]
        expected = (len(both), (both[one] <= both[other]).sum(), (both[one] >= both[other]).sum())
        assert (facts.rows, facts.not_above, facts.not_below) == expected


def test_references_are_those_that_polars_finds(sample, spark) -> None:
    found = surveyed(spark, sample, "web_events")
    values = set(held(sample.lake, "web_events")["customer_id"].drop_nulls())
    known = set(held(sample.lake, "customers")["customer_id"])
    facts = found.references["customer_id", Target("customers", "customer_id")]
    assert (facts.values, facts.orphans) == (len(values), len(values - known))


@pytest.mark.parametrize("name", ["orders", "order_items", "payments", "web_events", "customers"])
def test_what_is_suggested_would_have_rejected_nothing(sample, spark, tmp_path: Path, name: str) -> None:
    """Written into the contract, the suggestions are accepted by lint and kept by every record there is in Silver."""
    law = sample.contracts[name]
    suggestions = suggest(law, surveyed(spark, sample, name))
    assert suggestions
    made = with_fragments(yaml.safe_load(law.file.read_text(encoding="utf-8")), suggestions)
    found = simulate(spark, sample.lake, prepare_trial(sample.lake, write(tmp_path, made, name)))
    assert found.total.moves.get("accepted → quarantined", 0) == 0
    assert not found.schema


def test_nothing_is_suggested_twice(sample, spark, tmp_path: Path) -> None:
    """A contract that took every suggestion gets none."""
    law = sample.contracts["web_events"]
    survey = surveyed(spark, sample, "web_events")
    made = with_fragments(yaml.safe_load(law.file.read_text(encoding="utf-8")), suggest(law, survey))
    assert suggest(contract(tmp_path, made), survey) == []


def test_habits_of_a_small_dataset(lake: Settings, spark, tmp_path: Path) -> None:
    """Categories, forms, lengths, ranges, orders and a reference; and of personal data nothing but its presence."""
    made = with_column(document(maxLateness=0), name="country")
    made = with_column(made, name="closed_at", logicalType="timestamp")
    made = with_column(made, name="email", customProperties=PII)
    made = with_column(made, name="device_id")
    law = contract(tmp_path / "readings", made)
    names = {"name": "devices", "schema.0.name": "devices", "servers.0.path": "devices"}
    other = document()
    for path, value in {**names, "schema.0.properties.0.name": "device_id"}.items():
        bend(other, path, value)
    devices = contract(tmp_path / "devices", other)
    days = [DAY - timedelta(days=n) for n in (2, 1, 0)]
    for day in days:
        deliver(lake, f"readings/{day}/part.jsonl", as_lines(reading(day, n) for n in range(400)))
    records = [{"device_id": f"dev_{n}", "taken_at": f"{DAY}T00:00:00Z"} for n in range(7)]
    deliver(lake, f"devices/{DAY}/part.jsonl", as_lines(records))
    for made_law in (law, devices):
        land_days(spark, lake, made_law, *days)
        refine_days(spark, lake, made_law, *days)

    recent = recent_days(lake, law, 60)
    found = suggest(law, survey_silver(spark, law, recent, others={"readings": law, "devices": devices}))
    parts = {s.rule: s.fragment.get("properties", s.fragment.get("quality"))[0] for s in found}
    assert parts["validity__pieces__range"]["logicalTypeOptions"] == {"minimum": 0, "maximum": 500}
    assert parts["validity__text__allowed"]["quality"][0]["arguments"] == {"validValues": ["blue", "red"]}
    assert parts["validity__country__pattern"]["logicalTypeOptions"] == {"pattern": "^[A-Z]{2}$"}
    assert parts["validity__device_id__pattern"]["logicalTypeOptions"] == {"pattern": "^dev_[0-9a-z]+$"}
    assert parts["consistency__device_id__reference"]["relationships"] == [{"to": "devices.device_id"}]
    order = parts["consistency__record__taken_at_within_closed_at"]
    assert order["implementation"] == {"expression": "taken_at <= closed_at"}
    assert {rule for rule in parts if "email" in rule} == {"completeness__email__required"}
    assert not [rule for rule in parts if "detail" in rule and "required" not in rule]
    assert "ada" not in repr(found)


def reading(day: date, n: int) -> dict[str, Any]:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return {
        "reading_id": f"{day}/{n}",
        "taken_at": f"{day}T10:00:00Z",
        "closed_at": f"{day}T1{n % 2}:00:00Z",
        "pieces": n,
        "text": ("red", "blue")[n % 2],
        "country": letters[n % 26] + letters[n % 7],
        "email": f"ada{n % 3}@example.com",
        "device_id": f"dev_{n % 7}",
        "detail": {"n": n},
    }


def test_a_dataset_without_silver_says_what_to_run(lake: Settings, tmp_path: Path) -> None:
    with pytest.raises(StreamError, match=r"no records in Silver yet.*stream run"):
        recent_days(lake, contract(tmp_path), 60)


def test_the_command_prints_fragments_and_json(sample) -> None:
    env = {**os.environ, **sample.lake.to_env()}
    command = [STREAM, "contracts", "suggest", "orders", "--days", "5"]
    shown, printed = (
        subprocess.run([*command, *more], env=env, capture_output=True, text=True, check=True).stdout
        for more in ((), ("--json",))
    )
    found = json.loads(printed)
    assert len(found["days"]) == 5 and found["suggestions"]
    fragments = [part for part in shown.split("\n\n") if part.startswith("# ")]
    assert [yaml.safe_load(part) for part in fragments[1:]] == [s["fragment"] for s in found["suggestions"]]
