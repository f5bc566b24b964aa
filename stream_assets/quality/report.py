"""The quality report as values: what it says and how each figure is made, from ledger entries and check results.

Pure functions. `ops/report.py` gathers what goes in, `page.py` shows what comes out, `report_document` is the same for
machines. Names, days and counts only: values of records stay where they are, except categories the contract has profiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from stream_assets.quality.outcomes import Entries, Outcome
from stream_assets.quality.score import (
    DIMENSIONS,
    FAMILIES,
    TARGET,
    CheckResult,
    dataset_score,
    dimension_of,
    family_of,
    family_scores,
    quality_score,
    scores_by,
)

FORMAT = 1
"""Raise when a field of the JSON document is renamed, removed or means something else."""
MAX_REASONS = 10
MAX_NAMES, MAX_NAME = 5, 63
SCHEMA_CHECK = "validity__schema__drift"
COUNTED = ("rows_in", "accepted", "quarantined", "duplicates")


@dataclass(frozen=True)
class Window:
    """The days a report is about, both ends included."""

    first: date
    last: date

    @property
    def days(self) -> tuple[str, ...]:
        """Each ISO day of it."""
        count = (self.last - self.first).days + 1
        return tuple((self.first + timedelta(days=n)).isoformat() for n in range(count))


@dataclass(frozen=True)
class Counts:
    """What became of records: all of them are accepted, quarantined or duplicates."""

    rows_in: int = 0
    accepted: int = 0
    quarantined: int = 0
    duplicates: int = 0

    def share(self, name: str) -> float | None:
        """The share of one of its parts; None without records."""
        return getattr(self, name) / self.rows_in if self.rows_in else None


@dataclass(frozen=True)
class Delivered:
    """What Bronze took in, by day of delivery."""

    records: int
    files_set_aside: int


@dataclass(frozen=True)
class ServiceLevel:
    """The promise of freshness and what is left of its error budget this month."""

    tier: int
    target: timedelta
    newest_event: datetime | None
    age: timedelta | None
    is_fresh: bool
    availability: float | None
    budget: timedelta
    remaining: timedelta
    state: str


@dataclass(frozen=True)
class Anomaly:
    """Days of a dataset that differ from those before in the same way."""

    dataset: str
    check: str
    days: tuple[str, ...]
    finding: str


@dataclass(frozen=True)
class Reason:
    """A rule that put records into quarantine."""

    dataset: str
    rule: str
    rows: int
    share: float
    """Of the records of its dataset."""


@dataclass(frozen=True)
class DatasetFacts:
    """Everything gathered about one dataset."""

    name: str
    entries: Entries
    """The Silver ledger, whole: anomalies need the days before the window."""
    deliveries: Entries
    service: ServiceLevel
    anomalies: tuple[Anomaly, ...] = ()


@dataclass(frozen=True)
class DatasetReport:
    """One dataset over the window."""

    name: str
    score: float | None
    families: dict[str, float | None]
    counts: Counts
    delivered: Delivered
    trend: dict[str, Counts | None]
    """Per day of the window; None where the ledger knows nothing of it."""
    service: ServiceLevel


@dataclass(frozen=True)
class Dimension:
    """A dimension of quality: how its checks stand, and the share of records that broke none of its rules."""

    name: str
    score: float | None
    sound_records: float | None
    """None for what is not a matter of single records."""


@dataclass(frozen=True)
class Report:
    """The quality of everything at a moment."""

    made_at: datetime
    window: Window
    score: float | None
    families: dict[str, float | None]
    dimensions: tuple[Dimension, ...]
    datasets: tuple[DatasetReport, ...]
    tables: dict[str, float | None]
    """Scores of tables without a contract: those of Gold."""
    checks: tuple[CheckResult, ...]
    anomalies: tuple[Anomaly, ...]
    reasons: tuple[Reason, ...]
    counts: Counts

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """Checks that did not pass: gates first, then as the data flows."""
        order = {"bronze": 0, "silver": 1, "gold": 2}
        failed = [check for check in self.checks if not check.passed]
        return tuple(
            sorted(failed, key=lambda c: (not c.is_gate, order.get(c.asset.partition("/")[0], 3), c.asset, c.name))
        )


def latest_page(home: Path) -> Path:
    """Where the newest report of a STREAM_HOME is."""
    return home / "reports" / "quality" / "latest.html"


def window_of(ledgers: Iterable[Entries], days: int, today: date) -> Window:
    """The last so many days up to the newest that has records. Days to come are left out: only a wrong clock makes them."""
    known = [day for entries in ledgers for day, entry in entries.items() if entry.get("rows_in")]
    last = max((date.fromisoformat(day) for day in known if day <= today.isoformat()), default=today)
    return Window(last - timedelta(days=days - 1), last)


def build_report(
    datasets: Sequence[DatasetFacts], checks: Sequence[CheckResult], *, window: Window, made_at: datetime
) -> Report:
    """Put everything together."""
    tiers = {facts.name: facts.service.tier for facts in datasets}
    families = scores_by(checks, family_of, tiers)
    reported = tuple(_dataset_report(facts, checks, window) for facts in datasets)
    tables = sorted({check.dataset for check in checks} - set(tiers))
    return Report(
        made_at=made_at,
        window=window,
        score=quality_score(checks, tiers),
        families={family: families.get(family) for family in FAMILIES},
        dimensions=_dimensions(datasets, checks, tiers, window),
        datasets=reported,
        tables={table: dataset_score(_checks_of(table, checks)) for table in tables},
        checks=tuple(checks),
        anomalies=tuple(anomaly for facts in datasets for anomaly in facts.anomalies),
        reasons=_reasons(datasets, window),
        counts=_total(dataset.counts for dataset in reported),
    )


def _dataset_report(facts: DatasetFacts, checks: Sequence[CheckResult], window: Window) -> DatasetReport:
    trend = {day: _counts(facts.entries, day) for day in window.days}
    own = _checks_of(facts.name, checks)
    known = family_scores(own)
    return DatasetReport(
        name=facts.name,
        score=dataset_score(own),
        families={family: known.get(family) for family in FAMILIES},
        counts=_total(counts for counts in trend.values() if counts),
        delivered=_delivered(facts.deliveries, window),
        trend=trend,
        service=facts.service,
    )


def _checks_of(dataset: str, checks: Sequence[CheckResult]) -> list[CheckResult]:
    return [check for check in checks if check.dataset == dataset]


def _counts(entries: Entries, day: str) -> Counts | None:
    return Counts(**{name: entries[day].get(name, 0) for name in COUNTED}) if day in entries else None


def _total(counts: Iterable[Counts]) -> Counts:
    known = list(counts)
    return Counts(**{name: sum(getattr(count, name) for count in known) for name in COUNTED})


def _delivered(deliveries: Entries, window: Window) -> Delivered:
    entries = [deliveries[day] for day in window.days if day in deliveries]
    return Delivered(
        records=sum(entry.get("rows_in", 0) for entry in entries),
        files_set_aside=sum(len(entry.get("unreadable", {})) for entry in entries),
    )


def _dimensions(
    datasets: Sequence[DatasetFacts], checks: Sequence[CheckResult], tiers: dict[str, int], window: Window
) -> tuple[Dimension, ...]:
    scores = scores_by(checks, dimension_of, tiers)
    rows = sum(_rows_in(facts, window) for facts in datasets)
    broken: Counter[str] = Counter()
    for facts in datasets:
        for entry in _in_window(facts.entries, window):
            broken.update(_broken_by_dimension(entry))
    counted = ("completeness", "consistency", "validity")
    return tuple(
        Dimension(name, scores.get(name), 1 - broken[name] / rows if rows and name in counted else None)
        for name in DIMENSIONS
    )


def _broken_by_dimension(entry: Mapping[str, Any]) -> Counter[str]:
    """Upper bound of a day's records that broke a rule of each dimension: one record may break several."""
    rules: Counter[str] = Counter()
    for rule, rows in entry.get("violations", {}).items():
        rules[dimension_of(rule)] += rows
    return Counter({name: min(rows, entry.get("quarantined", 0)) for name, rows in rules.items()})


