"""Reads a folder of view files. A bad one is reported with file, field and remedy, and set aside; the good ones still load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from stream_assets.contracts.durations import parse_duration
from stream_assets.contracts.model import Contract
from stream_assets.errors import ViewError
from stream_assets.streaming.model import Lookup, Partner, View, Window

_COMMON = {"name", "description", "kind", "source", "where", "lookup"}
_FIELDS = {
    "transform": {"select"},
    "tumbling": {"watermark", "window", "group_by", "measures"},
    "sliding": {"watermark", "window", "group_by", "measures"},
    "session": {"watermark", "window", "group_by", "measures"},
    "pattern": {"watermark", "window", "group_by", "measures", "rules"},
    "join": {"watermark", "join", "select"},
}
_WINDOW = {
    "tumbling": ({"size"},),
    "sliding": ({"size", "slide"},),
    "session": ({"gap"},),
    "pattern": ({"size"}, {"size", "slide"}),
}
_OPTIONAL = {"where", "lookup", "description"}
_RESERVED_ENDINGS = ("_events", "_late", "_lookup", "_new")
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,62}")
_ESCAPES = re.compile(r";|\b(reflect|java_method|try_reflect)\b", re.IGNORECASE)


@dataclass(frozen=True)
class ViewSet:
    """The views of one folder, and the errors of those that were refused."""

    views: tuple[View, ...] = ()
    broken: tuple[ViewError, ...] = ()

    @property
    def datasets(self) -> tuple[str, ...]:
        """Every dataset some view reads as a stream."""
        return tuple(sorted({name for view in self.views for name in view.sources}))

    def of(self, dataset: str) -> tuple[View, ...]:
        """The views that read a dataset."""
        return tuple(view for view in self.views if dataset in view.sources)


def load_views(folder: Path, contracts: Mapping[str, Contract]) -> ViewSet:
    """Load every `*.yaml` of a folder. A view of a dataset without a contract is refused."""
    views: dict[str, View] = {}
    broken: list[ViewError] = []
    for file in sorted(folder.glob("*.yaml")):
        try:
            view = load_view(file, contracts)
            if view.name in views:
                raise ViewError(
                    file.name, "name", f"{view.name!r} is also declared by {views[view.name].file.name}", "Keep one."
                )
            views[view.name] = view
        except ViewError as error:
            broken.append(error)
    return ViewSet(tuple(views.values()), tuple(broken))


def load_view(file: Path, contracts: Mapping[str, Contract]) -> View:
    """Load and check one view."""
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ViewError(file.name, "file", "cannot be read as YAML", "Correct the YAML.") from error
    if not isinstance(document, dict):
        raise ViewError(file.name, "file", "holds no mapping", "Start from one of the sample's views.")
    return _Reader(file, document, contracts).view()


class _Reader:
    """Takes a document apart, field by field; every refusal names the field."""

    def __init__(self, file: Path, document: dict[str, Any], contracts: Mapping[str, Contract]) -> None:
        self.file, self.document, self.contracts = file, document, contracts

    def view(self) -> View:
        kind = self.one_of("kind", tuple(_FIELDS))
        self.only(_COMMON | _FIELDS[kind], required=(_COMMON | _FIELDS[kind]) - _OPTIONAL)
        name = str(self.document["name"])
        self.check(
            _IDENTIFIER.fullmatch(name) and not name.endswith(_RESERVED_ENDINGS),
            "name", f"{name!r} cannot name a table", f"Use lower case, digits and _, not ending in {', '.join(_RESERVED_ENDINGS)}.",
        )  # fmt: skip
        source = self.dataset("source", self.document["source"])
        window = self.window(kind) if "window" in _FIELDS[kind] else Window()
        self.check(
            kind != "session" or "lookup" not in self.document,
            "lookup",
            "has no place in a session",
            "Join in a view of its own.",
        )
        return View(
            name=name,
            description=" ".join(str(self.document.get("description", "")).split()),
            kind=kind,  # pyright: ignore[reportArgumentType]
            source=source,
            file=self.file,
            watermark=self.duration("watermark") if "watermark" in self.document else timedelta(),
            where=self.sql("where", self.document["where"]) if "where" in self.document else None,
            window=window,
            group_by=self.columns("group_by", self.document.get("group_by", [])),
            measures=self.expressions("measures"),
            select=self.expressions("select"),
            rules=self.expressions("rules"),
            lookup=self.lookup() if "lookup" in self.document else None,
            partner=self.partner() if kind == "join" else None,
        )  # fmt: skip

    def window(self, kind: str) -> Window:
        given = self.mapping("window")
        self.check(
            set(given) in _WINDOW[kind], "window", f"has {', '.join(sorted(given)) or 'nothing'}",
            f"A {kind} view gives {' or '.join(' and '.join(sorted(fields)) for fields in _WINDOW[kind])}.",
        )  # fmt: skip
        window = Window(**{name: self.duration(f"window.{name}", value) for name, value in given.items()})
        fits = not window.slide or not window.size or window.size % window.slide == timedelta()
        self.check(
            fits, "window.slide", "does not divide the size", "Choose a slide that fits a whole number of times."
        )
        return window

    def lookup(self) -> Lookup:
        given = self.mapping("lookup")
        self.only({"table", "sql", "by", "columns", "as_of", "refresh"}, given, "lookup.", required={"by", "columns"})
        self.check(
            ("table" in given) != ("sql" in given), "lookup", "gives no single place to look", "Give table or sql."
        )
        if "table" in given:
            named = re.fullmatch(r"(silver|gold|bronze|live)\.[a-z][a-z0-9_]*", str(given["table"]))
            self.check(named, "lookup.table", f"{given['table']!r} is no table of the lake", "Write silver.customers.")
        wanted = given["columns"]
        columns = dict(wanted) if isinstance(wanted, dict) else {str(name): str(name) for name in wanted}
        return Lookup(
            by=self.columns("lookup.by", given["by"]),
            columns={str(name): str(column) for name, column in columns.items()},
            table=given.get("table"),
            sql=self.sql("lookup.sql", given["sql"]) if "sql" in given else None,
            as_of=given.get("as_of") is True,
            refresh=self.duration("lookup.refresh", given.get("refresh", "1h")),
        )

    def partner(self) -> Partner:
        given = self.mapping("join")
        fields = {"source", "by", "watermark", "after", "before", "where", "keep_unmatched"}
        self.only(fields, given, "join.", required={"source", "by", "watermark", "after"})
        return Partner(
            source=self.dataset("join.source", given["source"]),
            by=self.columns("join.by", given["by"]),
            watermark=self.duration("join.watermark", given["watermark"]),
            after=self.duration("join.after", given["after"]),
            before=self.duration("join.before", given["before"]) if "before" in given else timedelta(),
            where=self.sql("join.where", given["where"]) if "where" in given else None,
            keep_unmatched=given.get("keep_unmatched") is True,
        )

    def dataset(self, field: str, name: Any) -> str:
        contract = self.contracts.get(str(name))
        self.check(contract, field, f"{name!r} has no sound contract", f"Known: {', '.join(sorted(self.contracts))}.")
        is_event = contract and contract.kind == "event" and contract.event_time and contract.format != "csv"
        self.check(is_event, field, f"{name!r} is not a stream of JSON events", "Choose a dataset of kind event.")
        return str(name)

    def expressions(self, field: str) -> dict[str, str]:
        given = self.document.get(field, {})
        self.check(isinstance(given, dict), field, "is no mapping", "Write column: expression.")
        for name in given:
            self.check(
                _IDENTIFIER.fullmatch(str(name)),
                f"{field}.{name}",
                "cannot name a column",
                "Use lower case, digits and _.",
            )
        return {str(name): self.sql(f"{field}.{name}", text) for name, text in given.items()}

    def sql(self, field: str, text: Any) -> str:
        sound = isinstance(text, str) and text.strip() and not _ESCAPES.search(text)
        self.check(
            sound,
            field,
            "is no single SQL expression",
            "Write one expression, without ; and without calls into the JVM.",
        )
        return " ".join(str(text).split())

    def columns(self, field: str, names: Any) -> tuple[str, ...]:
        sound = isinstance(names, list) and all(_IDENTIFIER.fullmatch(str(name)) for name in names)
        self.check(sound, field, "is no list of columns", "Write [column, column].")
        return tuple(map(str, names))

    def duration(self, field: str, value: Any = None) -> timedelta:
        found = parse_duration(self.document[field] if value is None else value)
        self.check(found, field, "is no duration", "Write 10m, 1h or 7d.")
        return found or timedelta()

    def mapping(self, field: str) -> dict[str, Any]:
        given = self.document[field]
        self.check(isinstance(given, dict), field, "is no mapping", "See docs/streaming.md.")
        return given

    def one_of(self, field: str, allowed: tuple[str, ...]) -> str:
        value = str(self.document.get(field))
        self.check(value in allowed, field, f"is {value!r}", f"Choose one of {', '.join(allowed)}.")
        return value

    def only(
        self, allowed: set[str], given: Mapping[str, Any] | None = None, prefix: str = "", *, required: set[str]
    ) -> None:
        given = self.document if given is None else given
        for name in given:
            self.check(
                name in allowed, f"{prefix}{name}", "is not a field here", f"Known: {', '.join(sorted(allowed))}."
            )
        for name in sorted(required - set(given)):
            self.check(False, f"{prefix}{name}", "is missing", "Add it: see docs/streaming.md.")

    def check(self, condition: object, field: str, problem: str, remedy: str) -> None:
        if not condition:
            raise ViewError(self.file.name, field, problem, remedy)
