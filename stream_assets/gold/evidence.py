"""The rows of a failed dbt test in words. Pure functions; `assets.py` puts them beside the check."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_FIGURES = {"measure", "expected", "found"}
"""Columns of a test that compares figures."""


def tell_row(row: Mapping[str, Any]) -> str:
    """One row as a sentence: `2025-03-07 orders: 118 expected, 117 found`."""
    if not row.keys() >= _FIGURES:
        return ", ".join(f"{name} {in_words(value)}" for name, value in row.items())
    day = f"{row['day']} " if row.get("day") else ""
    return f"{day}{row['measure']}: {in_words(row['expected'])} expected, {in_words(row['found'])} found"


def in_words(value: Any) -> str:
    """A value for people: whole numbers without decimals, thousands apart."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return "" if value is None else str(value)
    if value == int(value):
        return f"{int(value):,}"
    return f"{value.normalize():,f}" if isinstance(value, Decimal) else f"{value:,}"