def _reasons(datasets: Sequence[DatasetFacts], window: Window) -> tuple[Reason, ...]:
    """The rules that rejected most records, the worst first. A record counts for every rule it broke."""
    found = [reason for facts in datasets for reason in _reasons_of(facts, window)]
    return tuple(sorted(found, key=lambda reason: (-reason.rows, reason.dataset, reason.rule))[:MAX_REASONS])


def _reasons_of(facts: DatasetFacts, window: Window) -> Iterator[Reason]:
    rules: Counter[str] = Counter()
    for entry in _in_window(facts.entries, window):
        rules.update(entry.get("violations", {}))
    rows_in = _rows_in(facts, window)
    yield from (
        Reason(facts.name, rule, rows, rows / rows_in if rows_in else 0.0) for rule, rows in rules.items() if rows
    )


def _rows_in(facts: DatasetFacts, window: Window) -> int:
    return sum(entry.get("rows_in", 0) for entry in _in_window(facts.entries, window))


def _in_window(entries: Entries, window: Window) -> list[Mapping[str, Any]]:
    return [entries[day] for day in window.days if day in entries]


def find_anomalies(dataset: str, outcomes: Iterable[Outcome]) -> tuple[Anomaly, ...]:
    """What the outcomes of drift checks say about single days; days with the same finding are told together."""
    days: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        for day, finding in _findings(outcome):
            days.setdefault((outcome.name, finding), []).append(day)
    return _newest_first(Anomaly(dataset, check, tuple(sorted(on)), finding) for (check, finding), on in days.items())


