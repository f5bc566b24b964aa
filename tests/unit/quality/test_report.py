"""The quality report: figures against those counted by hand, and a page that is safe whatever the texts are."""

import json
import re
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_assets.quality.markup import VOID, element
from stream_assets.quality.outcomes import Outcome
from stream_assets.quality.page import render_page
from stream_assets.quality.report import (
    Anomaly,
    Counts,
    DatasetFacts,
    Reason,
    Report,
    ServiceLevel,
    Window,
    build_report,
    find_anomalies,
    find_column_changes,
    report_document,
    window_of,
)
from stream_assets.quality.score import CheckResult
from stream_assets.quality.words import percent, short_count
from tests.ledgers import entry, make_entries

NOW = datetime(2026, 4, 10, 12, tzinfo=UTC)
WINDOW = Window(date(2026, 4, 7), date(2026, 4, 9))
SERVICE = ServiceLevel(
    tier=1,
    target=timedelta(days=2),
    newest_event=datetime(2026, 4, 9, 23, tzinfo=UTC),
    age=timedelta(hours=13),
    is_fresh=True,
    availability=0.9995,
    budget=timedelta(minutes=43),
    remaining=timedelta(minutes=20),
    state="ok",
)
ORDERS = {
    "2026-04-06": entry(1000, 1000, violations={"validity__status__allowed": 1000}),
    "2026-04-07": entry(90, 6, 4, violations={"completeness__id__required": 4, "validity__status__allowed": 3}),
    "2026-04-09": entry(95, 5, violations={"validity__status__allowed": 2, "consistency__record__sum": 3}),
}
DELIVERIES = {
    "2026-04-08": {"rows_in": 205, "unreadable": {"a.jsonl.gz": "truncated"}},
    "2026-04-01": {"rows_in": 7, "unreadable": {"b.jsonl.gz": "truncated"}},
}
HOSTILE = "\"'><script>alert(1)</script><img src=https://evil.example/x onerror=alert(1)>&amp;"


def facts(name: str = "orders", entries: Any = None, **given: Any) -> DatasetFacts:
    known = {"deliveries": DELIVERIES, "service": SERVICE} | given
    return DatasetFacts(name, ORDERS if entries is None else entries, **known)


def check(asset: str, name: str, passed: bool = True, **given: Any) -> CheckResult:
    return CheckResult(asset, name, passed, is_gate=name.endswith("__reconciled"), **given)


def report(*datasets: DatasetFacts, checks: tuple[CheckResult, ...] = ()) -> Report:
    return build_report(datasets or (facts(),), checks, window=WINDOW, made_at=NOW)


def full_report() -> Report:
    """Something in every section."""
    anomaly = Anomaly("orders", "distribution__table__volume", ("2026-04-09",), "100 records, 300 expected")
    return report(
        facts(anomalies=(anomaly,)),
        checks=(
            check("silver/orders", "completeness__table__reconciled"),
            check("silver/orders", "distribution__table__volume", False, expected="as usual", found="2026-04-09: 100"),
            check("gold/fct_orders", "unique_fct_orders_id", False, evaluated_at=NOW),
        ),
    )


def test_counts_are_those_of_the_window() -> None:
    """The day before the window is not counted; the day the ledger does not know is told as unknown, not as empty."""
    (orders,) = report().datasets
    assert orders.counts == Counts(rows_in=200, accepted=185, quarantined=11, duplicates=4)
    assert orders.counts.share("accepted") == 0.925
    assert orders.trend == {
        "2026-04-07": Counts(100, 90, 6, 4),
        "2026-04-08": None,
        "2026-04-09": Counts(100, 95, 5, 0),
    }
    assert (orders.delivered.records, orders.delivered.files_set_aside) == (205, 1)


def test_counts_of_the_whole_are_the_sum_of_datasets() -> None:
    assert report(facts("a"), facts("b")).counts == Counts(400, 370, 22, 8)


def test_reasons_are_rows_per_rule_the_worst_first() -> None:
    assert report().reasons == (
        Reason("orders", "validity__status__allowed", 5, 0.025),
        Reason("orders", "completeness__id__required", 4, 0.02),
        Reason("orders", "consistency__record__sum", 3, 0.015),
    )


def test_only_ten_reasons_are_shown() -> None:
    broken = {f"validity__c{n}__type": n for n in range(15)}
    found = report(facts(entries={"2026-04-09": entry(0, 200, violations=broken)})).reasons
    assert [reason.rows for reason in found] == list(range(14, 4, -1))


def test_dimensions_tell_the_records_that_broke_none_of_their_rules() -> None:
    """4 of 200 lacked a field, 3 broke a promise between fields, 5 a rule of values; never more than were quarantined."""
    found = {dimension.name: dimension.sound_records for dimension in report().dimensions}
    assert found == {
        "accuracy": None,
        "completeness": pytest.approx(0.98),
        "consistency": pytest.approx(0.985),
        "timeliness": None,
        "validity": pytest.approx(0.975),
        "uniqueness": None,
    }
    twice = {"2026-04-09": entry(90, 10, violations={"validity__a__type": 10, "validity__b__type": 10})}
    (validity,) = [d for d in report(facts(entries=twice)).dimensions if d.name == "validity"]
    assert validity.sound_records == pytest.approx(0.9)


