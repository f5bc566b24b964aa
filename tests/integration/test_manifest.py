"""The lake against the answer key of the sample: every rejection, every count, every drift, none more and none less."""

from collections import Counter
from dataclasses import asdict

import pytest

from tests.integration.test_oracle import DATASETS
from tests.lakes import ledger, rows

COUNTS = ("rows_in", "accepted", "quarantined", "duplicates")


@pytest.mark.parametrize("name", DATASETS)
def test_quarantine_holds_exactly_the_announced_records(name: str, refined_sample) -> None:
    """Same files, same lines, same rules: nothing sound was rejected, nothing rejected got through."""
    announced = {
        (fault.file, fault.line): sorted(fault.expect["quarantine"])
        for fault in refined_sample.manifest.faults
        if fault.dataset == name and "quarantine" in fault.expect
    }
    found = {
        (row["_source"], row["_position"]): sorted(row["_violations"])
        for row in rows(refined_sample.lake, "quarantine", name)
    }
    assert found == announced


@pytest.mark.parametrize("name", DATASETS)
def test_quarantined_records_are_kept_as_received(name: str, refined_sample) -> None:
    """A rejected record can be mended and sent again: its text is there, or its bytes where it is no text."""
    for row in rows(refined_sample.lake, "quarantine", name):
        is_bytes = row["_violations"] == ["validity__record__encoding"]
        assert (row["_raw_bytes"] is not None) == is_bytes
        assert row["_raw"] is not None
        assert row["_quarantined_at"] is not None


@pytest.mark.parametrize("name", DATASETS)
def test_the_ledger_counts_what_the_manifest_counts(name: str, refined_sample) -> None:
    """Rows in = accepted + quarantined + duplicates, day by day. Changes of an entity belong to the day they came."""
    announced = {day: asdict(totals) for day, totals in refined_sample.manifest.totals[name].items()}
    entries = ledger(refined_sample.lake, "silver", name)
    found = {day: {count: entry[count] for count in COUNTS} for day, entry in entries.items()}
    for entry in found.values():
        assert entry["rows_in"] == entry["accepted"] + entry["quarantined"] + entry["duplicates"]
    if refined_sample.contracts[name].kind == "entity":
        announced, found = (
            {"all": sum((Counter(day) for day in days.values()), Counter())} for days in (announced, found)
        )
    assert found == announced


@pytest.mark.parametrize("name", DATASETS)
def test_the_ledger_names_the_rules_that_were_broken(name: str, refined_sample) -> None:
    entries = ledger(refined_sample.lake, "silver", name)
    told = sum((Counter(entry["violations"]) for entry in entries.values()), Counter())
    held = Counter(rule for row in rows(refined_sample.lake, "quarantine", name) for rule in row["_violations"])
    assert told == held


@pytest.mark.parametrize("name", DATASETS)
def test_bronze_tells_where_its_rows_come_from(name: str, refined_sample) -> None:
    """Rows per file in the ledger are rows per file in the table."""
    told = {
        source: n
        for day in ledger(refined_sample.lake, "bronze", name).values()
        for source, n in day["sources"].items()
    }
    assert told == Counter(row["_source"] for row in rows(refined_sample.lake, "bronze", name, ["_source"]))


def test_drift_is_found_where_it_was_made(refined_sample) -> None:
    """A new column and a missing one are seen on the days of their delivery, in orders, and nowhere else."""
    announced = {f.expect["drift"]: f for f in refined_sample.manifest.faults if "drift" in f.expect}
    new, missing = announced["new_column"], announced["missing_column"]
    entries = {name: ledger(refined_sample.lake, "silver", name) for name in DATASETS}
    without = {
        (name, day): e["missing_columns"]
        for name, days in entries.items()
        for day, e in days.items()
        if e["missing_columns"]
    }
    assert without == {("orders", missing.delivery_date): ["note"]}
    # Late records of that delivery belong to earlier days, so these show the new column too.
    surplus = {
        (name, day): e["new_columns"] for name, days in entries.items() for day, e in days.items() if e["new_columns"]
    }
    assert surplus["orders", new.delivery_date] == ["loyalty_tier"]
    assert {name for name, _ in surplus} == {"orders"}
    assert max(day for _, day in surplus) == new.delivery_date
