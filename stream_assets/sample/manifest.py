"""The manifest: what a landing zone holds, every fault injected into it, and what a correct lake makes of it.

It is the answer key of the sample data. `Ledger` collects it while deliveries are written; `Manifest` is the result.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MANIFEST_FILE = "manifest.json"

Expect = dict[str, Any]


@dataclass(frozen=True)
class Injected:
    """One injected fault: where it is, and what has to become of it.

    Attributes:
        fault: Kind of fault.
        dataset: Dataset whose delivery holds it.
        delivery_date: Day of the delivery.
        file: Path relative to the landing zone.
        line: Physical line from 1 (a CSV header is line 1), or Parquet row from 1; None when the whole file is meant.
        key: Primary key, or None where the record has no readable one.
        column: Column that is at fault, or None when it is the record.
        event_date: Day whose partition counts the record.
        expect: One of {"quarantine": [rule, ...]}, {"duplicate": true}, {"check": "orphan"},
            {"drift": "new_column" | "missing_column"}, {"accepted": true}.
    """

    fault: str
    dataset: str
    delivery_date: str
    file: str
    line: int | None
    key: str | None
    column: str | None
    event_date: str
    expect: Expect


@dataclass(frozen=True)
class Totals:
    """What one partition counts: rows_in = accepted + quarantined + duplicates."""

    rows_in: int
    accepted: int
    quarantined: int
    duplicates: int


@dataclass(frozen=True)
class Manifest:
    """The answer key of a landing zone; `totals` is by dataset and event date."""

    start: str
    end: str
    days: int
    scale: float
    seed: int
    faults: tuple[Injected, ...]
    totals: dict[str, dict[str, Totals]]
    pii_canaries: tuple[str, ...]

    def to_json(self) -> str:
        """Return the manifest as JSON, one fault to a line so that it can be searched with line tools."""
        document = asdict(self)
        faults = ",\n".join(json.dumps(fault, ensure_ascii=False) for fault in document.pop("faults"))
        head = json.dumps(document, ensure_ascii=False, indent=1)
        return f'{head.removesuffix("}").rstrip()},\n "faults": [\n{faults}\n]}}\n'


def read_manifest(landing: Path) -> Manifest:
    """Read the manifest of a landing zone."""
    document = json.loads((landing / MANIFEST_FILE).read_text(encoding="utf-8"))
    document["faults"] = tuple(Injected(**fault) for fault in document["faults"])
    document["pii_canaries"] = tuple(document["pii_canaries"])
    document["totals"] = {
        dataset: {day: Totals(**totals) for day, totals in days.items()} for dataset, days in document["totals"].items()
    }
    return Manifest(**document)


@dataclass
class Ledger:
    """Counts and faults, collected delivery by delivery."""

    rows_in: Counter[tuple[str, str]] = field(default_factory=Counter)
    quarantined: Counter[tuple[str, str]] = field(default_factory=Counter)
    duplicates: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[Injected] = field(default_factory=list)

    def count_rows(self, dataset: str, *, arrived: Counter[str], superseding: Counter[str]) -> None:
        """Count the rows of a delivery by event date; each superseding row makes an earlier version a duplicate."""
        for day, count in arrived.items():
            self.rows_in[dataset, day] += count
        for day, count in superseding.items():
            self.duplicates[dataset, day] += count

    def record(self, fault: Injected) -> None:
        """Note a fault, and count what becomes of the record."""
        self.faults.append(fault)
        if "quarantine" in fault.expect:
            self.quarantined[fault.dataset, fault.event_date] += 1
        if "duplicate" in fault.expect:
            self.duplicates[fault.dataset, fault.event_date] += 1

    def totals(self) -> dict[str, dict[str, Totals]]:
        """Return what each partition counts."""
        totals: dict[str, dict[str, Totals]] = {}
        for dataset, day in sorted(self.rows_in):
            rows_in = self.rows_in[dataset, day]
            quarantined, duplicates = self.quarantined[dataset, day], self.duplicates[dataset, day]
            accepted = rows_in - quarantined - duplicates
            totals.setdefault(dataset, {})[day] = Totals(rows_in, accepted, quarantined, duplicates)
        return totals
