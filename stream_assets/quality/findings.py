"""The sections of the report page about what was found: failed checks, anomalies, trends, quarantine, service levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stream_assets.quality.markup import Markup, element
from stream_assets.quality.pieces import MARKS, chip, named, nothing, score_text, section, state_of, table
from stream_assets.quality.plots import draw_bars, draw_line, draw_meter
from stream_assets.quality.report import Anomaly, DatasetReport, Report, ServiceLevel
from stream_assets.quality.score import CheckResult, dimension_of
from stream_assets.quality.words import count_text, percent, short_count, span_text

BUDGET_STATES = {"ok": "good", "burning": "fair", "exhausted": "poor", "unknown": "none"}


def show_failed_checks(report: Report) -> Markup:
    """What was expected and what was found."""
    if not report.failed:
        return section("Failed checks", nothing("Every check passed." if report.checks else "No check has run yet."))
    rows = [_failed_row(check) for check in report.failed]
    return section(
        "Failed checks", table("Failed checks", ["check", "expected", "found", "when"], rows, kind="stacked")
    )


def _failed_row(check: CheckResult) -> list[Markup]:
    gates = [chip("gate", "poor", title="It stopped what is downstream.")] if check.is_gate else []
    when = f"{check.evaluated_at:%Y-%m-%d %H:%M}" if check.evaluated_at else "–"
    return [
        named(check.asset, check.name, *gates),
        element("td", check.expected or "It holds.", data_label="expected"),
        element("td", check.found or "It does not hold.", data_label="found"),
        element("td", when, data_label="when", class_="quiet moment"),
    ]


def show_anomalies(report: Report) -> Markup:
    """Days that differ from those before."""
    if not report.anomalies:
        text = "Every day looks like the weeks before it, as far as there are weeks to compare with."
        return section("Anomalies", nothing(text))
    rows = [
        [
            named(anomaly.dataset, anomaly.check),
            element("td", _days(anomaly), data_label="days", class_="quiet"),
            element("td", anomaly.finding, data_label="finding"),
        ]
        for anomaly in report.anomalies
    ]
    return section("Anomalies", table("Anomalies", ["check", "days", "finding"], rows, kind="stacked"))


def _days(anomaly: Anomaly) -> str:
    first, last = anomaly.days[0], anomaly.days[-1]
    return first if first == last else f"{first} to {last} ({len(anomaly.days)} days)"


def show_trends(report: Report) -> Markup:
    """Four small plots per dataset, all over the same days."""
    legend = (
        "Every plot covers the same days. A red bar with a pointer under it is a day with an anomaly; a gap is a day that the "
        "ledger does not know."
    )
    known = [dataset for dataset in report.datasets if any(dataset.trend.values())]
    cards = [_trend_card(dataset, _odd_days(report, dataset.name)) for dataset in known]
    unknown = [dataset.name for dataset in report.datasets if dataset not in known]
    rest = f"Nothing is known in these days of {', '.join(unknown)}." if unknown else ""
    return section(
        "Trends",
        element("p", legend, class_="note"),
        element("div", *cards, class_="cards"),
        element("p", rest, class_="note rest"),
    )


def _odd_days(report: Report, dataset: str) -> set[str]:
    return {day for anomaly in report.anomalies if anomaly.dataset == dataset for day in anomaly.days}


def _trend_card(dataset: DatasetReport, odd_days: set[str]) -> Markup:
    files = dataset.delivered.files_set_aside
    set_aside = f" and set {count_text(files, 'file')} aside" if files else ""
    taken = (
        f"Bronze took in {dataset.delivered.records:,} records{set_aside}, Silver judged {dataset.counts.rows_in:,}."
    )
    shares = [_share_plot(dataset, name) for name in ("accepted", "quarantined", "duplicates")]
    return element(
        "article",
        element("h3", dataset.name, chip(score_text(dataset.score), state_of(dataset.score))),
        element("p", taken, class_="note"),
        element("div", _records_plot(dataset, odd_days), *shares, class_="plots"),
        class_="card",
    )


def _records_plot(dataset: DatasetReport, odd_days: set[str]) -> Markup:
    rows = {day: counts.rows_in if counts else None for day, counts in dataset.trend.items()}
    return _figure(
        "records",
        list(rows.values()),
        show=lambda value: short_count(round(value)),
        draw=lambda label: draw_bars(rows, label=label, marked=odd_days),
    )


def _share_plot(dataset: DatasetReport, name: str) -> Markup:
    values = [counts.share(name) if counts else None for counts in dataset.trend.values()]
    known = [value for value in values if value is not None]
    # Accepted hangs from 100 %, the others stand on 0 %. The axis spans a point at least, or noise looks like news.
    low, high = (min([*known, 0.99]), 1.0) if name == "accepted" else (0.0, max([*known, 0.01]))
    return _figure(
        name,
        values,
        show=percent,
        draw=lambda label: draw_line(values, label=label, low=low, high=high, kind=name),
    )


def _figure(
    name: str, values: Sequence[float | None], *, show: Callable[[float], str], draw: Callable[[str], Markup]
) -> Markup:
    """A plot under its name and newest value, above its range."""
    known = [value for value in values if value is not None]
    spread = f"{show(min(known))} to {show(max(known))}" if known else "nothing known"
    newest = show(known[-1]) if known else "–"
    return element(
        "figure",
        element("figcaption", element("span", name, class_="name"), element("span", newest, class_="figure")),
        draw(f"{name} per day: {spread}, newest {newest}"),
        element("p", spread, class_="note"),
    )


def show_reasons(report: Report) -> Markup:
    """The rules that rejected most records."""
    if not report.reasons:
        return section("Quarantine reasons", nothing("No record was quarantined in these days."))
    most = report.reasons[0].rows
    rows = [
        [
            named(reason.dataset, reason.rule),
            element("td", dimension_of(reason.rule), data_label="dimension", class_="quiet"),
            element(
                "td",
                draw_meter(reason.rows / most, state="quarantined", label=f"{reason.rows:,} records"),
                class_="bar-cell",
            ),
            element("td", f"{reason.rows:,}", data_label="records", class_="number"),
            element("td", percent(reason.share), data_label="of its dataset", class_="number"),
        ]
        for reason in report.reasons
    ]
    note = element("p", "The rules that rejected most records. A record counts for every rule it broke.", class_="note")
    heads = ["rule", "dimension", "", "records", "of its dataset"]
    return section("Quarantine reasons", note, table("Records per broken rule", heads, rows, kind="stacked"))


def show_service_levels(report: Report) -> Markup:
    """Promise, newest event, availability and what is left of the error budget."""
    month = f"available in {report.made_at:%B}"
    heads = ["dataset", "tier", "target", "newest event", "age", month, "budget", "left", "", "state"]
    rows = [_service_row(dataset.name, dataset.service) for dataset in report.datasets]
    return section("Service levels", table("Service levels", heads, rows, kind="wide figures"))


def _service_row(name: str, service: ServiceLevel) -> list[Markup]:
    state, freshness = BUDGET_STATES[service.state], "good" if service.is_fresh else "poor"
    left = max(service.remaining / service.budget, 0.0) if service.budget else 0.0
    age = f"{MARKS[freshness]} {span_text(service.age)}" if service.age is not None else "– no event"
    return [
        element("th", name, scope="row"),
        element("td", str(service.tier)),
        element("td", span_text(service.target)),
        element("td", f"{service.newest_event:%Y-%m-%d %H:%M}" if service.newest_event else "–"),
        element("td", chip(age, freshness)),
        element("td", "–" if service.availability is None else f"{service.availability:.2%}"),
        element("td", span_text(service.budget)),
        element("td", span_text(service.remaining)),
        element("td", draw_meter(left, state=state, label=f"{left:.0%} of the budget is left"), class_="bar-cell"),
        element("td", chip(f"{MARKS[state]} {service.state}", state)),
    ]