def test_scores_are_per_dataset_family_and_table() -> None:
    """orders: (3 × 1 + 1 × 0) / 4, of tier 1; the Gold table 0: (3 × 0.75 + 1 × 0) / 4."""
    made = full_report()
    assert made.datasets[0].score == 0.75
    assert made.datasets[0].families["distribution"] == 0
    assert made.datasets[0].families["freshness"] is None
    assert made.tables == {"gold/fct_orders": 0.0}
    assert made.score == 0.5625
    assert made.families["uniqueness"] == 0


def test_failed_checks_come_gates_first_and_as_the_data_flows() -> None:
    made = report(
        checks=tuple(
            check(asset, name, False)
            for asset, name in (
                ("gold/a", "unique_a"),
                ("silver/a", "validity__table__warnings"),
                ("bronze/a", "validity__delivery__readable"),
                ("silver/b", "completeness__table__reconciled"),
            )
        )
    )
    assert [c.asset for c in made.failed] == ["silver/b", "bronze/a", "silver/a", "gold/a"]


def test_the_window_ends_with_the_newest_records_and_not_in_the_future() -> None:
    ledgers = [{"2026-04-07": entry(1)}, {"2026-04-09": entry(0), "2026-05-01": entry(1)}]
    assert window_of(ledgers, 3, NOW.date()) == Window(date(2026, 4, 5), date(2026, 4, 7))
    assert window_of([], 2, NOW.date()).days == ("2026-04-09", "2026-04-10")


def test_days_with_the_same_finding_are_one_anomaly() -> None:
    outcomes = [
        Outcome(
            "distribution__c__drift", False, "", {"odd_days": {"2026-04-08": ["a", "b"], "2026-04-07": ["a", "b"]}}
        ),
        Outcome("distribution__table__volume", False, "", {"odd_days": {"2026-04-09": {"rows": 1200, "expected": 9}}}),
        Outcome(
            "uniqueness__table__duplicate_share",
            False,
            "",
            {"days_above": {"2026-04-07": {"share": 0.5, "limit": 0.1}}},
        ),
    ]
    assert find_anomalies("orders", outcomes) == (
        Anomaly("orders", "distribution__table__volume", ("2026-04-09",), "1,200 records, 9 expected"),
        Anomaly("orders", "distribution__c__drift", ("2026-04-07", "2026-04-08"), "a; b"),
        Anomaly(
            "orders",
            "uniqueness__table__duplicate_share",
            ("2026-04-07",),
            "50.0% of records are duplicates, limit 10.0%",
        ),
    )


def test_columns_that_came_or_went_are_told_a_few_at_a_time() -> None:
    """Their names come from outside."""
    many = [f"c{n}" for n in range(9)]
    found = find_column_changes("a", {"2026-04-07": entry(1, new_columns=many, missing_columns=["note" * 30])})
    assert {anomaly.finding for anomaly in found} == {
        "new: c0, c1, c2, c3, c4 and 4 more",
        f"without any value: {('note' * 30)[:63]}",
    }


class Page(HTMLParser):
    """Elements, attributes and texts of a page; refuses elements that are not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID | {"wbr"}:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_needs_nothing_from_outside() -> None:
    text = render_page(full_report())
    page = Page(text)
    assert not {"script", "img", "iframe", "object", "embed", "form", "a"} & set(page.elements)
    assert {value for name, value in page.attributes if name in ("href", "src", "xlink:href", "action")} == {"data:,"}
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_people_and_machines_see_the_same_figures() -> None:
    made = full_report()
    text, told = " ".join(Page(render_page(made)).texts), json.loads(json.dumps(report_document(made)))
    (orders,) = told["datasets"]
    shares = [
        orders["counts"][name] / orders["counts"]["rows_in"] for name in ("accepted", "quarantined", "duplicates")
    ]
    for figure in (told["score"], orders["score"], *shares):
        assert percent(figure) in text
    for words in (
        "as usual",
        "2026-04-09: 100",
        "100 records, 300 expected",
        "fct_orders",
        "99.95%",
        "20 min",
        "Bronze took in 205 records and set 1 file aside, Silver judged 200.",
    ):
        assert words in text


def hostile_report() -> Report:
    """Everything that is text, hostile."""
    anomaly = Anomaly(HOSTILE, HOSTILE, ("2026-04-09",), HOSTILE)
    broken = {"2026-04-09": entry(1, 1, violations={HOSTILE: 1}, new_columns=[HOSTILE])}
    bad = check(f"silver/{HOSTILE}", HOSTILE, False, expected=HOSTILE, found=HOSTILE)
    return report(
        facts(HOSTILE, broken, anomalies=(anomaly, *find_column_changes(HOSTILE, broken))),
        checks=(bad, check(f"gold/{HOSTILE}", HOSTILE, False)),
    )


def test_hostile_texts_are_only_texts() -> None:
    """Names of datasets, rules and columns, and what checks say, can close no tag, open none and load nothing."""
    text = render_page(hostile_report())
    page, harmless = Page(text), Page(render_page(full_report()))
    assert set(page.elements) <= set(harmless.elements)
    assert {name for name, _ in page.attributes} <= {name for name, _ in harmless.attributes}
    assert "<script" not in text
    assert HOSTILE in "".join(page.texts)


@given(st.text())
def test_any_text_comes_out_as_it_went_in(text: str) -> None:
    """Carriage returns and zero characters are the parser's business."""
    text = text.replace("\r", "").replace("\0", "")
    page = Page(element("p", element("b", text, title=text)))
    assert page.elements == ["p", "b"]
    assert "".join(page.texts) == text
    assert page.attributes == [("title", text)]


