"""What each kind of dataset keeps of its accepted rows, and the tables it keeps them in."""

from __future__ import annotations

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from stream_assets.contracts.model import Column, Contract
from stream_assets.engine import delta
from stream_assets.settings import Settings
from stream_assets.sources.changes import SNAPSHOT, WRITES

TRACE = {
    "_source": ("string", "File it came in, relative to the landing zone."),
    "_position": ("bigint", "Line (or row) in that file, from 1."),
    "_delivery_date": ("date", "Day it was delivered."),
    "_event_date": ("date", "Day it belongs to."),
    "_ingested_at": ("timestamp", "When the file arrived."),
    "_run_id": ("string", "Run that wrote it."),
    "_contract_version": ("string", "Contract it was held to."),
}
HISTORY = {
    "valid_from": ("timestamp", "From when this version held."),
    "valid_to": ("timestamp", "Until when it held; null while it still does."),
    "is_current": ("boolean", "Whether it still holds."),
}


def silver_table(settings: Settings, contract: Contract) -> delta.Table:
    """Silver has the contract's columns, then the trace; an entity also its validity."""
    history = HISTORY if contract.kind == "entity" else {}
    key = {"_key": ("bigint", "Hash of its key.")} if contract.kind == "entity" else {}
    columns = {c.name: (c.silver_type, c.description) for c in contract.silver} | history | key | TRACE
    comparable = [
        c.name
        for c in contract.silver
        if not c.pii and (c.name in contract.key or c.type in ("bigint", "date", "timestamp"))
    ]
    stats = (*comparable, *[c for c in history if c != "is_current"], *key, "_delivery_date", "_position")
    partition = "_event_date" if contract.kind == "event" else None
    varied = (*[c.name for c in contract.silver if c.name in contract.key or _is_varied(c)], "_position")
    return delta.table_of(
        settings, "silver", contract.name, columns, partition_by=partition, stats=stats, varied=varied
    )


def _is_varied(column: Column) -> bool:
    """Whether the values of a day hardly repeat: identifiers, moments, digests of addresses."""
    is_digest = column.pii in ("hash", "tokenize")
    return is_digest or column.type == "timestamp" or column.options.get("format") == "uuid"


def quarantine_table(settings: Settings, contract: Contract) -> delta.Table:
    """Quarantine has the record as received, every rule it broke, and the trace."""
    columns = {
        "_raw": ("string", "The record as received."),
        "_raw_bytes": ("binary", "Its bytes, only when they are not valid UTF-8, or Avro or Protobuf."),
        "_violations": ("array<string>", "Every rule it broke."),
        "_quarantined_at": ("timestamp", "When it was put aside."),
        "_resolved_at": ("timestamp", "When it was found to be rejected no more; null while it is."),
        "_resolution": ("string", "What became of it."),
    } | TRACE
    stats = ("_delivery_date", "_position", "_quarantined_at")
    return delta.table_of(settings, "quarantine", contract.name, columns, partition_by="_event_date", stats=stats)


def timeline(changes: DataFrame, contract: Contract, sweeps: DataFrame | None = None) -> DataFrame:
    """The versions of each entity, each valid until the next. The order of arrival does not matter.

    `sweeps` are the changes of a log that concern every entity, the rejected among them: truncations and ends of snapshots.
    """
    following = F.lead("_moment").over(Window.partitionBy(*contract.key).orderBy("_moment"))
    versions = changes.select("*", F.col("_moment").alias("valid_from"), following.alias("valid_to"))
    if sweeps is not None:
        versions = _merged(_swept(versions, sweeps), contract)
    return versions.withColumn("is_current", F.col("valid_to").isNull())


def _swept(versions: DataFrame, sweeps: DataFrame) -> DataFrame:
    """Deletes and sweeps end the version before them and are none themselves. A snapshot spares the entities it holds."""
    change = F.col("_change")
    # By place, so that the least is the first.
    sweep = F.struct(
        *[F.col("_change")[name].alias(name) for name in ("place", "at", "read_at")],
        (F.col("_change.op") == SNAPSHOT).alias("is_snapshot"),
    )
    found = sweeps.agg(F.collect_set(sweep).alias("_sweeps"))

    def goes_over(sweep: Expr) -> Expr:
        is_held = sweep["is_snapshot"] & F.array_contains(change["seen"], sweep["place"])
        # The transaction that commits first after a snapshot may have logged before it: only the order of reading tells.
        is_later = change["is_stream"] & change["is_first"] & (change["read_at"] >= sweep["read_at"])
        spares = F.coalesce(is_held, F.lit(False)) | F.coalesce(is_later, F.lit(False))
        return (sweep["place"] > F.coalesce(change["place"], F.lit(-1))) & ~spares

    kept = versions.where(F.coalesce("_change.op", F.lit("")).isin("", *WRITES)).crossJoin(F.broadcast(found))
    swept_at = F.array_min(F.filter("_sweeps", goes_over))["at"]
    end = F.when(swept_at.isNotNull(), F.least("valid_to", F.greatest("valid_from", swept_at))).otherwise(
        F.col("valid_to")
    )
    return kept.withColumn("valid_to", end).drop("_sweeps").where("valid_to is null or valid_to > valid_from")


def _merged(versions: DataFrame, contract: Contract) -> DataFrame:
    """Versions that follow each other and hold the same are one: a snapshot repeats what was known."""
    in_order = Window.partitionBy(*contract.key).orderBy("valid_from")
    values = F.struct(*[column.name for column in contract.silver])
    goes_on = F.lag(values).over(in_order).eqNullSafe(values) & F.lag("valid_to").over(in_order).eqNullSafe(
        F.col("valid_from")
    )
    numbered = versions.withColumn("_begins", ~goes_on).withColumn("_number", F.count_if("_begins").over(in_order))
    whole = Window.partitionBy(*contract.key, "_number").orderBy("valid_from")
    end = F.last("valid_to").over(whole.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))
    return numbered.withColumn("valid_to", end).where("_begins").drop("_begins", "_number")
