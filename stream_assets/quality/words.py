"""Figures as people say them: shares, counts and durations in a few characters."""

from __future__ import annotations

from datetime import timedelta


def percent(share: float) -> str:
    """A share for people. It is never rounded up to all nor down to nothing: 99.996 % is not 100 %."""
    if share in (0, 1):
        return f"{share:.0%}"
    shown = f"{share:.1%}" if 0.1 <= share < 0.9985 else f"{share:.2%}"
    return {"100.00%": "> 99.99%", "0.00%": "< 0.01%"}.get(shown, shown)


def short_count(number: int) -> str:
    """A count in about four characters; small ones whole."""
    sizes = ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k"))
    size, unit = next(((size, unit) for size, unit in sizes if number >= 0.9995 * size), (1, ""))
    if number < 10_000:
        return f"{number:,}"
    return f"{number / size:.1f}{unit}" if number < 99.95 * size else f"{number / size:.0f}{unit}"


def count_text(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def span_text(span: timedelta) -> str:
    """A duration as a person says it, in one unit."""
    seconds = abs(span.total_seconds())
    sign = "-" if span < timedelta() else ""
    sizes = (("d", 86_400, 2 * 86_400), ("h", 3_600, 3_600), ("min", 60, 60))
    unit, size = next(((unit, size) for unit, size, least in sizes if seconds >= least), ("s", 1))
    return f"{sign}{round(seconds / size, 1):g} {unit}"
