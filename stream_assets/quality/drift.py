"""Whether a day looks like the days before it: volume, shape of each column, share of each category, mean of each number.

Pure functions of ledger entries. A day is held to its trailing baseline; a day without enough of one is not judged, and the
outcome says so. Limits are wide enough that a clean year stays quiet (a test counts the false alarms).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from stream_assets.contracts.model import Contract
from stream_assets.quality.outcomes import Entries, Outcome
from stream_assets.quality.profile import is_numeric, profiled
from stream_assets.quality.trend import sparkline
from stream_assets.quality.words import count_text

BASELINE_DAYS = 28
NEEDED_DAYS = 7
WEEKDAYS_NEEDED = 3

MAX_PSI = 0.2
"""Population stability index above which a shape has changed. 0.1 is commonly called a small shift, 0.25 a large one."""
MAX_Z = 5.0
MIN_CHANGE = 0.35
"""A share or a mean must differ by this much to matter, however sure we are that it differs."""
MIN_EXPECTED = 20
VOLUME_CHANGE = 1.5
NEW_SHARE = 0.005
MAX_DUPLICATES = 0.5
DUPLICATES_RISE = 0.05

Profile = Mapping[str, Any]


def judge_days(contract: Contract, entries: Entries, history: Entries) -> Iterator[Outcome]:
    """Everything the days of a dataset are held to, within the limits of its contract.

    Entries written before days were profiled do not say what volume and columns are judged by.
    """
    limit = contract.limit
    yield judge_duplicates(entries, history, limit("uniqueness__table__duplicate_share", MAX_DUPLICATES))
    days, known = ({day: e for day, e in part.items() if "prompt" in e} for part in (entries, history))
    yield judge_volume(days, known, limit("distribution__table__volume", VOLUME_CHANGE))
    for column in profiled(contract):
        tolerated = limit(f"distribution__{column.name}__drift", MAX_PSI)
        yield judge_column(column.name, days, known, is_numeric=is_numeric(column), limit=tolerated)


def judge_volume(entries: Entries, history: Entries, limit: float = VOLUME_CHANGE) -> Outcome:
    """The records of each day are near what its weekday and the last four weeks let expect.

    Counted are those that came as promptly as usual: the last days still lack their stragglers.
    """
    known = {**history, **entries}
    rows = {day: e["prompt"] for day, e in known.items() if e.get("prompt")}
    odd: dict[str, Any] = {}
    judged = 0
    for day in sorted(entries):
        past = _before(day, rows)
        if len(past) < NEEDED_DAYS:
            continue
        judged += 1
        found, expected = entries[day]["prompt"], _expected_rows(day, past)
        spread = max(0.05, 3 / math.sqrt(expected), _spread([n / _expected_rows(d, past) for d, n in past.items()]))
        ratio = found / expected
        if abs(ratio - 1) / spread > MAX_Z and not 1 / limit <= ratio <= limit:
            odd[day] = {"rows": found, "expected": round(expected), "ratio": round(ratio, 2)}
    name, facts = "distribution__table__volume", {"odd_days": odd, "trend": sparkline([rows[d] for d in sorted(rows)])}
    if not judged:
        return Outcome(name, True, _no_baseline(len(rows)), facts)
    worst = max(odd, key=lambda d: abs(math.log(max(odd[d]["ratio"], 1e-3))), default=None)
    summary = (
        f"{worst}: {odd[worst]['rows']:,} records, {odd[worst]['expected']:,} expected"
        if worst
        else f"{count_text(judged, 'day')} within {limit:g} × of what was expected"
    )
    return Outcome(name, not odd, summary, facts)


def judge_deliveries(entries: Entries, history: Entries, limit: float = VOLUME_CHANGE) -> Outcome:
    """The same of what was delivered, before anything is made of it."""
    now, before = ({d: {"prompt": e["rows_in"]} for d, e in part.items()} for part in (entries, history))
    return replace(judge_volume(now, before, limit), name="distribution__delivery__volume")


def _expected_rows(day: str, past: Mapping[str, int]) -> float:
    """The median of the baseline, corrected by what this weekday usually makes of it."""
    middle = statistics.median(past.values())
    same = [n for d, n in past.items() if date.fromisoformat(d).weekday() == date.fromisoformat(day).weekday()]
    return statistics.median(same) if len(same) >= WEEKDAYS_NEEDED else middle


def judge_duplicates(entries: Entries, history: Entries, most: float = MAX_DUPLICATES) -> Outcome:
    """A source does not mostly repeat itself, nor suddenly much more than it used to."""
    known = {**history, **entries}
    shares = {day: e["duplicates"] / e["rows_in"] for day, e in known.items() if e.get("rows_in")}
    high: dict[str, Any] = {}
    for day in sorted(set(entries) & set(shares)):
        past = list(_before(day, shares).values())
        limit = most
        if len(past) >= NEEDED_DAYS:
            middle = statistics.median(past)
            limit = min(limit, middle + max(DUPLICATES_RISE, MAX_Z * _spread(past)))
        if shares[day] > limit:
            high[day] = {"share": round(shares[day], 4), "limit": round(limit, 4)}
    total = sum(e["duplicates"] for e in entries.values())
    worst = max((shares[day] for day in entries if day in shares), default=0)
    summary = f"{total:,} superseded or repeated records removed, worst day {worst:.2%}" + (
        f", {len(high)} days above their limit" if high else ""
    )
    return Outcome("uniqueness__table__duplicate_share", not high, summary, {"days_above": high})


def judge_column(
    column: str, entries: Entries, history: Entries, *, is_numeric: bool, limit: float = MAX_PSI
) -> Outcome:
    """The values of a column are distributed as in the weeks before: shape, categories, and the mean of numbers."""
    known = {
        day: {**e["profile"][column], "sum": e["sums"].get(column, 0.0)}
        for day, e in {**history, **entries}.items()
        if column in e.get("profile", {})
    }
    name, odd, judged = f"distribution__{column}__drift", {}, 0
    for day in sorted(set(entries) & set(known)):
        past = _before(day, known)
        if len(past) < NEEDED_DAYS:
            continue
        judged += 1
        if findings := _compare(known[day], list(past.values()), limit, is_numeric=is_numeric):
            odd[day] = findings
    if not judged:
        return Outcome(name, True, _no_baseline(len(known)), {})
    worst = max(odd, key=lambda day: len(odd[day]), default=None)
    summary = (
        f"{worst}: {'; '.join(odd[worst][:3])}"
        if worst
        else f"{count_text(judged, 'day')} like the {BASELINE_DAYS} days before"
    )
    return Outcome(name, not odd, summary, {"odd_days": odd})


def _compare(found: Profile, past: Sequence[Profile], limit: float, *, is_numeric: bool) -> list[str]:
    """What is odd about a day, in words."""
    baseline: Counter[str] = Counter()
    for profile in past:
        baseline.update(profile["counts"])
    findings = [*_shape(found["counts"], baseline, limit), *_nulls(found, past)]
    return findings + (_mean(found, past) if is_numeric else _categories(found, past, baseline))


def _shape(counts: Mapping[str, int], baseline: Mapping[str, int], limit: float) -> list[str]:
    rows, rows_before = sum(counts.values()), sum(baseline.values())
    if rows < MIN_EXPECTED or not rows_before:
        return []
    found, noise = psi(counts, baseline), (len({*counts, *baseline}) - 1) * (1 / rows + 1 / rows_before)
    # Two samples of one population differ by about `noise`.
    limit += 3 * noise
    return [f"shape differs (PSI {found:.2f}, limit {limit:.2f})"] if found > limit else []


def psi(counts: Mapping[str, int], baseline: Mapping[str, int]) -> float:
    """Population stability index of two histograms; an empty bucket counts as half a record."""
    buckets = {*counts, *baseline}
    rows, rows_before = (sum(max(h.get(b, 0), 0.5) for b in buckets) for h in (counts, baseline))
    shares = [(max(counts.get(b, 0), 0.5) / rows, max(baseline.get(b, 0), 0.5) / rows_before) for b in buckets]
    return sum((now - before) * math.log(now / before) for now, before in shares)


def _categories(found: Profile, past: Sequence[Profile], baseline: Mapping[str, int]) -> list[str]:
    rows = _values(found)
    if not rows:
        return []
    findings = []
    for category in sorted({*found["counts"], *baseline}):
        count = found["counts"].get(category, 0)
        if category not in baseline:
            if count >= max(5, NEW_SHARE * rows) and not any(p["others"] for p in past):
                findings.append(f"new value {category!r} ({count:,} records)")
            continue
        before = [p["counts"].get(category, 0) / _values(p) for p in past if _values(p)]
        finding = _share(count / rows, before, rows, found["others"])
        if finding:
            findings.append(f"{category!r} {finding}")
    return findings


def _nulls(found: Profile, past: Sequence[Profile]) -> list[str]:
    rows = _values(found) + found["nulls"]
    before = [p["nulls"] / (_values(p) + p["nulls"]) for p in past if _values(p) + p["nulls"]]
    # Compared as the share with a value too, or a column that is hardly ever null could never be found out.
    finding = _share(found["nulls"] / rows, before, rows, 0) if rows and before else None
    rise = found["nulls"] / rows - statistics.median(before) if rows and before else 0
    return [f"missing in {finding}"] if finding and abs(rise) > DUPLICATES_RISE else []


def _share(share: float, before: Sequence[float], rows: int, others: int) -> str | None:
    middle = statistics.median(before)
    expected = middle * rows
    if (share == 0 and others) or max(expected, share * rows) < MIN_EXPECTED:
        return None
    change = abs(share - middle) / middle if middle else math.inf
    noise = math.sqrt(max(middle * (1 - middle), 1 / rows) / rows)
    certainty = abs(share - middle) / max(noise, _spread(before))
    return f"{share:.1%} of records ({middle:.1%} before)" if change > MIN_CHANGE and certainty > MAX_Z else None


def _mean(found: Profile, past: Sequence[Profile]) -> list[str]:
    rows = _values(found)
    means = [p["sum"] / _values(p) for p in past if _values(p)]
    if rows < MIN_EXPECTED or len(means) < NEEDED_DAYS:
        return []
    mean, middle = found["sum"] / rows, statistics.median(means)
    spread = max(_spread(means), 0.02 * abs(middle), 1e-9)
    far = abs(mean - middle) / spread > MAX_Z and abs(mean - middle) > MIN_CHANGE * abs(middle)
    return [f"mean {mean:,.4g} ({middle:,.4g} before)"] if far else []


def _values(profile: Profile) -> int:
    return sum(profile["counts"].values()) + profile["others"]


def _before(day: str, series: Mapping[str, Any]) -> dict[str, Any]:
    """The trailing baseline of a day."""
    return {d: series[d] for d in sorted(d for d in series if d < day)[-BASELINE_DAYS:]}


def _spread(values: Iterable[float]) -> float:
    """A standard deviation that a few odd days do not move."""
    values = list(values)
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


def _no_baseline(days: int) -> str:
    return f"no baseline yet ({min(days, NEEDED_DAYS)} of {NEEDED_DAYS} days)"
