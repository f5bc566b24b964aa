"""What each kind of dataset keeps of its accepted rows, and the tables it keeps them in."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.settings import Settings

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
    } | TRACE
    stats = ("_delivery_date", "_position", "_quarantined_at")
    return delta.table_of(settings, "quarantine", contract.name, columns, partition_by="_event_date", stats=stats)


def timeline(changes: DataFrame, contract: Contract) -> DataFrame:
    """The versions of each entity, each valid until the next. The order of arrival does not matter."""
    moment = F.col(str(contract.order_by))
    following = F.lead(moment).over(Window.partitionBy(*contract.key).orderBy(moment))
    return changes.select(
        "*", moment.alias("valid_from"), following.alias("valid_to"), following.isNull().alias("is_current")
    )
