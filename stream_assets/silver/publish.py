"""What each kind of dataset keeps of its accepted rows, and the tables it keeps them in."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.settings import Settings
from stream_assets.sources.changes import TRUNCATE, WRITES

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
    return delta.table_of(settings, "silver", contract.name, columns, partition_by=partition, stats=stats)


def quarantine_table(settings: Settings, contract: Contract) -> delta.Table:
    """Quarantine has the record as received, every rule it broke, and the trace."""
    columns = {
        "_raw": ("string", "The record as received."),
        "_raw_bytes": ("binary", "Its bytes, only when they are not valid UTF-8."),
        "_violations": ("array<string>", "Every rule it broke."),
        "_quarantined_at": ("timestamp", "When it was put aside."),
        "_resolved_at": ("timestamp", "When it was found to be rejected no more; null while it is."),
        "_resolution": ("string", "What became of it."),
    } | TRACE
    stats = ("_delivery_date", "_position", "_quarantined_at")
    return delta.table_of(settings, "quarantine", contract.name, columns, partition_by="_event_date", stats=stats)


def timeline(changes: DataFrame, contract: Contract) -> DataFrame:
    """The versions of each entity, each valid until the next. The order of arrival does not matter."""
    following = F.lead("_moment").over(Window.partitionBy(*contract.key).orderBy("_moment"))
    versions = changes.select("*", F.col("_moment").alias("valid_from"), following.alias("valid_to"))
    if contract.is_change_log:
        versions = _without_deleted(versions)
    return versions.withColumn("is_current", F.col("valid_to").isNull())


def _without_deleted(versions: DataFrame) -> DataFrame:
    """Deletes and truncations end the version before them and are none themselves."""
    op = F.col("_change.op")
    truncation = F.struct(F.col("_change.place").alias("place"), F.col("_moment").alias("at"))
    truncations = versions.where(op == TRUNCATE).agg(F.collect_list(truncation).alias("_truncations"))
    place = F.coalesce("_change.place", F.lit(-1))
    after = F.transform(F.filter("_truncations", lambda t: t["place"] > place), lambda t: t["at"])
    emptied = F.greatest("valid_from", F.array_min(after))
    ended = F.when(F.array_min(after).isNotNull(), F.least("valid_to", emptied)).otherwise(F.col("valid_to"))
    kept = versions.where(F.coalesce(op, F.lit("")).isin("", *WRITES)).crossJoin(F.broadcast(truncations))
    return kept.withColumn("valid_to", ended).drop("_truncations")
