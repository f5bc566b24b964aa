"""The quality report as one HTML page that needs nothing else: no script, no request, its style and pictures inside.

Only shows: every figure is made in `report.py`. Here is the frame and what concerns the scores; what was found about single
checks, days and datasets is `findings.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

from stream_assets.quality import findings
from stream_assets.quality.markup import Markup, element, join
from stream_assets.quality.pieces import MARKS, chip, score_text, section, share_text, state_of, table
from stream_assets.quality.plots import draw_meter, draw_ring
from stream_assets.quality.report import Dimension, Report
from stream_assets.quality.score import DIMENSIONS, FAMILIES, GATE_WEIGHT, TARGET, TIER_WEIGHTS
from stream_assets.quality.words import count_text, percent, short_count

VERDICTS = {"good": "On target", "fair": "Below target", "poor": "Far below target", "none": "No checks yet"}
# Should a text ever get through as markup, the browser still loads and runs nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render_page(report: Report) -> str:
    """The whole page."""
    sections = (
        _summary(report),
        _scores(report),
        findings.show_failed_checks(report),
        findings.show_anomalies(report),
        findings.show_trends(report),
        findings.show_reasons(report),
        findings.show_service_levels(report),
        _method(),
    )
    body = element("body", element("main", _header(report), *sections), _footer(report))
    return f"<!DOCTYPE html>\n{element('html', _head(report), body, lang='en')}\n"


def _head(report: Report) -> Markup:
    style = Markup(Path(__file__).with_name("page.css").read_text(encoding="utf-8"))
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),
        element("title", f"Quality report, {report.window.last}"),
        element("style", style),
    )


def _header(report: Report) -> Markup:
    days = count_text(len(report.window.days), "day")
    when = f"{_day(report.window.first)} to {_day(report.window.last)} ({days})"
    return element("header", element("h1", "Quality report"), element("p", when, class_="when"))


def _day(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def _footer(report: Report) -> Markup:
    return element(
        "footer",
        f"Made {report.made_at:%Y-%m-%d %H:%M} UTC from the ledgers of the lake and the latest result of each check.",
    )


def _summary(report: Report) -> Markup:
    state = state_of(report.score)
    verdict = element(
        "div",
        element("p", f"{MARKS[state]} {VERDICTS[state]}", class_=f"verdict {state}"),
        element("p", f"The target is above {TARGET:.0%}.", class_="note"),
    )
    ring = draw_ring(report.score, state=state, label=f"Quality score {share_text(report.score)}")
    return element(
        "section",
        element("div", ring, verdict, class_="hero"),
        element("div", *_record_tiles(report), *_alarm_tiles(report), class_="tiles"),
        class_="summary",
        aria_label="Summary",
    )


def _record_tiles(report: Report) -> list[Markup]:
    counts = report.counts
    parts = ("accepted", "quarantined", "duplicates")
    return [
        _tile("records", short_count(counts.rows_in), f"in {count_text(len(report.datasets), 'dataset')}"),
        *[_tile(part, share_text(counts.share(part)), f"{getattr(counts, part):,} records") for part in parts],
    ]


def _alarm_tiles(report: Report) -> list[Markup]:
    stale = sum(not dataset.service.is_fresh for dataset in report.datasets)
    set_aside = sum(dataset.delivered.files_set_aside for dataset in report.datasets)
    alarms = (
        ("failed checks", len(report.failed), f"of {len(report.checks):,}", "poor"),
        ("anomalies", len(report.anomalies), "in these days", "fair"),
        ("stale datasets", stale, f"of {len(report.datasets)}, now", "poor"),
        ("files set aside", set_aside, "could not be read", "fair"),
    )
    return [_tile(name, f"{count:,}", note, state if count else "good") for name, count, note, state in alarms]


def _tile(name: str, figure: str, note: str, state: str = "") -> Markup:
    return element(
        "div",
        element("p", name, class_="name"),
        element("p", figure, class_=f"figure {state}"),
        element("p", note, class_="note"),
        class_="tile",
    )


def _scores(report: Report) -> Markup:
    families = [_score_row(name, score, f"weight {FAMILIES[name]}") for name, score in report.families.items()]
    dimensions = [_score_row(dimension.name, dimension.score, _sound(dimension)) for dimension in report.dimensions]
    pair = element(
        "div",
        element("div", element("h3", "By family"), *families, class_="card"),
        element("div", element("h3", "By dimension"), *dimensions, class_="card"),
        class_="pair",
    )
    return section("Scores", pair, _dataset_scores(report), _table_scores(report.tables))


def _sound(dimension: Dimension) -> str:
    return "" if dimension.sound_records is None else f"{percent(dimension.sound_records)} of records"


def _score_row(name: str, score: float | None, note: str) -> Markup:
    state = state_of(score)
    return element(
        "div",
        element("span", name, class_="name"),
        draw_meter(score, state=state, target=TARGET, label=f"{name}: {share_text(score)}"),
        element("span", score_text(score), class_=f"figure {state}"),
        element("span", note, class_="note"),
        class_="score-row",
    )


def _dataset_scores(report: Report) -> Markup:
    rows = [
        [
            element("th", dataset.name, scope="row"),
            element("td", str(dataset.service.tier)),
            *[_score_cell(score) for score in (dataset.score, *dataset.families.values())],
        ]
        for dataset in report.datasets
    ]
    return table("Score of each dataset", ["dataset", "tier", "score", *FAMILIES], rows, kind="wide figures")


def _score_cell(score: float | None) -> Markup:
    return element("td", chip(score_text(score), state_of(score)))


def _table_scores(tables: Mapping[str, float | None]) -> Markup:
    """Gold is long and mostly fine: one line, which names only the tables that are not."""
    if not tables:
        return Markup()
    low = {name: score for name, score in tables.items() if score is not None and score <= TARGET}
    named = [
        join("; " if place else ". Below it: ", element("b", name), f" {share_text(score)}")
        for place, (name, score) in enumerate(low.items())
    ]
    line = f"{len(tables) - len(low)} of {count_text(len(tables), 'Gold table')} on target"
    return element("p", line, *named, ".", class_="note")


def _method() -> Markup:
    weights = ", ".join(f"{family} {weight}" for family, weight in FAMILIES.items())
    tiers = ", ".join(f"tier {tier} {weight}" for tier, weight in TIER_WEIGHTS.items())
    formula = {
        "Family": f"the share of a dataset's checks in it whose latest result passed; a gate weighs as much as {GATE_WEIGHT} checks",
        "Dataset": f"the mean of its families, by weight: {weights}",
        "Overall": f"the mean of the datasets, by weight: {tiers}, Gold tables 1",
        "Records": "beside a dimension: the share of records that broke none of its rules, at least",
    }
    cards = [
        element("div", element("h3", title), _definitions(terms), class_="card")
        for title, terms in (("Formula", formula), ("Dimensions", DIMENSIONS))
    ]
    return section("How the score is made", element("div", *cards, class_="pair"))


def _definitions(terms: Mapping[str, str]) -> Markup:
    return element("dl", *[join(element("dt", term), element("dd", text)) for term, text in terms.items()])
