"""The lake against the answer key of the sample: every rejection, every count, every drift, none more and none less."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, date, datetime

import pytest

from stream_assets.contracts.model import CheckSetting, Contract
from stream_assets.ops.alerts.incidents import Condition, Notice
from stream_assets.ops.alerts.message import Alert
from stream_assets.quality.evidence import DUPLICATE
from stream_assets.quality.outcomes import Outcome, judge_references, reference_check
from stream_assets.silver.audit import judge_entries
from stream_assets.silver.references import find_orphans
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


STRICT = ("completeness__table__rejected_share", "validity__table__rejected_share")
FAMILY_OF = {True: STRICT[0], False: STRICT[1]}
"""Which check answers for a broken rule, by whether it is about a missing value."""


def judge_strictly(sample, name: str, *days: str) -> list[Outcome]:
    """Every check that is made of what was counted, tolerating nothing."""
    entries = ledger(sample.lake, "silver", name)
    law = replace(sample.contracts[name], check_settings=tuple(CheckSetting(c, limit=0) for c in STRICT))
    asked = {day: entries[day] for day in days or entries}
    return judge_entries(law, asked, entries, {day: entry["rows_in"] for day, entry in asked.items()})


def orphans_of(sample, spark, contract: Contract) -> Iterator[Outcome]:
    entries = ledger(sample.lake, "silver", contract.name)
    days = [date.fromisoformat(day) for day in entries]
    for column in contract.columns:
        if column.references:
            target = sample.contracts[column.references[0]]
            found = find_orphans(spark, contract, column, target, days)
            yield judge_references(contract, column.name, found, entries)


@pytest.mark.parametrize("name", DATASETS)
def test_each_day_fails_the_families_of_its_faults_and_no_other(name: str, refined_sample) -> None:
    """Tolerating nothing, a check of a day fails exactly if the answer key has a fault of its family there."""
    faults = [f for f in refined_sample.manifest.faults if f.dataset == name]
    is_entity = refined_sample.contracts[name].kind == "entity"
    for day in ledger(refined_sample.lake, "silver", name):
        here = [f for f in faults if (f.delivery_date if is_entity else f.event_date) == day]
        rules = {rule for f in here for rule in f.expect.get("quarantine", ())}
        announced = {FAMILY_OF[rule.startswith("completeness__")] for rule in rules}
        failed = {o.name for o in judge_strictly(refined_sample, name, day) if not o.passed}
        assert failed - {"validity__schema__drift"} == announced


@pytest.mark.parametrize("name", ["order_items", "orders", "payments"])
def test_orphans_are_the_announced_ones(name: str, sample_in_catalogue, spark) -> None:
    """By the column that points at nothing, on its day, named by the key of the row; columns without a fault pass."""
    contract = replace(sample_in_catalogue.contracts[name], check_settings=(CheckSetting("*__references", limit=0),))
    orphaned = [f for f in sample_in_catalogue.manifest.faults if f.dataset == name and f.expect == {"check": "orphan"}]
    assert orphaned
    for outcome in orphans_of(sample_in_catalogue, spark, contract):
        here = [f for f in orphaned if reference_check(str(f.column)) == outcome.name]
        assert outcome.facts["orphans"] == Counter(f.event_date for f in here)
        assert outcome.passed == (not here)
        assert set(outcome.facts.get("sample", ())) <= {f.key for f in here}
        assert bool(here) == bool(outcome.facts.get("sample"))


@pytest.mark.parametrize("name", DATASETS)
def test_samples_are_announced_records_by_key_or_by_place(name: str, refined_sample) -> None:
    """Each broken rule of a day names records that broke it; a person's are named by file and line alone."""
    announced: dict[str, set[str | None]] = {}
    for fault in refined_sample.manifest.faults:
        for rule in fault.expect.get("quarantine", ()) if fault.dataset == name else ():
            announced.setdefault(rule, set()).update((fault.key, f"{fault.file}:{fault.line}"))
    for entry in ledger(refined_sample.lake, "silver", name).values():
        named = {rule: set(names) for rule, names in entry["samples"].items() if rule != DUPLICATE}
        assert named.keys() == entry["violations"].keys()
        assert all(named.values())
        assert {rule: names - announced[rule] for rule, names in named.items() if names - announced[rule]} == {}
        if name == "customers":
            assert all(".jsonl" in place for names in named.values() for place in names)


@pytest.mark.parametrize("name", DATASETS)
def test_no_check_and_no_alert_tells_personal_data(name: str, sample_in_catalogue, spark) -> None:
    """The canaries of the sample are in its records and in none of what is told about them."""
    contract = sample_in_catalogue.contracts[name]
    outcomes = [*judge_strictly(sample_in_catalogue, name), *orphans_of(sample_in_catalogue, spark, contract)]
    assert any(outcome.facts.get("sample") for outcome in outcomes)
    for outcome in outcomes:
        facts = outcome.facts
        sample, look = tuple(facts.get("sample", ())), facts.get("look", "")
        about = Condition(
            "check", f"silver/{name}", outcome.name, "error", "", outcome.summary, sample=sample, look=look
        )
        now = datetime.now(UTC)
        alert = Alert.of(Notice("opened", about, now, now))
        told = json.dumps([outcome.summary, facts, alert.document(), alert.text()], default=str)
        assert not [canary for canary in sample_in_catalogue.manifest.pii_canaries if canary in told]
    pages = json.dumps(ledger(sample_in_catalogue.lake, "silver", name))
    assert not [canary for canary in sample_in_catalogue.manifest.pii_canaries if canary in pages]
