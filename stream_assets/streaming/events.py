"""The event log of a dataset: Bronze, judged once, without repeats, each event knowing how far time had moved when it came.

Every view of a dataset reads this table, so a record is parsed and judged once however many views there are. It holds no
rejected record (quarantine has those) and no repeat, by the idempotency key of the record's envelope.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.quality.judge import judge, protected
from stream_assets.settings import Settings
from stream_assets.sources.records import with_record
from stream_assets.streaming.batches import AppendEvents
from stream_assets.streaming.lateness import EARLY, LateSql, is_early

TRACE = {
    "_event_key": ("string", "Identity of the event: a repeat has the same."),
    "_clock": ("timestamp", "Newest event time that had arrived before it."),
    "_source": ("string", "Where its record is in Bronze."),
    "_position": ("bigint", "Where its record is in that source."),
    "_delivery_date": ("date", "Day it was delivered."),
    "_event_date": ("date", "Day it happened."),
    "_ingested_at": ("timestamp", "When it arrived."),
}


def events_table(settings: Settings, contract: Contract) -> delta.Table:
    """The event log has Silver's columns and the trace."""
    columns = {c.name: (c.silver_type, c.description) for c in contract.silver} | TRACE
    stats = (str(contract.event_time), "_clock", "_ingested_at", "_delivery_date")
    return delta.table_of(settings, "live", f"{contract.name}_events", columns, partition_by=None, stats=stats)


def sound_events(bronze: DataFrame, contract: Contract, salt: str) -> DataFrame:
    """The records of Bronze that keep the contract, typed and protected as in Silver, with their identity."""
    judged = judge(with_record(bronze, contract), contract).withColumn("_event_key", event_key(contract))
    kept = [name for name in TRACE if name not in ("_event_key", "_clock")]
    # Personal data is protected last: an identity is made of what was sent.
    shown = [*[protected(column, salt) for column in contract.silver], "_event_key", *kept]
    # The generator is a barrier: a filter on what was judged would be pushed below it, with a copy of every rule for each use,
    # until planning took minutes and all of the heap.
    once = judged.select(F.inline(F.array(F.struct("_violations", *shown))))
    return once.where("_violations is null").drop("_violations")


def event_key(contract: Contract) -> Expr:
    """Sha256 of source, entity type, entity id, event type and timestamp to the second, joined by |."""
    entity = [F.col(name).cast("string") for name in contract.key]
    source, what = ("event_source", "event_type") if contract.envelope else (None, None)
    moment = "event_timestamp" if contract.envelope else (contract.order_by or str(contract.event_time))
    parts = [
        F.col(source) if source else F.lit(contract.domain),
        F.lit(contract.name),
        F.concat_ws(",", *entity),
        F.col(what) if what else F.lit("record"),
        F.date_format(moment, "yyyy-MM-dd'T'HH:mm:ss'Z'"),
    ]
    return F.sha2(F.concat_ws("|", *parts), 256)


def without_repeats(events: DataFrame, days: float, pieces: int = 0) -> DataFrame:
    """Each event once, within so many days. Time here is that of reading: an event is never too late to be kept.

    Of copies that are read together the first to arrive stays: whether an event is late must not hang on the size of a batch. So
    the rows of a piece of state are sorted before they are looked up in it; Spark has to be told that it is allowed
    (see `queries.py`), because it knows no reason for sorting a part of a stream.
    """
    if not events.isStreaming:
        return events.dropDuplicates(["_event_key"])
    # To the hour: the moment of a batch would be written into the code Spark generates for it, which then is compiled for every batch.
    hour = F.date_trunc("hour", F.current_timestamp())
    seen = events.withColumn("_seen_at", hour).withWatermark("_seen_at", f"{int(days * 86_400)} seconds")
    in_order = seen.repartition(pieces, "_event_key").sortWithinPartitions("_ingested_at", "_source", "_position")
    return in_order.dropDuplicatesWithinWatermark(["_event_key"]).drop("_seen_at")


def append_events(
    contract: Contract, path: str, late: Mapping[str, LateSql], *, patience: timedelta, app: str, few: int
) -> AppendEvents:
    """What becomes of each micro-batch of a dataset."""
    time, microsecond = str(contract.event_time), timedelta(microseconds=1)
    columns = [*(c.name for c in contract.silver), *(name for name in TRACE if name != "_clock")]
    return AppendEvents(
        path=path, time=time, columns=columns, early=is_early(time), ahead=EARLY // microsecond, late=dict(late),
        patience=patience // microsecond, app=app, few=few,
    )  # fmt: skip