def test_a_lake_without_anything_has_a_page_too() -> None:
    made = build_report((), (), window=WINDOW, made_at=NOW)
    text = " ".join(Page(render_page(made)).texts)
    assert "No checks yet" in text
    assert report_document(made)["score"] is None
    empty = facts("silent", entries={}, deliveries={})
    assert "Nothing is known in these days of silent." in render_page(report(empty))


def test_a_year_of_a_dataset_is_drawn() -> None:
    """Days are counted, whatever their number."""
    entries = make_entries(WINDOW.last, 365, rows=1000, seed=1, rules=("validity__a__type",))
    window = window_of([entries], 365, NOW.date())
    made = build_report([facts(entries=entries)], (), window=window, made_at=NOW)
    assert made.counts.rows_in == sum(e["rows_in"] for e in entries.values())
    assert Page(render_page(made)).elements.count("g") == 365


def shape(value: Any) -> Any:
    """Names and kinds of a document, without its values."""
    if isinstance(value, dict):
        return {name: shape(part) for name, part in value.items()}
    if isinstance(value, list):
        return [shape(part) for part in value[:1]]
    return type(value).__name__


def test_the_document_keeps_its_shape() -> None:
    """Others read it: a field that is renamed, removed or changes its meaning needs another `format`."""
    counts = dict.fromkeys(("rows_in", "accepted", "quarantined", "duplicates"), "int")
    families = {"completeness": "float", "validity": "NoneType", "uniqueness": "NoneType", "freshness": "NoneType"}
    names = ("accuracy", "completeness", "consistency", "timeliness", "validity", "uniqueness")
    found = shape(report_document(full_report()))
    assert list(found["dimensions"]) == list(names)
    assert {tuple(dimension) for dimension in found.pop("dimensions").values()} == {("score", "sound_records")}
    assert found == {
        "format": "int",
        "made_at": "str",
        "window": {"first": "str", "last": "str"},
        "score": "float",
        "target": "float",
        "is_met": "bool",
        "families": families | {"uniqueness": "float", "distribution": "float"},
        "counts": counts,
        "checks": {"passed": "int", "failed": "int"},
        "failed_checks": [
            {
                "asset": "str",
                "check": "str",
                "family": "str",
                "dimension": "str",
                "is_gate": "bool",
                "expected": "str",
                "found": "str",
                "evaluated_at": "NoneType",
            }
        ],
        "anomalies": [{"dataset": "str", "check": "str", "days": ["str"], "finding": "str"}],
        "quarantine_reasons": [{"dataset": "str", "rule": "str", "rows": "int", "share": "float", "dimension": "str"}],
        "datasets": [
            {
                "name": "str",
                "score": "float",
                "families": families | {"distribution": "float"},
                "counts": counts,
                "delivered": {"records": "int", "files_set_aside": "int"},
                "trend": {"2026-04-07": counts, "2026-04-08": "NoneType", "2026-04-09": counts},
                "service": {
                    "tier": "int",
                    "target_seconds": "float",
                    "newest_event": "str",
                    "age_seconds": "float",
                    "is_fresh": "bool",
                    "availability": "float",
                    "budget_seconds": "float",
                    "remaining_seconds": "float",
                    "state": "str",
                },
            }
        ],
        "tables": {"gold/fct_orders": "float"},
    }


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0%"),
        (1, "100%"),
        (0.5, "50.0%"),
        (0.0123, "1.23%"),
        (0.99999, "> 99.99%"),
        (0.00001, "< 0.01%"),
        (0.9995, "99.95%"),
    ],
)
def test_a_share_is_never_rounded_to_all_or_nothing(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (9_999, "9,999"), (10_000, "10.0k"), (123_456, "123k"), (999_999, "1.0M"), (18_016_342, "18.0M")],
)
def test_counts_are_short(number: int, text: str) -> None:
    assert short_count(number) == text
