"""How many expressions become one: as a tree, because Spark Connect refuses what is nested a hundred deep."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column

Operator = Callable[[Column, Column], Column]


def balanced(operator: Operator, parts: Sequence[Column]) -> Column:
    """Join expressions by an associative operator, nested no deeper than they must be."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return operator(balanced(operator, parts[:middle]), balanced(operator, parts[middle:]))
