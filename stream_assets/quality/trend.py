"""A series of figures as a small picture in text: it shows in the web UI, a terminal and an alert alike."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"
LENGTH = 28


def sparkline(values: Sequence[float]) -> str:
    """The last four weeks of a series, the smallest value as the lowest bar."""
    recent = list(values)[-LENGTH:]
    if not recent:
        return ""
    low, high = min(recent), max(recent)
    steps = (high - low) / (len(_BARS) - 1) or 1
    return "".join(_BARS[round((value - low) / steps)] for value in recent)
