"""How a received record is read into fields: strictly, once, in Spark's own expressions.

Spark's JSON reader forgives what we do not: text after a document, a second document, a repeated key. Reading into a map
inside a wrapper object makes each of these visible without a second parse.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.sources.files import header_names

_MAP = "map<string,string>"
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_BOM = "\ufeff"
_MARK = "_end of record"
_LONE_SURROGATE = (
    r"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})(?<!\\)(?:\\\\)*\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""Half a character, escaped. It cannot be stored as UTF-8: Spark would write a question mark."""


def with_fields(rows: DataFrame, contract: Contract, headers: Sequence[str] = ()) -> DataFrame:
    """Add `_fields` (field → text), `_envelope` (likewise) and `_problem`, the rule a record as a whole breaks, or null.

    `headers` are the distinct CSV headers among the rows.
    """
    parsed = _parse_csv(rows, headers) if contract.format == "csv" else _parse_json(rows, contract)
    repeated = F.coalesce(_repeats("_fields") | _repeats("_envelope"), F.lit(False))
    problem = (
        F.when(F.col("_raw_bytes").isNotNull() | _is_half(contract), F.lit("validity__record__encoding"))
        .when(F.btrim("_raw", F.lit(" \t\r")) == "", F.lit("validity__record__empty"))
        .when(~F.col("_whole") | F.col("_fields").isNull(), F.lit("validity__record__malformed"))
        .when(repeated, F.lit("validity__record__repeated_key"))
    )
    return parsed.select(*rows.columns, "_fields", "_envelope", problem.alias("_problem"))


def _parse_json(rows: DataFrame, contract: Contract) -> DataFrame:
    """Parse `[RAW, {MARK: ""}]`: it has two elements, the mark being the second, only if RAW is exactly one object.

    A RAW that holds the mark itself could fake it, so it is refused.
    """
    raw = F.when(F.startswith(F.col("_raw"), F.lit(_BOM)), F.expr("substring(_raw, 2)")).otherwise(F.col("_raw"))
    wrapped = F.concat(F.lit("["), raw, F.lit(f',{{"{_MARK}":""}}]'))
    parsed = _once(rows, F.struct(F.from_json(wrapped, f"array<{_MAP}>", _STRICT).alias("_both")))
    record, mark = F.get("_both", F.lit(0)), F.get("_both", F.lit(1))[_MARK]
    whole = (F.size("_both") == 2) & mark.isNotNull() & ~F.contains(F.col("_raw"), F.lit(_MARK))
    if not contract.envelope:
        return parsed.select(*rows.columns, record.alias("_fields"), _no_envelope(), whole.alias("_whole"))
    inner = _once(parsed, F.struct(F.from_json(record["data"], _MAP, _STRICT).alias("_fields")))
    return inner.select(*rows.columns, "_fields", record.alias("_envelope"), whole.alias("_whole"))


def _parse_csv(rows: DataFrame, headers: Sequence[str]) -> DataFrame:
    """Parse a line by the header of its own file, so that column order may differ from file to file."""
    unread = F.struct(F.lit(None).cast(_MAP).alias("_fields"), F.lit(False).alias("_whole"))
    known = [(F.col("_header") == header, _csv_line(header_names(header))) for header in headers]
    line = reduce(lambda other, case: F.when(case[0], case[1]).otherwise(other), known, unread)
    return _once(rows, line).select("*", _no_envelope())


def _csv_line(names: Sequence[str]) -> Column:
    """A line as fields. Spark puts a line with too few or too many values aside in `_odd`.

    An odd number of quotes is half a record, whose text has a line break: Spark would take either half for a whole one.
    """
    schema = ", ".join(f"c{i} string" for i in range(len(names))) + ", _odd string"
    line = F.from_csv(F.regexp_replace("_raw", "\r$", ""), schema, {"columnNameOfCorruptRecord": "_odd", "escape": '"'})
    values = F.array(*[line[f"c{i}"] for i in range(len(names))])
    fields = F.map_from_arrays(F.array(*map(F.lit, names)), values)
    quotes = F.length("_raw") - F.length(F.replace(F.col("_raw"), F.lit('"')))
    whole = line["_odd"].isNull() & (quotes % 2 == 0)
    return F.struct(fields.alias("_fields"), whole.alias("_whole"))


def _once(rows: DataFrame, record: Column) -> DataFrame:
    """Add a struct's fields as columns, evaluated once per row.

    Without the generator the optimizer copies the parse into every expression that uses a field (measured on the whole
    conform step: 96 s with copies, 55 s without).
    """
    return rows.select("*", F.inline(F.array(record)))


def _is_half(contract: Contract) -> Column:
    if contract.format == "csv":
        return F.lit(False)
    return F.contains(F.col("_raw"), F.lit("\\u")) & F.col("_raw").rlike(_LONE_SURROGATE)


def _repeats(fields: str) -> Column:
    keys = F.map_keys(fields)
    return F.size(F.array_distinct(keys)) < F.size(keys)


def _no_envelope() -> Column:
    return F.lit(None).cast(_MAP).alias("_envelope")
