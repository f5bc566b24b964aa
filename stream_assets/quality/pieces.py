"""Pieces that the sections of the report page share: sections, tables, chips, and how good a score is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stream_assets.quality.markup import Markup, element
from stream_assets.quality.score import TARGET
from stream_assets.quality.words import percent

FAIR = TARGET - 0.1
"""Below the target but above this: worth a look rather than an alarm."""
MARKS = {"good": "✓", "fair": "!", "poor": "✗", "none": "–"}
"""States are told by a mark too: colour alone is lost on some eyes and on some paper."""


def state_of(score: float | None) -> str:
    """How good a score is, in one word that is also a CSS class."""
    if score is None:
        return "none"
    return "good" if score > TARGET else "fair" if score > FAIR else "poor"


def share_text(share: float | None) -> str:
    """A share for people; a dash if there is none."""
    return "–" if share is None else percent(share)


def score_text(score: float | None) -> str:
    """A score with the mark of its state."""
    return "–" if score is None else f"{MARKS[state_of(score)]} {percent(score)}"


def chip(text: str, state: str, **attributes: str) -> Markup:
    """A word or figure on the colour of its state."""
    return element("span", text, class_=f"chip {state}", **attributes)


def section(title: str, *content: Markup) -> Markup:
    """A part of the page under its heading."""
    return element("section", element("h2", title), *content)


def nothing(text: str) -> Markup:
    """What a section says when all is well."""
    return element("p", f"{MARKS['good']} {text}", class_="nothing")


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Markup]], *, kind: str) -> Markup:
    """A table that scrolls by itself on narrow screens (`kind` wide) or stacks its cells there (`kind` stacked)."""
    lines = [element("tr", *cells) for cells in rows]
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", *[element("th", head, scope="col") for head in heads])),
            element("tbody", *lines),
        ),
        class_=f"table {kind}",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def named(subject: str, name: str, *marks: Markup) -> Markup:
    """The head of a row: a dataset or asset, and below it the long name of a check or rule."""
    return element("th", element("b", subject), *marks, element("code", *_breakable(name)), scope="row")


def _breakable(name: str) -> list[str]:
    """A long name with places where a line may break: after each `__`."""
    first, *rest = name.split("__")
    return [first, *[piece for part in rest for piece in ("__", Markup("<wbr>"), part)]]
