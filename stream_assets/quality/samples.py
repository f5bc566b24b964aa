"""Names a few offending records, so that a person finds them and nobody learns anything about anybody.

A record is named by its key. Where the key may name a person, or is itself what is wrong, the record's place names it:
the file and the line, by which quarantine knows it too.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import and_

from pyspark.sql import Column as Expr
from pyspark.sql import Row
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.quality.evidence import DUPLICATE, MOST
from stream_assets.quality.rules import RECORD_RULES, build_rules

_PLAIN = r"^[\w.:-]{1,64}$"
"""What an identifier looks like. Names of people, addresses and phone numbers have characters that this has not."""


def is_nobodys(contract: Contract) -> bool:
    """Whether keys of a dataset can be shown: they name no person, neither here nor where they point to."""
    is_personal = contract.kind == "entity" and any(column.pii for column in contract.record)
    columns = [contract.column(name) for name in contract.key]
    return not is_personal and not any(column.pii or column.references for column in columns)


def name_of(contract: Contract, broken: Expr | None = None) -> Expr:
    """What to call a record, given the rules it broke."""
    place = F.concat_ws(":", "_source", F.col("_position").cast("string"))
    if not is_nobodys(contract):
        return place
    parts = [F.col(name).cast("string") for name in contract.key]
    is_fit = reduce(and_, [part.rlike(_PLAIN) for part in parts])
    if broken is not None:
        about_key = [rule.id for rule in build_rules(contract) if rule.column in contract.key]
        doubts = F.array(*map(F.lit, (*RECORD_RULES, *about_key)))
        is_fit &= ~F.coalesce(F.arrays_overlap(broken, doubts), F.lit(False))
    return F.when(is_fit, F.concat_ws("/", *parts)).otherwise(place)


def sample_columns(contract: Contract) -> list[Expr]:
    """Aggregates over records that broke the same rules: the first and the last of their names. Sound records cost nothing."""
    offends = F.col("_violations").isNotNull() | F.col("_warnings").isNotNull() | F.col("_is_duplicate")
    name = F.when(offends, name_of(contract, F.col("_violations")))
    return [F.min(name).alias("first_name"), F.max(name).alias("last_name")]


def samples_of(groups: Iterable[Row]) -> dict[str, list[str]]:
    """A few names per broken rule, and of duplicates, from the groups of a day. The same records give the same names."""
    found: dict[str, set[str]] = {}
    for group in groups:
        rules = [*(group["_violations"] or ()), *(group["_warnings"] or ())] or [DUPLICATE]
        for rule in rules:
            found.setdefault(rule, set()).update(n for n in (group["first_name"], group["last_name"]) if n)
    return {rule: sorted(names)[:MOST] for rule, names in found.items() if names}
