"""Spans of time as contracts write them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any


def parse_duration(text: object) -> timedelta | None:
    """Read `30m`, `2h`, `7d`, `3y`; None if it is none of these, or longer than anyone keeps anything."""
    match = re.fullmatch(r"(\d{1,6})\s*([mhdy])", str(text), re.ASCII)
    if not match:
        return None
    count = int(match[1])
    return {
        "m": timedelta(minutes=count),
        "h": timedelta(hours=count),
        "d": timedelta(days=count),
        "y": timedelta(days=365 * count),
    }[match[2]]


def sla_duration(item: dict[str, Any]) -> timedelta | None:
    """Read the value and unit of a service level; None if there is no such unit (a month has no fixed length)."""
    unit = str(item.get("unit", ""))
    known = re.fullmatch(r"m|min|minutes?|h|hours?|d|days?|y|yr|years?", unit)
    return parse_duration(f"{item['value']}{unit[0]}") if known else None
