"""Keeps what became of rejected records: a row that is no longer rejected stays in quarantine, marked as resolved.

The rows that are not resolved are a function of Bronze alone, like all of Silver. The resolved ones are the record of what
was once wrong and how it ended; replacing a day carries them forward, and one that is rejected again is open again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract

PLACE = ["_source", "_position"]
OPEN = "_resolved_at is null"


def fates(conformed: DataFrame, superseded: DataFrame | None, contract: Contract) -> DataFrame:
    """What became of every record that is not rejected, in words."""
    version = contract.version
    fate = F.when(F.col("_is_duplicate"), f"a better version won under {version}").otherwise(
        f"accepted under {version}"
    )
    found = conformed.where("_violations is null").select(*PLACE, fate.alias("_fate"))
    return found if superseded is None else found.union(superseded.select(*PLACE, F.lit("corrected")))


def as_open(rejected: DataFrame) -> DataFrame:
    """Rejected rows, with nothing resolved about them."""
    nothing = {"_resolved_at": F.lit(None).cast("timestamp"), "_resolution": F.lit(None).cast("string")}
    return rejected.withColumns(nothing)


def with_resolved(rejected: DataFrame, before: DataFrame, fate: DataFrame) -> DataFrame:
    """The rejected rows of some days, and those that quarantine had there before and that are rejected no more."""
    # Only the fate of what was in quarantine is asked for: its few places go to where all the records are, not the other way.
    asked = fate.join(before.select(*PLACE), PLACE, "left_semi")
    resolved = (
        before.join(rejected.select(*PLACE), PLACE, "left_anti")
        .join(asked, PLACE, "left")
        .withColumns(
            {
                "_resolution": F.coalesce("_resolution", "_fate", F.lit("delivered again without it")),
                "_resolved_at": F.coalesce("_resolved_at", F.current_timestamp()),
            }
        )
    )
    return as_open(rejected).unionByName(resolved.drop("_fate"), allowMissingColumns=True)
