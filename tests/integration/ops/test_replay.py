"""Rejected records come back: by a mended contract or by an edited export, once, and as a rebuild from nothing would have it."""

import json
from pathlib import Path

import pytest

from stream_assets.build import build_defs
from stream_assets.errors import StreamError
from stream_assets.ops.quarantine.records import MASK, Filter, Rejected, read_rejected
from stream_assets.ops.quarantine.replay import export_lines
from stream_assets.ops.quarantine.run import replay_records
from tests.integration.ops.conftest import House, day, law, reading
from tests.lakes import ledger, rows, version

STRICT = "pieces >= 0 and pieces < 5"
LAYERS = ("bronze", "silver", "quarantine")


def rejected(house: House) -> list[Rejected]:
    return list(read_rejected(house.settings, "readings", Filter()))


def replay(house: House, spark, *, rule: str | None = None, file: Path | None = None, dry_run: bool = False):
    defs = build_defs(house.settings)
    return replay_records(spark, house.settings, defs, house.contract, Filter(rule), file=file, dry_run=dry_run)


def versions(house: House) -> list[int]:
    gold = [version(house.settings, "gold", name) for name in ("per_day", "by_reading")]
    return [version(house.settings, layer, "readings") for layer in LAYERS] + gold


def personal(contract: dict) -> dict:
    """The contract with a personal column."""
    column = next(c for c in contract["schema"][0]["properties"] if c["name"] == "text")
    column |= {"classification": "restricted", "tags": ["pii"]}
    column["customProperties"] = [{"property": "pii", "value": {"strategy": "hash"}}]
    return contract


def test_after_a_contract_fix_a_replay_equals_a_rebuild(house_of, spark) -> None:
    """A dry run counts without writing; the replay takes the records in; a second one finds nothing to do."""
    house = house_of("house")
    house.ship(law(STRICT))
    for number in range(3):
        house.deliver(number, [*(reading(number, f"r{number}-{n}", n - 1) for n in range(10)), "not a record\n"])
    house.run(0, 2)
    house.ship(law("pieces >= 0 and pieces < 7 and pieces != 1", "1.1.0"))
    before = versions(house)
    told, executed = replay(house, spark, dry_run=True)
    assert (told.total("recovered"), told.total("still_rejected"), told.total("newly_rejected")) == (6, 12, 3)
    assert told.recovered == {"consistency__record__pieces_positive": 6}
    assert told.still_rejected == {"consistency__record__pieces_positive": 9, "validity__record__malformed": 3}
    assert versions(house) == before
    assert not executed
    assert replay(house, spark)[1]
    clean = house_of("clean", house.settings)
    clean.ship(law("pieces >= 0 and pieces < 7 and pieces != 1", "1.1.0"))
    clean.run(0, 2)
    assert house.contents(volatile=False) == clean.contents(volatile=False)
    marked = [row["_resolution"] for row in rows(house.settings, "quarantine", "readings") if row["_resolved_at"]]
    assert marked == ["accepted under 1.1.0"] * 6


def test_an_edited_export_is_taken_in_once(house_of, spark, tmp_path: Path) -> None:
    """Bronze keeps the original, Silver has the correction, the original is marked, and personal data never left."""
    house = house_of("house")
    house.ship(personal(law()))
    house.deliver(0, [reading(0, "a", -1, text="Ada Lovelace"), reading(0, "b", 2), "not a record\n"])
    house.run(0, 0)
    lines = [json.loads(line) for line in export_lines(rejected(house), house.contract, {}, reveal=False)]
    assert [line["record"] and line["record"]["text"] for line in lines] == [MASK, None]
    lines[0]["record"]["pieces"] = 3
    lines[1]["record"] = reading(0, "c", 4)
    file = tmp_path / "edited.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    told, executed = replay(house, spark, file=file, dry_run=True)
    assert (told.total("recovered"), executed) == (2, False)
    assert replay(house, spark, file=file)[1]
    silver = {row["reading_id"]: row for row in rows(house.settings, "silver", "readings")}
    assert {name: row["pieces"] for name, row in silver.items()} == {"a": 3, "b": 2, "c": 4}
    assert silver["a"]["_source"].startswith("correction/")
    assert silver["a"]["text"]
    assert silver["a"]["text"] != "Ada Lovelace"
    resolved = [row["_resolution"] for row in rows(house.settings, "quarantine", "readings")]
    assert resolved == ["corrected", "corrected"]
    entry = ledger(house.settings, "silver", "readings")[day(0).isoformat()]
    assert {k: entry[k] for k in ("rows_in", "accepted", "quarantined", "duplicates")} == {
        "rows_in": 5, "accepted": 3, "quarantined": 0, "duplicates": 2,
    }  # fmt: skip
    assert len(rows(house.settings, "bronze", "readings")) == 5

    before = versions(house)
    assert not replay(house, spark, file=file)[1]
    assert versions(house) == before
    house.deliver(0, [reading(0, "z", 9)], name="more.jsonl")
    assert house.run(0, 0).status == "success", "a delivery that comes again keeps its corrections, and adds up"
    again = {row["reading_id"]: row["pieces"] for row in rows(house.settings, "silver", "readings")}
    assert again == {"a": 3, "b": 2, "c": 4, "z": 9}


def test_a_correction_of_the_day_is_made_on_both_days(house_of, spark, tmp_path: Path) -> None:
    """The record leaves the quarantine of the day it was told to be of, and is in Silver and Gold on the one it is of."""
    house = house_of("house")
    house.ship(law(checks=[{"check": "validity__table__rejected_share", "strictness": "warn"}]))
    house.deliver(1, [reading(0, "a", -1), reading(1, "b", 2)])
    house.run(0, 1)
    (line,) = (json.loads(line) for line in export_lines(rejected(house), house.contract, {}, reveal=False))
    line["record"] = reading(-1, "a", 1)
    file = tmp_path / "edited.jsonl"
    file.write_text(json.dumps(line))
    assert replay(house, spark, file=file)[1]
    assert {row["reading_id"]: row["_event_date"] for row in rows(house.settings, "silver", "readings")} == {
        "a": day(-1),
        "b": day(1),
    }
    assert {row["day"] for row in rows(house.settings, "gold", "per_day")} == {day(-1), day(1)}
    assert rejected(house) == []


def test_what_is_not_an_export_is_refused(house_of, spark, tmp_path: Path) -> None:
    """The line is named."""
    house = house_of("house")
    house.ship(law())
    house.deliver(0, [reading(0, "a", -1)])
    house.run(0, 0, 'key:"bronze/readings" or key:"silver/readings"')
    file = tmp_path / "edited.jsonl"
    file.write_text("\n" + json.dumps(reading(0, "a", 1)) + "\n")
    with pytest.raises(StreamError, match="Line 2 of"):
        replay(house, spark, file=file)
    line = {"export": "e", "source": "s", "position": 1, "delivery_date": "2025-03-02", "record": {}}
    file.write_text(json.dumps(line))
    with pytest.raises(StreamError, match="has no record at s:1"):
        replay(house, spark, file=file)
