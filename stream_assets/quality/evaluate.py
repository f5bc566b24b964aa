"""Holds records to their rules, in Spark expressions: text to typed values, values to violations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from pyspark.sql import Column as Expr
from pyspark.sql import functions as F

from stream_assets.contracts.model import Column, Contract
from stream_assets.engine.expressions import balanced
from stream_assets.quality.patterns import FORMATS, is_too_long, matches
from stream_assets.quality.rules import Rule

_WIDE = "decimal(38,12)"
_SCIENTIFIC = r"(?i)^[+-]?[0-9.]{1,16}e[+-]?\d{1,3}$"
_LONG_NUMBER = "[0-9][0-9.]{15,}"
_LONGEST_NUMERAL = 1_000
"""Characters of a number, and of one that JSON's reader takes. To read a million took the engine minutes."""


def typed(column: Column, text: Expr) -> Expr:
    """The value of a field's text, or null when it has none of the column's type exactly.

    Spark's casts forgive: '1.9' becomes the integer 1, 12.345 the decimal 12.35. A value that would change is no value.
    """
    value = F.trim(text)
    match column.type.partition("(")[0]:
        case "string":
            return text
        case "bigint":
            # Most numerals are plain: the patterns are only for the others.
            return F.coalesce(text.try_cast("bigint"), _exact(value, "bigint", r"^[+-]?\d+(\.0*)?$"))
        case "decimal":
            precision, scale = map(int, column.type[8:-1].split(","))
            return _exact(value, column.type, rf"^[+-]?0*\d{{0,{precision - scale}}}(\.\d{{0,{scale}}}0*)?$")
        case "timestamp":
            return _moment(column, value, _iso_timestamp)
        case "date":
            return _moment(column, value, lambda v: F.when(v.rlike(r"^\d{4}-\d{2}-\d{2}$"), v.try_cast("date"))).cast(
                "date"
            )
        case "boolean":
            return F.when(F.lower(value).isin("true", "1", "yes"), True).when(
                F.lower(value).isin("false", "0", "no"), False
            )
        case _:
            is_numeral = _is_numeral(value, r"(?i)^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$")
            number = value.try_cast(column.type)
            # What is too large for a double would be infinity, which no profile could count.
            return F.when(is_numeral & (F.abs(number) < float("inf")), number)


def _is_numeral(value: Expr, pattern: str) -> Expr:
    return (F.octet_length(value) <= _LONGEST_NUMERAL) & value.rlike(pattern)


def _exact(value: Expr, kind: str, plain: str) -> Expr:
    """A plain numeral is cast; one in scientific notation only if nothing is lost."""
    wide = value.try_cast(_WIDE)
    # A double tells what is too small to be seen in twelve decimals, and tells so many digits apart.
    is_seen = wide.cast("double") == value.try_cast("double")
    scientific = value.rlike(_SCIENTIFIC) & is_seen & (wide == wide.try_cast(kind).cast(_WIDE))
    return F.when(
        _is_numeral(value, plain), value.try_cast("decimal(38,0)" if kind == "bigint" else kind).try_cast(kind)
    ).when(scientific, wide.try_cast(kind))


def _moment(column: Column, value: Expr, standard: Callable[[Expr], Expr]) -> Expr:
    return F.try_to_timestamp(value, F.lit(column.timestamp_format)) if column.timestamp_format else standard(value)


def _iso_timestamp(value: Expr) -> Expr:
    """ISO 8601 to the microsecond: Spark would also read '2024' or '12:30' (of today) as a moment, and cut off nanoseconds."""
    size = F.octet_length(value)
    # The two dashes of most dates stand where no time alone and no part of a date can have them.
    is_usual = (F.instr(value, "-") == 5) & (F.locate("-", value, 6) == 8)
    is_dated = is_usual | value.rlike(r"^\s*[+-]?\d{4,6}-\d\d?-\d")
    # Two quick tests spare most values the pattern: too short for seven decimals, or not more than six after the dot.
    is_plain = (size <= 21) | ((size <= 26) & (F.instr(value, ".") == 20))
    fits = (size >= 10) & is_dated & (is_plain | ~value.rlike(r"\.\d{6}0*[1-9]"))
    return F.when(fits, value.try_cast("timestamp"))


def violations(rules: Sequence[Rule], contract: Contract, text: Mapping[str, Expr]) -> Expr:
    """Array of the ids of the broken rules, null for a sound record.

    Values are the columns of the row itself; `text` gives the field that each was read from.
    A rule about a missing value is satisfied; `required` is there for that.
    """
    broken = [(F.coalesce(_is_broken(rule, contract, text), F.lit(False)), rule.id) for rule in rules]
    if not broken:
        return F.lit(None).cast("array<string>")
    # The array is only built for the few rows that need one: building it for all costs more than the rules.
    any_broken = balanced(or_, [is_broken for is_broken, _ in broken])
    listed = F.array_compact(F.array(*[F.when(is_broken, F.lit(rule_id)) for is_broken, rule_id in broken]))
    return F.when(any_broken, listed)


