"""Who was erased: the certificates in the lake, which are also the tombstones that landing consults.

A certificate names the column and a salted hash of the value, never the value. A delivery that comes again, or a rebuild
of everything, drops the records of these people before they reach Bronze.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from pyarrow import fs
from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_assets.contracts.model import Column, Contract
from stream_assets.engine.session import filesystem_of
from stream_assets.secrets import pii_salt
from stream_assets.settings import Settings
from stream_assets.sources.changes import peek

Tombstones = Mapping[str, frozenset[str]]
"""Column → hashes of the values whose records are gone."""


def folder(settings: Settings) -> str:
    """Where certificates are kept: with the data, so that whoever has the lake has them."""
    return f"{settings.lake}/erasures"


def subject_hash(settings: Settings, column: str, value: str) -> str:
    """The value as a tombstone knows it."""
    return hashlib.sha256(f"{pii_salt(settings)}{column}={value}".encode()).hexdigest()


def write_certificate(settings: Settings, certificate: Mapping[str, Any]) -> str:
    """Keep a certificate; from now on it is a tombstone. Returns its place."""
    filesystem, root = filesystem_of(folder(settings))
    filesystem.create_dir(root, recursive=True)
    with filesystem.open_output_stream(f"{root}/{certificate['id']}.json") as stream:
        stream.write(json.dumps(certificate, indent=2, sort_keys=True).encode())
    return f"{folder(settings)}/{certificate['id']}.json"


def read_tombstones(settings: Settings) -> Tombstones:
    """Everybody who was erased from this lake."""
    filesystem, root = filesystem_of(folder(settings))
    found = filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True))
    hashes: dict[str, set[str]] = {}
    for file in (f for f in found if f.base_name.endswith(".json")):
        with filesystem.open_input_stream(file.path) as stream:
            subject = json.loads(stream.read())["subject"]
        hashes.setdefault(subject["column"], set()).add(subject["hash"])
    return {column: frozenset(values) for column, values in hashes.items()}


def holders(contract: Contract, subject: str) -> list[Column]:
    """The columns of a dataset that hold a person's key: those of its name, and those that point at it."""
    return [c for c in contract.record if c.name == subject or (c.references and c.references[1] == subject)]


def named_in(rows: DataFrame, contract: Contract, column: Column) -> Expr:
    """Whom a record, read into `_record`, names in a column. A message without a value has a key only: that ends what it named."""
    named = F.col("_record")[column.name]
    if "_message_key" not in rows.columns:
        return named
    key = F.col("_message_key").cast("string")
    fields = [F.get_json_object(key, f"{place}['{column.source}']") for place in ("$", "$.payload")]
    of_key = F.coalesce(*fields, *([key] if contract.key == (column.name,) else []))
    return F.coalesce(named, F.when(has_no_value(), of_key))


def has_no_value() -> Expr:
    """Whether a message has a key only."""
    return (F.coalesce("_raw", F.lit("null")) == "null") & F.col("_raw_bytes").isNull()


def is_erased(rows: DataFrame, contract: Contract, tombstones: Tombstones, settings: Settings) -> Expr:
    """Whether a record, read into `_record`, is of somebody who was erased."""
    salt = pii_salt(settings)
    found = [
        F.sha2(F.concat(F.lit(f"{salt}{subject}="), named_in(rows, contract, column)), 256).isin(*sorted(hashes))
        for subject, hashes in tombstones.items()
        for column in holders(contract, subject)
    ]
    return F.coalesce(reduce(or_, found), F.lit(False))


def names_erased(record: Mapping[str, Any], contract: Contract, tombstones: Tombstones, settings: Settings) -> bool:
    """The same, of the row of a table."""
    return any(
        subject_hash(settings, subject, str(record[column.source])) in hashes
        for subject, hashes in tombstones.items()
        for column in holders(contract, subject)
        if record.get(column.source) is not None
    )


def split_erased(
    received: DataFrame, contract: Contract, settings: Settings, headers: Sequence[str] = ()
) -> tuple[DataFrame, DataFrame | None]:
    """Received rows without those of people who were erased, and these; None if there can be none."""
    tombstones = read_tombstones(settings)
    names = sorted({c.name for subject in tombstones for c in holders(contract, subject)})
    if not names:
        return received, None
    erased = is_erased(received, contract, tombstones, settings)
    marked = peek(received, contract, names, headers).select(*received.columns, erased.alias("_erased"))
    return marked.where("not _erased").drop("_erased"), marked.where("_erased").drop("_erased")
