"""Ledger entries as Silver writes them, made without Spark: for tests of what is read from ledgers, and to look at pages."""

import random
from datetime import date, timedelta
from typing import Any

ENTRY: dict[str, Any] = {
    "rows_in": 0,
    "accepted": 0,
    "quarantined": 0,
    "duplicates": 0,
    "prompt": 0,
    "violations": {},
    "warnings": {},
    "new_columns": [],
    "missing_columns": [],
    "newest_event": None,
    "sums": {},
    "profile": {},
}


def entry(accepted: int, quarantined: int = 0, duplicates: int = 0, **said: Any) -> dict[str, Any]:
    """The entry of a day whose records add up."""
    rows_in = accepted + quarantined + duplicates
    counts = {"rows_in": rows_in, "accepted": accepted, "quarantined": quarantined, "duplicates": duplicates}
    return ENTRY | counts | {"prompt": rows_in} | said


def make_entries(last: date, days: int, *, rows: int, seed: int, rules: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Entries of a quiet dataset: a weekly rhythm, some noise, a few rejected records. Same seed, same entries."""
    rng = random.Random(seed)
    made = {}
    for day in (last - timedelta(days=n) for n in range(days - 1, -1, -1)):
        size = round(rows * (1.15 if day.weekday() < 5 else 0.8) * rng.uniform(0.95, 1.05))
        broken = {rule: round(size * rng.uniform(0.0005, 0.004)) for rule in rules}
        rejected = sum(broken.values())
        repeated = round(size * rng.uniform(0.01, 0.02))
        made[day.isoformat()] = entry(
            size - rejected - repeated, rejected, repeated, violations=broken, newest_event=f"{day}T23:58:00.000000Z"
        )
    return made
