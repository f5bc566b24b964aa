"""HTML as nested calls: text is escaped because nothing else is possible, not because somebody thought of it."""

from __future__ import annotations

from html import escape

VOID = {"meta", "link", "br", "line", "rect", "circle", "path", "polyline", "polygon"}
"""Elements without content; those of SVG are closed as XML closes them."""


class Markup(str):
    """Text that is already markup. Made by `element` and `join`; constants of ours may be wrapped, data never."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: str | float | bool | None) -> Markup:
    """One element. Plain strings are escaped; attributes that are None or False are left out.

    A trailing underscore is dropped and others become dashes: `class_`, `stroke_width`.
    """
    given = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in VOID:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{join(*content)}</{name}>")


def join(*content: str) -> Markup:
    """Pieces of a page one after the other."""
    return Markup("".join(piece if isinstance(piece, Markup) else escape(piece, quote=True) for piece in content))


def _attribute(key: str, value: str | float | bool) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(_text(value), quote=True)}"'


def _text(value: str | float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
