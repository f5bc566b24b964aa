"""Small pictures as inline SVG: rings, meters and series over days. They take figures, never text of records.

Colours are names of CSS classes (see `page.css`), so that one page fits light and dark screens and paper.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby

from stream_assets.quality.markup import Markup, element, join
from stream_assets.quality.words import percent

WIDTH, HEIGHT, EDGE = 240.0, 58.0, 6.0
RADIUS = 52.0


def draw_ring(share: float | None, *, state: str, label: str) -> Markup:
    """A share as a ring, drawn clockwise from the top, with its figure in the middle."""
    length = 2 * math.pi * RADIUS
    done = length * (share or 0.0)
    circle = {"cx": 64, "cy": 64, "r": RADIUS, "class_": "ring"}
    drawn = f"{done:.2f} {length:.2f}"
    return element(
        "svg",
        element("title", label),
        element("circle", **circle),
        element(
            "circle",
            **circle | {"class_": f"ring {state}", "stroke_dasharray": drawn, "transform": "rotate(-90 64 64)"},
        )
        if share
        else Markup(),
        element("text", "–" if share is None else percent(share), x=64, y=73, class_="ring-figure"),
        viewBox="0 0 128 128",
        class_="ring-plot",
        role="img",
    )


def draw_meter(share: float | None, *, state: str, label: str, target: float | None = None) -> Markup:
    """A share as a bar, with a tick where it should be."""
    width = max(0.0, min(1.0, share or 0.0)) * 100
    tick = element("rect", x=target * 100 - 0.4, y=0, width=0.8, height=8, class_="tick") if target else Markup()
    return element(
        "svg",
        element("title", label),
        element("rect", x=0, y=1.5, width=100, height=5, class_="track"),
        element("rect", x=0, y=1.5, width=width, height=5, class_=f"fill {state}"),
        tick,
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        class_="meter",
        role="img",
    )


def draw_bars(values: Mapping[str, float | None], *, label: str, marked: Collection[str] = ()) -> Markup:
    """A bar per day from zero; marked ones have a pointer under them. A day that nothing is known of is left out."""
    high = max((value for value in values.values() if value), default=0) or 1
    step = WIDTH / max(len(values), 1)
    bars = [
        _bar(day, value, left=place * step, step=step, high=high, is_marked=day in marked)
        for place, (day, value) in enumerate(values.items())
        if value is not None
    ]
    return _plot(label, *bars)


def _bar(day: str, value: float, *, left: float, step: float, high: float, is_marked: bool) -> Markup:
    gap, height, floor = min(2.0, step * 0.25), max(_scaled(value, high), 0.8), HEIGHT - EDGE
    middle = left + step / 2
    pointer = f"{middle:.1f},{floor + 1.5:.1f} {middle - 3:.1f},{HEIGHT} {middle + 3:.1f},{HEIGHT}"
    return element(
        "g",
        element("title", f"{day}: {value:,.0f}"),
        element("rect", x=left + gap / 2, y=floor - height, width=step - gap, height=height, rx=min(1.5, step / 4)),
        element("polygon", points=pointer) if is_marked else Markup(),
        class_="bar odd" if is_marked else "bar",
    )


def draw_line(values: Sequence[float | None], *, label: str, low: float, high: float, kind: str) -> Markup:
    """A line over days between two limits, broken where nothing is known, its last point marked."""
    step, span = (WIDTH - 2 * EDGE) / max(len(values) - 1, 1), high - low or 1
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    runs = [
        [(EDGE + place * step, HEIGHT - EDGE - _scaled(value - low, span)) for _, (place, value) in run]
        for _, run in groupby(enumerate(known), key=lambda item: item[1][0] - item[0])
    ]
    lines = [element("polyline", points=_points(run), class_=f"line {kind}") for run in runs]
    areas = [element("polygon", points=_area(run), class_=f"area {kind}") for run in runs if len(run) > 1]
    last = [element("circle", cx=runs[-1][-1][0], cy=runs[-1][-1][1], r=2.6, class_=f"dot {kind}")] if runs else []
    return _plot(label, *areas, *lines, *last)


def _plot(label: str, *shapes: Markup) -> Markup:
    base = element("line", x1=0, x2=WIDTH, y1=HEIGHT - EDGE, y2=HEIGHT - EDGE, class_="base")
    return element(
        "svg",
        element("title", label),
        join(base, *shapes),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        class_="plot",
        role="img",
    )


def _scaled(value: float, high: float) -> float:
    return (HEIGHT - 2 * EDGE) * value / high


def _points(run: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in run)


def _area(run: Sequence[tuple[float, float]]) -> str:
    floor = HEIGHT - EDGE
    return f"{run[0][0]:.1f},{floor:.1f} {_points(run)} {run[-1][0]:.1f},{floor:.1f}"