def _findings(outcome: Outcome) -> Iterator[tuple[str, str]]:
    for day, odd in outcome.facts.get("odd_days", {}).items():
        yield day, "; ".join(odd) if isinstance(odd, list) else f"{odd['rows']:,} records, {odd['expected']:,} expected"
    for day, high in outcome.facts.get("days_above", {}).items():
        yield day, f"{high['share']:.1%} of records are duplicates, limit {high['limit']:.1%}"


def find_column_changes(dataset: str, entries: Entries) -> tuple[Anomaly, ...]:
    """Days whose records brought columns the contract does not have, or no value of one that it has."""
    days: dict[str, list[str]] = {}
    for day, entry in entries.items():
        for said, names in (("new", entry.get("new_columns")), ("without any value", entry.get("missing_columns"))):
            if names:
                days.setdefault(f"{said}: {_some(names)}", []).append(day)
    return _newest_first(Anomaly(dataset, SCHEMA_CHECK, tuple(sorted(on)), finding) for finding, on in days.items())


def _some(names: Sequence[str]) -> str:
    """The first names. They may come from outside: there may be many, and long ones."""
    rest = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(name[:MAX_NAME] for name in names[:MAX_NAMES]) + rest


def _newest_first(anomalies: Iterable[Anomaly]) -> tuple[Anomaly, ...]:
    return tuple(sorted(anomalies, key=lambda anomaly: (anomaly.days[-1], anomaly.check), reverse=True))


def report_document(report: Report) -> dict[str, Any]:
    """The report for machines: moments and days as ISO text, durations in seconds, shares and scores from 0 to 1."""
    return {
        "format": FORMAT,
        "made_at": report.made_at.isoformat(timespec="seconds"),
        "window": {"first": report.window.first.isoformat(), "last": report.window.last.isoformat()},
        "score": report.score,
        "target": TARGET,
        "is_met": None if report.score is None else report.score > TARGET,
        "families": report.families,
        "dimensions": {d.name: {"score": d.score, "sound_records": d.sound_records} for d in report.dimensions},
        "counts": asdict(report.counts),
        "checks": {"passed": len(report.checks) - len(report.failed), "failed": len(report.failed)},
        "failed_checks": [_check_document(check) for check in report.failed],
        "anomalies": [asdict(anomaly) | {"days": list(anomaly.days)} for anomaly in report.anomalies],
        "quarantine_reasons": [asdict(reason) | {"dimension": dimension_of(reason.rule)} for reason in report.reasons],
        "datasets": [_dataset_document(dataset) for dataset in report.datasets],
        "tables": report.tables,
    }


def _check_document(check: CheckResult) -> dict[str, Any]:
    return {
        "asset": check.asset,
        "check": check.name,
        "family": family_of(check.name),
        "dimension": dimension_of(check.name),
        "is_gate": check.is_gate,
        "expected": check.expected,
        "found": check.found,
        "evaluated_at": check.evaluated_at.isoformat(timespec="seconds") if check.evaluated_at else None,
    }


def _dataset_document(dataset: DatasetReport) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "score": dataset.score,
        "families": dataset.families,
        "counts": asdict(dataset.counts),
        "delivered": asdict(dataset.delivered),
        "trend": {day: asdict(counts) if counts else None for day, counts in dataset.trend.items()},
        "service": _service_document(dataset.service),
    }


def _service_document(service: ServiceLevel) -> dict[str, Any]:
    return {
        "tier": service.tier,
        "target_seconds": service.target.total_seconds(),
        "newest_event": service.newest_event.isoformat() if service.newest_event else None,
        "age_seconds": service.age.total_seconds() if service.age is not None else None,
        "is_fresh": service.is_fresh,
        "availability": service.availability,
        "budget_seconds": service.budget.total_seconds(),
        "remaining_seconds": service.remaining.total_seconds(),
        "state": service.state,
    }
