"""What a change of a contract does to who delivers and who reads, kind by kind, and in general."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_assets.contracts.change import Change, duration_text
from stream_assets.contracts.diff import diff_contracts
from stream_assets.contracts.diff_columns import is_wider
from stream_assets.contracts.durations import parse_duration
from stream_assets.contracts.load import load_contract
from stream_assets.contracts.model import Column, Contract, Expression, Server
from tests.documents import bend, contract, document

RULE = Expression("total_positive", "total > 0", "error", "consistency", "Totals are positive.")
BASE = Contract(
    name="sales",
    version="1.0.0",
    domain="shop",
    purpose="Sales.",
    grain="One row per sale.",
    team="shop-data",
    owner="shop@example.com",
    kind="event",
    columns=(
        Column("sale_id", "string", "sale_id", "Identifier.", required=True, options={"format": "uuid"}),
        Column("sold_at", "timestamp", "sold_at", "When.", required=True),
        Column("total", "bigint", "total", "Amount.", options={"minimum": 0, "maximum": 100}),
        Column("status", "string", "status", "State.", allowed=("open", "paid"), options={"pattern": "^[a-z]+$"}),
        Column("email", "string", "email", "Address.", pii="hash", options={"maxLength": 50}),
        Column("store_id", "string", "store_id", "Where.", references=("stores", "store_id")),
    ),
    key=("sale_id",),
    event_time="sold_at",
    order_by="sold_at",
    envelope=False,
    max_lateness=3,
    tier=2,
    freshness=timedelta(hours=2),
    cadence=timedelta(hours=1),
    retention=timedelta(days=365),
    history_start=date(2025, 1, 1),
    servers=(Server("landing", "local", "jsonl", "sales"),),
    expressions=(RULE,),
    drift="evolve",
    null_values=("NA",),
    min_keep=0.8,
    file=Path("sales.odcs.yaml"),
    fingerprint="same",
)
FLIPPED = {"tightens": "loosens", "loosens": "tightens", "neutral": "neutral"}

Case = tuple[Contract, str, str, str]
"""Contract after the change, its field, the version it needs, its direction."""


def column(name: str, /, **facts: Any) -> Contract:
    """The base with one column changed."""
    return replace(BASE, columns=tuple(replace(c, **facts) if c.name == name else c for c in BASE.columns))


def options(name: str, **given: Any) -> Contract:
    """The base with options of a column changed, or (None) removed."""
    merged = BASE.column(name).options | given
    return column(name, options={key: value for key, value in merged.items() if value is not None})


def added(**facts: Any) -> Contract:
    return replace(BASE, columns=(*BASE.columns, Column("note", "string", "note", "Words.", **facts)))


def without(name: str) -> Contract:
    return replace(BASE, columns=tuple(c for c in BASE.columns if c.name != name))


def rule(**facts: Any) -> Contract:
    return replace(BASE, expressions=(replace(RULE, **facts),))


CASES: dict[str, Case] = {
    "optional column added": (added(), "columns.note", "minor", "neutral"),
    "required column added": (added(required=True), "columns.note", "major", "tightens"),
    "optional column removed": (without("status"), "columns.status", "major", "neutral"),
    "required column removed": (without("sale_id"), "columns.sale_id", "major", "loosens"),
    "column renamed": (column("total", name="sum", source="sum"), "columns.sum", "major", "neutral"),
    "column renamed in Silver only": (column("total", name="sum", description=""), "columns.sum", "major", "neutral"),
    "number widened to decimal": (column("total", type="decimal(21,2)"), "columns.total.type", "major", "loosens"),
    "number widened to double": (column("total", type="double"), "columns.total.type", "major", "loosens"),
    "number to text": (column("total", type="string"), "columns.total.type", "major", "loosens"),
    "text to number": (column("status", type="bigint"), "columns.status.type", "major", "tightens"),
    "timestamp narrowed to date": (column("sold_at", type="date"), "columns.sold_at.type", "major", "tightens"),
    "number to a decimal too small": (column("total", type="decimal(5,2)"), "columns.total.type", "major", "neutral"),
    "made required": (column("total", required=True), "columns.total.required", "major", "tightens"),
    "made optional": (column("sold_at", required=False), "columns.sold_at.required", "major", "loosens"),
    "value no longer allowed": (column("status", allowed=("open",)), "columns.status.allowed", "major", "tightens"),
    "value newly allowed": (column("status", allowed=("open", "paid", "sent")), "columns.status.allowed", "major", "loosens"),
    "any value allowed": (column("status", allowed=()), "columns.status.allowed", "major", "loosens"),
    "list of values introduced": (column("email", allowed=("x",)), "columns.email.allowed", "major", "tightens"),
    "minimum raised": (options("total", minimum=1), "columns.total.minimum", "major", "tightens"),
    "minimum itself excluded": (options("total", exclusiveMinimum=0), "columns.total.minimum", "major", "tightens"),
    "maximum raised": (options("total", maximum=101), "columns.total.maximum", "major", "loosens"),
    "maximum removed": (options("total", maximum=None), "columns.total.maximum", "major", "loosens"),
    "shorter": (options("email", maxLength=40), "columns.email.max_length", "major", "tightens"),
    "at least one letter": (options("email", minLength=1), "columns.email.min_length", "major", "tightens"),
    "pattern introduced": (options("email", pattern="@"), "columns.email.pattern", "major", "tightens"),
    "pattern changed": (options("status", pattern="^[a-z]$"), "columns.status.pattern", "major", "neutral"),
    "format removed": (options("sale_id", format=None), "columns.sale_id.format", "major", "loosens"),
    "time written otherwise": (column("sold_at", timestamp_format="dd.MM.yyyy"), "columns.sold_at.timestamp_format", "major", "neutral"),
    "field of the record": (column("total", source="Total"), "columns.total.source", "major", "neutral"),
    "hash to mask": (column("email", pii="mask"), "columns.email.pii", "major", "neutral"),
    "number hashed": (column("total", pii="hash"), "columns.total.pii", "major", "neutral"),
    "kept in the clear, with a reason": (column("total", pii="keep"), "columns.total.pii", "patch", "neutral"),
    "reference introduced": (column("status", references=("a", "b")), "columns.status.references", "minor", "tightens"),
    "reference removed": (column("store_id", references=None), "columns.store_id.references", "minor", "loosens"),
    "reference to another": (column("store_id", references=("shops", "id")), "columns.store_id.references", "major", "neutral"),
    "column described": (column("total", description="Sum."), "columns.total.description", "patch", "neutral"),
    "key": (replace(BASE, key=("sale_id", "total")), "key", "major", "neutral"),
    "event time": (replace(BASE, event_time="total"), "event_time", "major", "neutral"),
    "order": (replace(BASE, order_by=None), "order_by", "major", "neutral"),
    "kind": (replace(BASE, kind="entity"), "kind", "major", "neutral"),
    "envelope": (replace(BASE, envelope=True), "envelope", "major", "neutral"),
    "drift frozen": (replace(BASE, drift="freeze"), "drift", "major", "tightens"),
    "drift discards": (replace(BASE, drift="discard_column"), "drift", "major", "neutral"),
    "fresher": (replace(BASE, freshness=timedelta(hours=1.6)), "freshness", "minor", "tightens"),
    "staler": (replace(BASE, freshness=timedelta(hours=3)), "freshness", "major", "loosens"),
    "higher tier": (replace(BASE, tier=1), "tier", "minor", "tightens"),
    "lower tier": (replace(BASE, tier=3), "tier", "major", "loosens"),
    "more often": (replace(BASE, cadence=timedelta(minutes=30)), "cadence", "major", "tightens"),
    "less often": (replace(BASE, cadence=timedelta(minutes=70)), "cadence", "minor", "loosens"),
    "later": (replace(BASE, max_lateness=5), "max_lateness", "major", "loosens"),
    "less late": (replace(BASE, max_lateness=1), "max_lateness", "major", "tightens"),
    "kept longer": (replace(BASE, retention=timedelta(days=730)), "retention", "minor", "tightens"),
    "kept shorter": (replace(BASE, retention=timedelta(days=30)), "retention", "major", "loosens"),
    "history shorter": (replace(BASE, history_start=date(2025, 2, 1)), "history_start", "major", "loosens"),
    "shrinks less": (replace(BASE, min_keep=0.9), "min_keep", "major", "tightens"),
    "rule added": (replace(BASE, expressions=(RULE, replace(RULE, id="b"))), "rules.b", "major", "tightens"),
    "warning added": (replace(BASE, expressions=(RULE, replace(RULE, id="b", severity="warning"))), "rules.b", "minor", "tightens"),
    "rule removed": (replace(BASE, expressions=()), "rules.total_positive", "major", "loosens"),
    "rule changed": (rule(sql="total >= 0"), "rules.total_positive", "major", "neutral"),
    "rule only warns": (rule(severity="warning"), "rules.total_positive.severity", "major", "loosens"),
    "rule of another dimension": (rule(dimension="accuracy"), "rules.total_positive.dimension", "minor", "neutral"),
    "rule described": (rule(description="More than 0."), "rules.total_positive.description", "patch", "neutral"),
    "landing path": (replace(BASE, servers=(Server("landing", "local", "jsonl", "shop/sales"),)), "landing_path", "major", "neutral"),
    "file format": (replace(BASE, servers=(Server("landing", "local", "csv", "sales"),)), "format", "major", "neutral"),
    "text means missing": (replace(BASE, null_values=("NA", "-")), "null_values", "major", "tightens"),
    "text means itself": (replace(BASE, null_values=()), "null_values", "major", "loosens"),
    "purpose": (replace(BASE, purpose="All sales."), "purpose", "patch", "neutral"),
    "owner": (replace(BASE, owner="other@example.com"), "owner", "patch", "neutral"),
    "something not in the model": (replace(BASE, fingerprint="other"), "document", "patch", "neutral"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_every_kind_of_change_is_told(case: Case) -> None:
    """Exactly one change, at its field, with the version it needs, its direction and a reason."""
    after, field, needs, direction = case
    changes = [c for c in diff_contracts(BASE, after) if c.field == field or not c.field.endswith(".description")]
    assert [(c.field, c.needs, c.direction) for c in changes] == [(field, needs, direction)]
    assert changes[0].reason.endswith(".")
    assert changes[0].kind == ("breaking" if needs == "major" else "non-breaking")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_way_back_is_the_other_way(case: Case) -> None:
    """What tightened in one direction loosens in the other."""
    assert directions(case[0], BASE) == sorted(FLIPPED[d] for d in directions(BASE, case[0]))


def directions(old: Contract, new: Contract) -> list[str]:
    return sorted(change.direction for change in diff_contracts(old, new))


def test_a_renamed_column_keeps_its_role_and_its_promises_are_compared() -> None:
    """A renamed key is one change, not a removed column, an added one and another key."""
    renamed = replace(column("sale_id", name="id", required=False), key=("id",))
    assert [(c.field, c.what) for c in diff_contracts(BASE, renamed)] == [
        ("columns.id", "renamed: sale_id → id"),
        ("columns.id.required", "yes → no"),
    ]


def test_one_value_for_another_hurts_both_sides() -> None:
    found = diff_contracts(BASE, column("status", allowed=("open", "sent")))
    assert [(c.what, c.direction) for c in found] == [("removed paid", "tightens"), ("added sent", "loosens")]


@dataclass(frozen=True)
class Watched(Column):
    """A column with a setting that the comparison has never heard of."""

    watched: bool = False


def test_a_field_that_is_new_in_the_model_is_told() -> None:
    """Whoever adds one need not remember the comparison for it to be seen."""
    old, new = (replace(BASE, columns=(Watched("a", "string", "a", watched=flag),)) for flag in (False, True))
    assert [(c.field, c.what, c.needs) for c in diff_contracts(old, new)] == [
        ("columns.a.watched", "no → yes", "minor")
    ]


def test_order_of_columns_and_null_values_means_nothing() -> None:
    turned = replace(BASE, columns=BASE.columns[::-1], null_values=BASE.null_values[::-1])
    assert diff_contracts(BASE, turned) == []


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("decimal(19,0)", "bigint"),
        ("bigint", "decimal(18,0)"),
        ("double", "bigint"),
        ("double", "decimal(38,10)"),
        ("decimal(14,4)", "decimal(12,2)"),
        ("timestamp", "date"),
        ("string", "boolean"),
    ],
)
def test_wider_types(wide: str, narrow: str) -> None:
    assert is_wider(wide, narrow)
    assert not is_wider(narrow, wide)


@pytest.mark.parametrize(
    ("one", "other"), [("bigint", "decimal(19,0)"), ("decimal(12,4)", "decimal(12,2)"), ("boolean", "bigint"), ("date", "date")]
)  # fmt: skip
def test_types_of_which_neither_is_wider_or_the_smaller_is_not(one: str, other: str) -> None:
    assert not is_wider(one, other)


mutations: list[Callable[[Any], Contract]] = [
    lambda n: replace(BASE, max_lateness=n),
    lambda n: replace(BASE, freshness=timedelta(minutes=n)),
    lambda n: replace(BASE, retention=timedelta(days=n)),
    lambda n: replace(BASE, history_start=date(2020, 1, 1) + timedelta(days=n)),
    lambda n: replace(BASE, min_keep=n / 1000),
    lambda n: replace(BASE, null_values=("NA", str(n))),
    lambda n: options("total", minimum=n),
    lambda n: options("total", exclusiveMaximum=n),
    lambda n: options("email", maxLength=n),
    lambda n: options("status", pattern=f"^.{{{n}}}$"),
    lambda n: column("status", allowed=("open", str(n))),
    lambda n: column("total", type=f"decimal({n % 38 + 1},0)"),
    lambda n: column("total", description=str(n)),
    lambda n: rule(sql=f"total > {n}"),
    lambda n: replace(BASE, servers=(Server("landing", "local", "jsonl", f"sales/{n}"),)),
    lambda n: replace(BASE, key=("sale_id", f"column_{n}")),
]
single_mutations = st.builds(lambda made, n: made(n), st.sampled_from(mutations), st.integers(0, 500))
any_contract = st.one_of(single_mutations, st.sampled_from([case[0] for case in CASES.values()]))


@given(any_contract)
def test_a_contract_does_not_differ_from_itself(made: Contract) -> None:
    assert diff_contracts(made, made) == []


@given(single_mutations)
def test_every_single_mutation_is_told_and_flips(made: Contract) -> None:
    """No change of meaning goes unseen, and the way back is the opposite of the way there."""
    there: list[Change] = diff_contracts(BASE, made)
    # A bound that another one already outdoes means nothing: exclusiveMaximum 300 beside maximum 100.
    if made != BASE and made.column("total").options.get("exclusiveMaximum", 0) <= 100:
        assert there
    assert directions(made, BASE) == sorted(FLIPPED[change.direction] for change in there)


@given(any_contract, any_contract)
def test_any_two_contracts_flip(one: Contract, other: Contract) -> None:
    assert directions(one, other) == sorted(FLIPPED[d] for d in directions(other, one))


@given(st.integers(1, 10_000_000))
def test_durations_are_written_as_contracts_write_them(minutes: int) -> None:
    text = duration_text(timedelta(minutes=minutes))
    assert parse_duration(text) == timedelta(minutes=minutes) or len(text) > 7


def test_an_edit_of_the_file_that_nothing_reads_is_still_told(tmp_path: Path) -> None:
    """Roles, tags and the like are not in the model; the fingerprint knows that they changed."""
    old = contract(tmp_path / "old")
    edited = contract(tmp_path / "new", bend(document(), "status", "draft"))
    assert [(c.field, c.needs) for c in diff_contracts(old, edited)] == [("document", "patch")]
    assert diff_contracts(old, load_contract(old.file)) == []
