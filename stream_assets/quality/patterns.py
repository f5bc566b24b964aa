"""Regular expressions over what others deliver: how a value is matched without taking the engine's stack.

Java calls itself for each repetition of a group. A value that is long enough overflows the stack, and Spark does not survive that:
one record would end the engine, and every run on it. Possessive groups (`(…)++`), which give nothing back, are matched in a loop.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column as Expr
from pyspark.sql import functions as F

FORMATS = {
    "email": r"^[^@\s]++@[^@\s.]++(?:\.[^@\s.]++)++$",
    "uuid": r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
}
LONGEST = 500
"""Characters that a repeated group is held against. A stack of 1 MB lasts a cold engine for 1,200, or for 600 where three groups are nested."""
_REPEATED_GROUP = re.compile(r"\)\s*(?:[*+]|\{[\d,]*\})(?!\+)")


def matches(value: Expr, pattern: str) -> Expr:
    """Whether a value matches. One that is too long for a pattern that repeats a group does not."""
    found = value.rlike(pattern)
    return F.when(_is_long(value), False).otherwise(found) if repeats_group(pattern) else found


def is_too_long(sql: str, texts: Sequence[str]) -> Expr:
    """Whether one of these columns is too long for a pattern in an expression over it."""
    patterns = re.findall(r"'[^']*'", sql) if "rlike" in sql.lower() else []
    named = [F.col(name) for name in texts if re.search(rf"\b{name}\b", sql)]
    return reduce(or_, map(_is_long, named), F.lit(False)) if any(map(repeats_group, patterns)) else F.lit(False)


def _is_long(value: Expr) -> Expr:
    return F.length(value) > LONGEST


def repeats_group(pattern: str) -> bool:
    """Whether a pattern may repeat a group that is not possessive."""
    return bool(_REPEATED_GROUP.search(pattern))
