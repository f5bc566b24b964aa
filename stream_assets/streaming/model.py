"""What a live view is, as frozen values. Read from YAML by `load.py`; turned into queries by `compute.py`. No Spark here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal

ViewKind = Literal["transform", "tumbling", "sliding", "session", "join", "pattern"]

WINDOWED = ("tumbling", "sliding", "session", "pattern")
MERGED = ("tumbling", "sliding", "pattern")
"""Kinds whose rows change while their window is open. The others only ever get new rows."""


@dataclass(frozen=True)
class Window:
    """How events are grouped in time. A session has a gap; the others a size, and a slide if they overlap."""

    size: timedelta | None = None
    slide: timedelta | None = None
    gap: timedelta | None = None

    @property
    def step(self) -> timedelta:
        """From the start of one window to the start of the next."""
        return self.slide or self.size or timedelta()

    @property
    def overlap(self) -> int:
        """How many windows an event belongs to."""
        return int((self.size or timedelta()) / self.step) if self.step else 1


@dataclass(frozen=True)
class Lookup:
    """A table that each event is looked up in: a table of the lake, or the result of a query that is renewed now and then."""

    by: tuple[str, ...]
    columns: Mapping[str, str]
    """Name in the view → column of the table."""
    table: str | None = None
    sql: str | None = None
    as_of: bool = False
    """Take the version that held when the event happened (valid_from, valid_to)."""
    refresh: timedelta = timedelta(hours=1)


@dataclass(frozen=True)
class Partner:
    """The other stream of a join, and how far apart two events may be to belong together."""

    source: str
    by: tuple[str, ...]
    watermark: timedelta
    after: timedelta
    """How long after the event its partner may happen."""
    before: timedelta = timedelta()
    where: str | None = None
    keep_unmatched: bool = False


@dataclass(frozen=True)
class View:
    """One live table: which events it is made of, how, and how long it waits for late ones."""

    name: str
    description: str
    kind: ViewKind
    source: str
    file: Path
    watermark: timedelta = timedelta()
    where: str | None = None
    window: Window = field(default_factory=Window)
    group_by: tuple[str, ...] = ()
    measures: Mapping[str, str] = field(default_factory=dict)
    """Column → SQL aggregate."""
    select: Mapping[str, str] = field(default_factory=dict)
    """Column → SQL expression, for views of single events. In a join, events go by the names of their datasets."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Pattern: name → condition on the measures that makes an alert."""
    lookup: Lookup | None = None
    partner: Partner | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """Every dataset it reads as a stream."""
        return (self.source, self.partner.source) if self.partner else (self.source,)

    @property
    def is_merged(self) -> bool:
        """Whether its rows change, and so are merged by key; the others are appended."""
        return self.kind in MERGED

    @property
    def key(self) -> tuple[str, ...]:
        """What tells one of its rows from another, for views whose rows change."""
        return (*(["rule"] if self.rules else []), *self.group_by, "window_start", "window_end")

    def side(self, dataset: str) -> tuple[str | None, timedelta]:
        """The filter and the watermark of one of its streams."""
        partner = self.partner
        return (
            (partner.where, partner.watermark)
            if partner and dataset == partner.source
            else (self.where, self.watermark)
        )
