"""What has to be known of a dataset's history before rules can be suggested: the questions, and the form of the answers.

The answers are found by `quality/survey.py`; `suggest.py` draws the conclusions. Nothing here holds a personal value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from itertools import combinations
from typing import Literal, NamedTuple

from stream_assets.contracts.columns import looks_personal
from stream_assets.contracts.model import Column, Contract

MAX_VALUES = 20
"""A column of more distinct values is no list of categories."""
MAX_PAIRED = 12
"""Columns of one unit that are compared with each other; more would make hundreds of pairs."""
NUMERIC = ("bigint", "double", "decimal")


class Shape(NamedTuple):
    """A form that all texts of a column may have, as the contract promises it."""

    option: Literal["format", "pattern"]
    argument: str


TAGGED = Shape("pattern", "^[a-z]{2,8}_[0-9a-z]+$")
"""Identifiers that say what they identify, such as ord_1x7."""
STRUCTURED = Shape("pattern", r"^\s*[\[{]|^\d\d:\d\d")
"""JSON and times of day are kept as text, but a contract promises nothing about their text."""
SHAPES = (
    Shape("format", "uuid"),
    Shape("format", "email"),
    Shape("pattern", "^[A-Z]{2}$"),
    Shape("pattern", "^[A-Z]{3}$"),
    Shape("pattern", "^[a-z]{2}$"),
    Shape("pattern", "^[a-z]{2}-[A-Z]{2}$"),
    Shape("pattern", "^[0-9]+$"),
    TAGGED,
)
"""The forms looked for, the most telling first."""


@dataclass(frozen=True)
class ColumnFacts:
    """What was found of one column. Of personal data, only how many values there are."""

    present: int
    """Rows with a value."""
    is_unique: bool = False
    smallest: float | int | None = None
    largest: float | int | None = None
    shortest: int | None = None
    longest: int | None = None
    prefix: str = ""
    """What all texts begin with."""
    matching: Mapping[Shape, int] = field(default_factory=dict)
    """Rows whose text has each form."""
    values: Mapping[str, date] = field(default_factory=dict)
    """Every distinct value and the first day it was seen; empty if they are many."""


@dataclass(frozen=True)
class OrderFacts:
    """How two columns of one unit compare, in rows that have both."""

    rows: int
    not_above: int
    """Rows whose first value is not above the second."""
    not_below: int


class Target(NamedTuple):
    """The key column of another dataset."""

    dataset: str
    column: str


@dataclass(frozen=True)
class ReferenceFacts:
    """How the distinct values of a column are found in another dataset's key."""

    values: int
    orphans: int


@dataclass(frozen=True)
class Survey:
    """What was found in Silver over some days."""

    rows: int
    days: tuple[date, ...]
    columns: Mapping[str, ColumnFacts]
    orders: Mapping[tuple[str, str], OrderFacts] = field(default_factory=dict)
    references: Mapping[tuple[str, Target], ReferenceFacts] = field(default_factory=dict)


def is_open(column: Column) -> bool:
    """Whether the values of a column may be looked at and shown. Of personal data they never are."""
    return column.pii is None and not looks_personal(column.name)


def is_number(column: Column) -> bool:
    """Whether a column holds numbers."""
    return column.type.startswith(NUMERIC)


def is_identifier(column: Column, contract: Contract) -> bool:
    """Whether a column names a thing: new values are its nature, and sizes mean nothing."""
    return column.name in contract.key or column.references is not None or column.name.endswith("_id")


def surveyed(contract: Contract) -> tuple[Column, ...]:
    """The columns that the contract itself can promise something about; the envelope's promises are fixed."""
    return tuple(column for column in contract.columns if column.is_kept)


def order_pairs(contract: Contract) -> list[tuple[str, str]]:
    """Pairs of columns that have a natural order: two moments, two days, or two amounts of the same unit."""
    units: dict[str, list[str]] = {}
    for column in contract.silver:
        if is_open(column) and (unit := _unit(column, contract)):
            units.setdefault(unit, []).append(column.name)
    return [pair for names in units.values() for pair in combinations(names[:MAX_PAIRED], 2)]


def _unit(column: Column, contract: Contract) -> str | None:
    """What a column is measured in. The last word of a name says it: `total_cents` and `discount_cents` compare."""
    if column.type in ("date", "timestamp"):
        return column.type
    if is_number(column) and not is_identifier(column, contract):
        return column.name.rpartition("_")[2]
    return None


def possible_references(contract: Contract, others: Mapping[str, Contract]) -> Iterator[tuple[str, Target]]:
    """Columns named like the one key column of another dataset that is protected the same way, and not yet tied to any."""
    for column in surveyed(contract):
        for other in others.values():
            if other.name == contract.name or len(other.key) != 1 or column.references:
                continue
            key = other.column(other.key[0])
            named_alike = column.name == key.name or column.name.endswith(f"_{key.name}")
            if named_alike and (column.type, column.pii) == (key.type, key.pii):
                yield column.name, Target(other.name, key.name)
