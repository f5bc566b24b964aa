"""A dataset of many columns, with rules on each, in JSON and in CSV: what is joined per column must not nest per column."""

import json
from datetime import date
from pathlib import Path

import pytest

from stream_assets.settings import Settings
from tests.documents import contract, document
from tests.lakes import as_lines, deliver, land_days, ledger, refine_days, rows

DAY = date(2025, 3, 3)
COLUMNS = [f"value_{n}" for n in range(60)]
RECORDS = 20
BAD = 7
"""Every seventh record has one value out of its range, another column each time."""


def records() -> list[dict]:
    made = []
    for n in range(RECORDS):
        values = {name: (n + k) % 100 for k, name in enumerate(COLUMNS) if (n + k) % 5}
        if n % BAD == 0:
            values[COLUMNS[n * 3 % len(COLUMNS)]] = 1_000
        made.append({"reading_id": f"r{n}", "taken_at": f"{DAY}T10:00:00Z", **values})
    return made


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_every_rule_of_a_wide_dataset_is_applied(form: str, lake: Settings, spark, tmp_path: Path) -> None:
    made = document()
    made["servers"][0]["format"] = form
    made["schema"][0]["quality"] = []
    made["schema"][0]["properties"][2:] = [
        {"name": name, "logicalType": "integer", "logicalTypeOptions": {"minimum": 0, "maximum": 99}}
        for name in COLUMNS
    ]
    law = contract(tmp_path, made)
    if form == "jsonl":
        deliver(lake, f"readings/{DAY}/a.jsonl", as_lines(records()))
    else:
        names = ["taken_at", *reversed(COLUMNS), "reading_id"]
        lines = [",".join(str(record.get(name, "")) for name in names) for record in records()]
        deliver(lake, f"readings/{DAY}/a.csv", "\n".join([",".join(names), *lines]) + "\n")
    land_days(spark, lake, law, DAY)
    refine_days(spark, lake, law, DAY)
    bad = [r for r in records() if any(v == 1_000 for v in r.values())]
    entry = ledger(lake, "silver", "readings")[DAY.isoformat()]
    assert (entry["accepted"], entry["quarantined"]) == (RECORDS - len(bad), len(bad))
    expected = {f"validity__{name}__range": 1 for r in bad for name, value in r.items() if value == 1_000}
    assert entry["violations"] == expected
    kept = {
        row["reading_id"]: {c: row[c] for c in COLUMNS if row[c] is not None}
        for row in rows(lake, "silver", "readings")
    }
    sound = [r for r in records() if r not in bad]
    assert kept == {r["reading_id"]: {c: r[c] for c in COLUMNS if c in r} for r in sound}, json.dumps(sound[0])
