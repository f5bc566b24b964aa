"""How a received record is read into fields: strictly, once, in Spark's own expressions.

Spark's JSON reader forgives what we do not: text after a document, a second document, a repeated key. Reading inside a
wrapper makes the first two visible without a second parse, and counting keys in the text the third.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add, or_
from uuid import uuid4

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from stream_assets.contracts.model import REGISTERED, Column, Contract
from stream_assets.engine.expressions import balanced
from stream_assets.sources.files import header_names

_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""A name that stands for itself in a path."""
_BOM = "\ufeff"
_MARK, _END = "_end of record", uuid4().hex
"""The field behind a record, and its value, which no record can know."""
_LONE_SURROGATE = (
    r"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})(?<!\\)(?:\\\\)*\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""Half a character, escaped. It cannot be stored as UTF-8: Spark would write a question mark."""


def with_record(rows: DataFrame, contract: Contract, headers: Sequence[str | None] = ()) -> DataFrame:
    """Add `_record` (the text of each of the contract's columns), `_unknown` (other fields, or null) and `_problem`.

    `_problem` is the rule that a record as a whole breaks, or null. `headers` are the distinct CSV headers among the rows,
    null standing for rows that are not CSV.
    """
    parsed = _by_format(
        rows, headers, lambda some: _parse_csv(some, contract, headers), lambda some: _parse_json(some, contract)
    )
    # Bronze that was landed before there was Avro has no such column.
    decoding = F.col("_decoding") if "_decoding" in rows.columns else None
    broken = problem(F.col("_whole"), F.col("_repeats"), is_half=_is_half(contract), decoding=decoding)
    return parsed.select(*rows.columns, "_record", "_unknown", broken.alias("_problem"))


def problem(is_whole: Expr, repeats: Expr, *, is_half: Expr | None = None, decoding: Expr | None = None) -> Expr:
    """The rule that a record as a whole breaks, or null.

    `decoding` says what a record was that was read from bytes, or which rule it broke. Text has none.
    """
    decoding = F.lit(None).cast("string") if decoding is None else decoding
    is_utf8 = F.col("_raw_bytes").isNull() | decoding.isNotNull()
    is_text = is_utf8 & ~(_has_half_character() if is_half is None else is_half)
    of_text = F.when(
        ~(is_whole & is_text),
        F.when(~is_text, F.lit("validity__record__encoding"))
        .when(_is_blank(), F.lit("validity__record__empty"))
        .otherwise(F.lit("validity__record__malformed")),
    ).when(repeats, F.lit("validity__record__repeated_key"))
    return F.when(~decoding.isin(*REGISTERED), F.concat(F.lit("validity__record__"), decoding)).otherwise(of_text)


def _by_format(
    rows: DataFrame,
    headers: Sequence[str | None],
    csv: Callable[[DataFrame], DataFrame],
    json: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Parse each row as what it is. Bronze holds CSV beside JSON once a dataset has moved from files to a topic."""
    if None in headers and len(headers) > 1:
        both = csv(rows.where("_header is not null")), json(rows.where("_header is null"))
        return both[0].unionByName(both[1].select(*both[0].columns))
    return csv(rows) if any(headers) else json(rows)


def peek(rows: DataFrame, contract: Contract, names: Sequence[str], headers: Sequence[str] = ()) -> DataFrame:
    """Add `_record` with the text of a few columns only, forgivingly: for landing, which judges nothing."""
    if headers:
        return _parse_csv(rows, contract, headers).select(*rows.columns, "_record")
    wanted = [contract.column(name) for name in names]
    if len(wanted) == 1 and _PLAIN_NAME.fullmatch(wanted[0].source):
        # A single field is found sooner by its path than by reading the record into a shape.
        is_inside = contract.envelope and wanted[0] in contract.columns
        path = f"$.{'data.' * is_inside}{wanted[0].source}"
        return rows.select("*", F.struct(F.get_json_object(_text(), path).alias(wanted[0].name)).alias("_record"))
    parsed = rows.select("*", F.from_json(_text(), _shape(contract, wanted), _STRICT).alias("_read"))
    return parsed.select(*rows.columns, _record(contract, wanted, F.col("_read")).alias("_record"))


def parse_exactly(rows: DataFrame, shape: StructType) -> DataFrame:
    """Add `_read`, the record in that shape, and `_whole`: whether it is exactly one JSON object.

    What is parsed is `[RAW, {MARK: END}]`: it has two elements, the mark being the second, only if RAW is one object.
    """
    marked = StructType([*shape.fields, StructField(_MARK, StringType())])
    wrapped = F.concat(F.lit("["), _text(), F.lit(f',{{"{_MARK}":"{_END}"}}]'))
    parsed = rows.select("*", F.from_json(wrapped, ArrayType(marked), _STRICT).alias("_both"))
    record, mark = F.get("_both", F.lit(0)), F.get("_both", F.lit(1))[_MARK]
    whole = (F.size("_both") == 2) & (mark == _END) & record.isNotNull()
    return parsed.select(*rows.columns, record.alias("_read"), F.coalesce(whole, F.lit(False)).alias("_whole"))


def _parse_json(rows: DataFrame, contract: Contract) -> DataFrame:
    parsed, record = parse_exactly(rows, _shape(contract, contract.record)), F.col("_read")
    whole = F.col("_whole") & record["data"].isNotNull() if contract.envelope else F.col("_whole")
    read = parsed.select(
        *rows.columns, _record(contract, contract.record, record).alias("_record"), whole.alias("_whole")
    )
    return _with_keys(read, contract, rows.columns)


def _with_keys(read: DataFrame, contract: Contract, kept: Sequence[str]) -> DataFrame:
    """Add which fields the contract does not know, and whether a key is repeated: looked up only where keys are left over."""
    inner = F.json_object_keys(F.get_json_object(_text(), "$.data")) if contract.envelope else F.lit(None)
    keys = F.struct(F.json_object_keys(_text()).alias("_outer"), inner.cast("array<string>").alias("_inner"))
    nothing = F.lit(None).cast("struct<_outer array<string>, _inner array<string>>")
    is_odd = F.col("_whole") & ~_has_no_other_keys(contract)
    found = read.select("*", F.when(is_odd, keys).otherwise(nothing).alias("_keys"))
    unknown = F.array_except(
        F.col("_keys._inner" if contract.envelope else "_keys._outer"),
        F.array(*[F.lit(c.source) for c in contract.columns]),
    )
    repeats = F.coalesce(_repeats("_keys._outer"), F.lit(False)) | F.coalesce(_repeats("_keys._inner"), F.lit(False))
    return found.select(
        *kept,
        "_record",
        "_whole",
        F.when(F.col("_keys").isNotNull(), F.when(F.size(unknown) > 0, unknown)).alias("_unknown"),
        (F.col("_keys").isNotNull() & repeats).alias("_repeats"),
    )


def _has_no_other_keys(contract: Contract) -> Expr:
    """Whether a record has only keys of the contract, each once, told from its text: a second parse costs much more.

    `":` stands at the end of every key. Where it occurs elsewhere we count too many, never too few, and look closer. So if
    there are as many as fields with a value, and fields that are null by name, no key is left over. A name that both
    the envelope and the data have is not taken for such a null.
    """
    raw, names = F.col("_raw"), [column.source for column in contract.record]
    endings = F.octet_length(raw) - F.octet_length(F.replace(raw, F.lit('":'), F.lit("")))

    def keys(column: Column) -> Expr:
        may_be_null = names.count(column.source) == 1 and not column.required
        of_null = _number(_is_null_by_name(raw, column.source)) if may_be_null else F.lit(0.0)
        return F.when(F.col("_record")[column.name].isNull(), of_null).otherwise(1.0)

    known = balanced(add, [keys(column) for column in contract.record]) + int(contract.envelope)
    return (endings == 2 * known) & ~_has_space_before_colon(raw)


def _has_space_before_colon(raw: Expr) -> Expr:
    """Whether a key may end with something else than `":`. Spark looks closer wherever the first byte is found: it is a rare one.

    A line has no line break, but a message may.
    """
    return reduce(or_, [F.contains(raw, F.lit(end)) for end in (" :", "\t", "\r:", "\n:")])


def _is_null_by_name(raw: Expr, name: str) -> Expr:
    """What stands before its first quote shows that it is none of a longer name, or of a text."""
    forms = (f',"{name}":null', f', "{name}": null', f'{{"{name}":null', f'{{"{name}": null')
    return reduce(or_, [F.contains(raw, F.lit(form)) for form in forms])


def _number(condition: Expr) -> Expr:
    """One or zero, as a double: whole numbers are added with a look for overflows, which costs more than the sum."""
    return condition.cast("double")


def _text() -> Expr:
    """The record without a byte-order mark."""
    return F.when(F.startswith(F.col("_raw"), F.lit(_BOM)), F.expr("substring(_raw, 2)")).otherwise(F.col("_raw"))


def _shape(contract: Contract, columns: Sequence[Column]) -> StructType:
    """The type a record is parsed as: every field as text."""
    own = _texts(column for column in columns if column in contract.columns)
    if not contract.envelope:
        return own
    outer = _texts(column for column in columns if column not in contract.columns)
    return outer.add("data", own) if own.fields else outer


def _texts(columns: Iterable[Column]) -> StructType:
    return StructType([StructField(column.source, StringType()) for column in columns])


def _record(contract: Contract, columns: Sequence[Column], read: Expr) -> Expr:
    own = read["data"] if contract.envelope else read
    return F.struct(*[(own if c in contract.columns else read)[c.source].alias(c.name) for c in columns])


def _parse_csv(rows: DataFrame, contract: Contract, headers: Sequence[str | None]) -> DataFrame:
    """Parse a line by the header of its own file, so that column order may differ from file to file."""
    known = [(F.col("_header") == header, _csv_line(contract, header_names(header))) for header in headers if header]
    unread = _csv_fields(contract, {}, (), F.lit(False))
    of_its_header = reduce(lambda cases, case: cases.when(*case), known, F.when(F.lit(False), unread))
    return once(rows, of_its_header.otherwise(unread))


def _csv_line(contract: Contract, names: Sequence[str]) -> Expr:
    """A line as fields. Spark puts a line with too few or too many values aside in `_odd`.

    An odd number of quotes is half a record, whose text has a line break: Spark would take either half for a whole one.
    """
    schema = ", ".join(f"c{i} string" for i in range(len(names))) + ", _odd string"
    line = F.from_csv(F.regexp_replace("_raw", "\r$", ""), schema, {"columnNameOfCorruptRecord": "_odd", "escape": '"'})
    quotes = F.length("_raw") - F.length(F.replace(F.col("_raw"), F.lit('"')))
    values = {name: line[f"c{i}"] for i, name in enumerate(names)}
    unknown = sorted(set(names) - {column.source for column in contract.columns})
    return _csv_fields(contract, values, unknown, line["_odd"].isNull() & (quotes % 2 == 0) & ~_is_blank())


def _csv_fields(contract: Contract, values: dict[str, Expr], unknown: Sequence[str], whole: Expr) -> Expr:
    nothing = F.lit(None).cast("string")
    record = F.struct(*[values.get(column.source, nothing).alias(column.name) for column in contract.record])
    names = F.array(*map(F.lit, unknown)) if unknown else F.lit(None).cast("array<string>")
    return F.struct(
        record.alias("_record"), whole.alias("_whole"), names.alias("_unknown"), F.lit(False).alias("_repeats")
    )


def once(rows: DataFrame, record: Expr) -> DataFrame:
    """Add a struct's fields as columns, evaluated once per row.

    Without the generator the optimizer copies the parse into every expression that uses a field (measured on the whole
    conform step: 96 s with copies, 55 s without).
    """
    return rows.select("*", F.inline(F.array(record)))


def _is_blank() -> Expr:
    """Whether there is nothing in it; a message may have no value at all."""
    return F.coalesce(F.btrim("_raw", F.lit(" \t\r")), F.lit("")) == ""


def _is_half(contract: Contract) -> Expr:
    if contract.formats == {"csv"}:
        return F.lit(False)
    is_json = F.col("_header").isNull() if "csv" in contract.formats else F.lit(True)
    return is_json & _has_half_character()


def _has_half_character() -> Expr:
    return F.contains(F.col("_raw"), F.lit("\\u")) & F.col("_raw").rlike(_LONE_SURROGATE)


def _repeats(keys: str) -> Expr:
    return F.size(F.array_distinct(keys)) < F.size(keys)
