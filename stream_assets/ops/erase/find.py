"""Which rows are a person's: by the contracts, in every layer, in the form each layer keeps the key in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.errors import StreamError
from stream_assets.secrets import pii_salt
from stream_assets.settings import Settings
from stream_assets.silver.refine import distinct_headers
from stream_assets.sources.changes import with_record
from stream_assets.sources.erasures import has_no_value, holders, named_in

TELLING = 6
"""A shorter value, or a plain number, says nothing in running text: too much else looks like it."""
PLACE = ["_source", "_position"]


@dataclass(frozen=True)
class Subject:
    """A person, by the column that names people and the value that names this one."""

    column: str
    value: str
    salt: str

    @property
    def forms(self) -> list[str]:
        """The value as received, hashed and as a token: what Silver and Gold may hold."""
        digest = hashlib.sha256(f"{self.salt}{self.value}".encode()).hexdigest()
        return [self.value, digest, f"tok_{digest[:24]}"]

    @property
    def in_text(self) -> str | None:
        """A pattern that finds the value as a word of its own; None if it is too common a word."""
        is_telling = len(self.value) >= TELLING and not self.value.isdigit()
        return rf"(?<![\w-]){re.escape(self.value)}(?![\w-])" if is_telling else None


def parse_subject(text: str, settings: Settings, contracts: Mapping[str, Contract]) -> Subject:
    """`customer_id=cus_42`, if some dataset has that column."""
    column, _, value = text.partition("=")
    if not column or not value:
        raise StreamError(f"--subject {text!r}: write column=value, such as customer_id=cus_42.")
    if not any(holders(contract, column) for contract in contracts.values()):
        raise StreamError(f"No contract has a column {column}, nor one that points at it.")
    return Subject(column, value, pii_salt(settings))


def in_bronze(spark: SparkSession, contract: Contract, subject: Subject) -> DataFrame:
    """Bronze with `_is_theirs`: the record, or the key of a message without one, names them, or cannot be read and has them in its text."""
    bronze = spark.table(f"`bronze`.`{contract.name}`")
    headers = distinct_headers(bronze) if "csv" in contract.formats else []
    read = with_record(bronze, contract, headers)
    theirs = [named_in(bronze, contract, c) == subject.value for c in holders(contract, subject.column)]
    if subject.in_text:
        theirs.append(F.col("_problem").isNotNull() & F.col("_raw").rlike(subject.in_text))
        if "_message_key" in bronze.columns:
            theirs.append(has_no_value() & F.col("_message_key").cast("string").rlike(subject.in_text))
    found = F.coalesce(reduce(or_, theirs), F.lit(False)) if theirs else F.lit(False)
    return read.select(*bronze.columns, "_record", found.alias("_is_theirs"))


def in_quarantine(rows: DataFrame, places: DataFrame, subject: Subject) -> DataFrame:
    """Quarantine with `_is_theirs`: what came from their rows of Bronze, or has their key in its text."""
    marked = rows.join(F.broadcast(places.select(*PLACE, F.lit(True).alias("_known")).distinct()), PLACE, "left")
    known = F.coalesce(F.col("_known"), F.lit(False))
    text = F.coalesce(F.col("_raw").rlike(subject.in_text), F.lit(False)) if subject.in_text else F.lit(False)
    return marked.select(*rows.columns, (known | text).alias("_is_theirs"))


def by_columns(rows: DataFrame, names: Iterable[str], subject: Subject) -> DataFrame:
    """A table with `_is_theirs`: one of these columns holds their key in one of its forms."""
    present: list[Expr] = [
        F.col(n).cast("string").isin(*subject.forms) for n in sorted(set(names)) if n in rows.columns
    ]
    found = F.coalesce(reduce(or_, present), F.lit(False)) if present else F.lit(False)
    return rows.withColumn("_is_theirs", found)


def by_text(rows: DataFrame, names: Iterable[str], subject: Subject) -> DataFrame:
    """The same, for a table whose columns people name as they like: anything in the row may hold their key."""
    known = by_columns(rows, names, subject)
    if not subject.in_text:
        return known
    anywhere = F.to_json(F.struct(*rows.columns)).rlike("|".join(map(re.escape, subject.forms)))
    return known.withColumn("_is_theirs", F.col("_is_theirs") | F.coalesce(anywhere, F.lit(False)))


def personal_values(theirs: DataFrame, contract: Contract, subject: Subject) -> set[str]:
    """What their own records say of them, if this dataset is the one that describes them."""
    if subject.column not in contract.key:
        return set()
    personal = [column.name for column in contract.record if column.pii]
    rows = theirs.select(*[F.col("_record")[name].alias(name) for name in personal]).collect() if personal else []
    return {str(row[name]) for row in rows for name in personal if row[name] and len(str(row[name])) >= TELLING}
