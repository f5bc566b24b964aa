"""The nightly job as Dagster runs it: retention by contract, compaction, vacuum; and what the runs after it make of it."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from stream_assets.build import build_defs
from stream_assets.engine.footprint import footprint
from stream_assets.resources import open_instance
from tests.integration.ops.conftest import DAY, House, day, law, reading
from tests.integration.test_maintenance import shatter
from tests.lakes import rows

LAYERS = ("bronze", "silver", "quarantine")
RECENT = (datetime.now(UTC).date() - DAY).days - 3
"""A day within the retention of a year; the first days of these tests are past it."""


def keep_a_year(house: House) -> None:
    made = law()
    made["slaProperties"] = [{**p, "value": 1} if p["property"] == "retention" else p for p in made["slaProperties"]]
    house.ship(made)


def tonight(house: House) -> tuple[bool, dict[tuple[str, Any], dict[str, Any]]]:
    """Run the job. Returns whether it succeeded, and what it told of each chore of each table."""
    job = build_defs(house.settings).resolve_job_def("maintain_lake")
    with open_instance(house.settings) as instance:
        done = job.execute_in_process(instance=instance, raise_on_error=False)
        events = [entry.dagster_event for entry in instance.all_logs(done.run_id) if entry.dagster_event]
    told = [e.asset_observation_data.asset_observation for e in events if e.event_type_value == "ASSET_OBSERVATION"]
    facts = [(o.asset_key.to_user_string(), o.metadata["maintenance"].value) for o in told]
    return done.success, {(name, f["kind"]): f for name, f in facts if isinstance(f, dict)}


def event_days(house: House) -> dict[str, set]:
    found = {f"{layer}/readings": rows(house.settings, layer, "readings", ["_event_date"]) for layer in LAYERS}
    gold = {f"gold/{name}": rows(house.settings, "gold", name, ["day"]) for name in ("per_day", "by_reading")}
    return {name: {d for row in r for d in row.values()} for name, r in (found | gold).items()}


def test_what_is_past_its_retention_goes_and_stays_away(house_of) -> None:
    """Deleted in every layer by the job; no run, late file or changed contract brings it back, and no account is broken by it."""
    house = house_of("house")
    keep_a_year(house)
    for number in (0, 1, RECENT):
        house.deliver(number, [reading(number, f"r{number}-{n}", n - 1) for n in range(10)])
    assert house.run(0, 1).status == house.run(RECENT, RECENT).status == "success"
    shatter(house.settings, "silver/readings", day(RECENT))
    orphan = Path(house.settings.table_path("silver", "readings")) / f"_event_date={day(RECENT)}" / "killed.parquet"
    orphan.write_bytes(b"half a file")
    long_ago = (datetime.now(UTC) - timedelta(days=60)).timestamp()
    os.utime(orphan, (long_ago, long_ago))

    is_done, told = tonight(house)
    assert is_done
    assert {kind for name, kind in told if name == "silver/readings"} == {"retention", "compact", "vacuum"}
    assert (
        told["silver/readings", "compact"]["result"]["files_before"]
        > told["silver/readings", "compact"]["result"]["files"]
    )
    assert not orphan.exists()
    assert footprint(house.settings.table_path("silver", "readings")).crowded == []
    kept = {day(RECENT)}
    assert event_days(house) == {
        **{f"{layer}/readings": kept for layer in LAYERS},
        "gold/per_day": kept,
        "gold/by_reading": {day(0), day(1), day(RECENT)},  # it has no days: made anew by the next run
    }

    again = house.run(0, 1)
    assert (again.status, again.failed_gates) == ("success", [])
    assert all(found == kept for found in event_days(house).values())
    house.deliver(0, [reading(0, "late", 5)], "late.jsonl")
    house.ship(law("pieces >= 1", "1.1.0"))
    assert house.run(0, 1).status == "success"
    assert all(found == kept for found in event_days(house).values())
    _, told = tonight(house)
    assert not [name for name, kind in told if kind == "retention"]


def test_a_broken_table_does_not_keep_the_others_from_being_looked_after(house_of) -> None:
    """The job fails and says which and why, after everything else was done."""
    house = house_of("house")
    house.ship(law())
    house.deliver(0, [reading(0, f"r{n}", n) for n in range(10)])
    assert house.run(0, 0, 'key:"silver/readings"+ or key:"bronze/readings"').status == "success"
    shatter(house.settings, "silver/readings", day(0))
    log = Path(house.settings.table_path("bronze", "readings")) / "_delta_log"
    for file in log.glob("*.json"):
        file.write_text("not a commit\n")
    is_done, told = tonight(house)
    assert not is_done
    assert told["bronze/readings", "look"]["problem"]
    assert told["silver/readings", "compact"]["result"]["files"] == 1
    assert len(DeltaTable(house.settings.table_path("silver", "readings")).file_uris()) == 1