def _is_broken(rule: Rule, contract: Contract, text: Mapping[str, Expr]) -> Expr:
    if rule.fraction < 1:
        return _is_sampled(contract, rule.fraction) & _is_broken(replace(rule, fraction=1.0), contract, text)
    if rule.check == "unknown_field":
        return F.col("_unknown").isNotNull()
    if rule.check == "expression":
        texts = [column.name for column in contract.record if column.type == "string"]
        return F.when(is_too_long(rule.argument, texts), True).otherwise(_contradicts(rule.argument))
    name = str(rule.column)
    received, found = text[name], F.col(name)
    match rule.check:
        case "type":
            return received.isNotNull() & (found.isNull() | _lost_digits(contract, contract.column(name), received))
        case "required":
            return received.isNull()
        case "allowed":
            return ~found.isin(list(rule.argument))
        case "range":
            return _outside(found, rule.argument)
        case "length":
            return _outside(
                F.length(found), {"minimum": rule.argument.get("minLength"), "maximum": rule.argument.get("maxLength")}
            )
        case "pattern":
            return ~matches(found, rule.argument)
        case "format":
            return ~matches(found, FORMATS[rule.argument])
        case "window":
            # A log repeats rows as old as they are when it is snapshotted: it has its own order, and no lateness.
            is_bound = F.col("_change").isNull() if contract.is_change_log else F.lit(True)
            return is_bound & ~in_window(F.to_date(found), rule.argument)
        case _:
            raise AssertionError(f"no evaluation for {rule.check}")


def _contradicts(sql: str) -> Expr:
    """Whether an expression is false of a record, or cannot be computed for it: it divides by zero, or casts what is no number.

    An error would end the step for the sake of one record, and tell its value in the log. Spark has no `try` around an
    expression, but what `try_to_binary` is given may fail: then it is null. Parts that rules share are computed ahead of
    them, where nothing is caught, unless they stand in a lambda.
    """
    told = F.coalesce(~F.expr(sql), F.lit(False)).cast("string")
    is_false = F.exists(F.array(F.lit(0)), lambda _: F.try_to_binary(told, F.lit("utf-8")) != F.lit(b"false"))
    return F.coalesce(is_false, F.lit(True))


def _is_sampled(contract: Contract, fraction: float) -> Expr:
    """Whether a record is among those a sampled rule looks at: always the same ones, whatever run looks."""
    return F.pmod(F.xxhash64(*[F.col(name).cast("string") for name in contract.key]), F.lit(10_000)) < fraction * 10_000


def _lost_digits(contract: Contract, column: Column, received: Expr) -> Expr:
    """Spark reads a JSON fraction through a double: beyond 15 digits the text we see may not be the text sent.

    Only exact numbers can lose some, and whole ones show no sign of having been a fraction.
    """
    if contract.formats == {"csv"} or not column.type.startswith(("bigint", "decimal")):
        return F.lit(False)
    literal = rf'"{re.escape(column.source)}"\s*:\s*-?(?=[0-9]*[.eE])(?:[0-9]\.?){{16}}'
    is_escaped = F.contains(F.col("_raw"), F.lit("\\u")) & ~F.contains(F.col("_raw"), F.lit(f'"{column.source}"'))
    was_fraction = F.contains(received, F.lit(".")) | F.contains(received, F.lit("E"))
    return (
        was_fraction
        & ~_is_verbatim(column.source, received)
        & F.col("_raw").rlike(_LONG_NUMBER)
        & (is_escaped | F.col("_raw").rlike(literal))
    )


def _is_verbatim(name: str, received: Expr) -> Expr:
    """Whether the text we see stands in the record under its name, which no other field has: spares most records two patterns."""
    raw = F.col("_raw")
    forms = [(f'"{name}":{space}', end) for space in ("", " ") for end in (",", "}")]
    stands = reduce(or_, [F.contains(raw, F.concat(F.lit(start), received, F.lit(end))) for start, end in forms])
    # A space may stand before the colon of another: the name is counted without. Nothing is cut off before a second one.
    is_single = F.octet_length(F.substring_index(raw, f'"{name}"', 2)) == F.octet_length(raw)
    return stands & is_single


def _outside(value: Expr, bounds: dict) -> Expr:
    tests = {
        "minimum": lambda bound: value < bound,
        "maximum": lambda bound: value > bound,
        "exclusiveMinimum": lambda bound: value <= bound,
        "exclusiveMaximum": lambda bound: value >= bound,
    }
    outside = F.lit(False)
    for name, bound in bounds.items():
        if bound is not None:
            outside = outside | tests[name](F.lit(bound))
    return outside


def in_window(day: Expr, max_lateness: int) -> Expr:
    """Whether an event day is believable for a record delivered on `_delivery_date`."""
    return day.between(F.date_sub("_delivery_date", max_lateness), F.date_add("_delivery_date", 1))
