"""Reads the change events of a database log, as Debezium writes them, into the same `_record` as any other record.

An event holds a row before and after a change, what was done, and where in the log it stood (`_change`). The log position
decides what came first; order of arrival, repetition and replay do not. Rows of other shapes are left to `records.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, MapType, StringType, StructType

from stream_assets.contracts.model import CHANGES, Column, Contract
from stream_assets.sources import records

UNAVAILABLE = "__debezium_unavailable_value"
"""Stands for a large value that an update left as it was, and that the log therefore does not hold."""
UNAVAILABLE_RULE = "completeness__record__unavailable_value"
SNAPSHOT, DELETE, TRUNCATE, TOMBSTONE = "r", "d", "t", "tombstone"
WRITES = ("c", "u", SNAPSHOT)
ALL_KEYS = 0
"""`_key` of a truncation: it concerns every entity."""
LAST = "last"
"""How Debezium marks the event a snapshot ends with, the only one of a single row included."""
PLACE = ("_change.place", "_change.is_stream", "_change.lsn")
"""What came first, for changes of one entity. Records that came as files have no place in the log: they are older."""

_TOPIC_AND_PARTITION = r"^[^/]+/\d+$"
"""`_source` of a message. That of a file has its day in between."""
_IMAGE = MapType(StringType(), StringType())
_SOURCE = (
    StructType()
    .add("lsn", LongType())
    .add("sequence", StringType())
    .add("snapshot", StringType())
    .add("ts_us", LongType())
    .add("ts_ms", LongType())
)
_EVENT = (
    StructType()
    .add("before", _IMAGE)
    .add("after", _IMAGE)
    .add("op", StringType())
    .add("source", _SOURCE)
    .add("ts_us", LongType())
    .add("ts_ms", LongType())
)
_SHAPE = StructType([*_EVENT.fields]).add("payload", _EVENT)
"""With and without the schema that Connect's JSON converter may wrap around."""


def with_record(rows: DataFrame, contract: Contract, headers: Sequence[str | None] = ()) -> DataFrame:
    """Add what `records.with_record` adds; for change logs also `_change`, with large values carried forward."""
    if not contract.is_change_log:
        return records.with_record(rows, contract, headers)
    events, others = _split(rows, contract)
    read = _read(events, contract)
    if others is not None:
        plain = records.with_record(others, contract, headers)
        read = read.unionByName(plain.withColumn("_change", F.lit(None).cast(read.schema["_change"].dataType)))
    return _carry_forward(_placed(read, contract), contract)


def peek(rows: DataFrame, contract: Contract, names: Sequence[str], headers: Sequence[str] = ()) -> DataFrame:
    """Add `_record` with a few columns, as `records.peek`, `_op` and `_ends_snapshot`: for landing, which judges nothing."""
    if not contract.is_change_log:
        return _plainly(records.peek(rows, contract, names, headers))
    events, others = _split(rows, contract)
    parsed = records.once(events, F.struct(F.from_json("_raw", _SHAPE).alias("_read")))
    event = _event(F.col("_read"))
    record = F.struct(*[_value(event, contract.column(name)).alias(name) for name in names])
    read = parsed.select(
        *rows.columns, record.alias("_record"), event["op"].alias("_op"), _ends_snapshot(event).alias("_ends_snapshot")
    )
    return read if others is None else read.unionByName(_plainly(records.peek(others, contract, names, headers)))


def _plainly(peeked: DataFrame) -> DataFrame:
    """Records that are no changes."""
    return peeked.withColumns({"_op": F.lit(None).cast("string"), "_ends_snapshot": F.lit(None).cast("boolean")})


def _ends_snapshot(event: Expr) -> Expr:
    """Whether a snapshot ends with this event: whatever it did not hold was gone. One that was cut off says nothing of the kind."""
    return F.coalesce((event["op"] == SNAPSHOT) & (event["source"]["snapshot"] == LAST), F.lit(False))


def _split(rows: DataFrame, contract: Contract) -> tuple[DataFrame, DataFrame | None]:
    """Change events, and rows that came as files before the log was read, if the contract knows of such."""
    if contract.formats == {CHANGES}:
        return rows, None
    is_event = F.col("_source").rlike(_TOPIC_AND_PARTITION)
    return rows.where(is_event), rows.where(~is_event)


def _read(rows: DataFrame, contract: Contract) -> DataFrame:
    """Each event as `_record`, `_unknown`, `_problem` and `_change`. A tombstone only repeats the delete before it."""
    parsed = records.parse_exactly(rows, _SHAPE)
    event = _event(F.col("_read"))
    is_tombstone = F.coalesce("_raw", F.lit("null")).eqNullSafe("null") & F.col("_raw_bytes").isNull()
    image, names = F.coalesce(event["after"], event["before"]), F.array(*[F.lit(c.source) for c in contract.columns])
    unknown = F.array_except(F.map_keys(image), names)
    is_known = event["op"].isin(*WRITES) & event["after"].isNotNull() & event["source"]["lsn"].isNotNull()
    is_known |= (event["op"] == DELETE) & event["before"].isNotNull() & event["source"]["lsn"].isNotNull()
    is_known |= (event["op"] == TRUNCATE) & event["source"]["lsn"].isNotNull()
    repeats = F.size(F.array_distinct(F.map_keys(image))) < F.size(F.map_keys(image))
    is_sound = F.coalesce(is_known, F.lit(False)) & F.col("_whole")
    problem = records.problem(is_sound, F.coalesce(repeats, F.lit(False)))
    is_sweep = is_sound & ((event["op"] == TRUNCATE) | _ends_snapshot(event))
    return parsed.select(
        *rows.columns,
        F.struct(*[_value(event, column).alias(column.name) for column in contract.record]).alias("_record"),
        F.when(F.size(unknown) > 0, unknown).alias("_unknown"),
        F.when(~is_tombstone, problem).alias("_problem"),
        _change(event, is_tombstone).withField("is_sweep", is_sweep).alias("_change"),
    )


def _event(read: Expr) -> Expr:
    bare = F.struct(*[read[field.name].alias(field.name) for field in _EVENT.fields])
    return F.when(read["payload"].isNotNull(), read["payload"]).otherwise(bare)


def _value(event: Expr, column: Column) -> Expr:
    """A field of the row after the change (before it, if it was deleted), a large one from before if only there."""
    name = F.lit(column.source)
    after, before = (F.try_element_at(event[image], name) for image in ("after", "before"))
    known = F.when((after == UNAVAILABLE) & before.isNotNull(), before).otherwise(after)
    value = F.when(event["after"].isNotNull(), known).otherwise(before)
    # Debezium's ISO dates carry the zone they do not have.
    return F.regexp_replace(value, "Z$", "") if column.type == "date" else value


def _change(event: Expr, is_tombstone: Expr) -> Expr:
    """What was done, when it was committed, when Debezium read it, where in the log it stands, and the commit before it."""
    source = event["source"]
    committed = F.get_json_object(source["sequence"], "$[0]").try_cast("bigint")
    return F.struct(
        F.when(is_tombstone, TOMBSTONE).otherwise(event["op"]).alias("op"),
        _holds(event["op"]).alias("holds"),
        F.timestamp_micros(F.coalesce(source["ts_us"], source["ts_ms"] * 1000)).alias("at"),
        F.coalesce(event["ts_us"], event["ts_ms"] * 1000).alias("read_at"),
        source["lsn"].alias("lsn"),
        committed.alias("committed"),
        (event["op"] != SNAPSHOT).alias("is_stream"),
        (source["sequence"].isNotNull() & committed.isNull()).alias("is_first"),
    )


def _holds(op: Expr) -> Expr:
    """How much of a row an event is sure to hold."""
    return F.when(op.isin(*WRITES), "row").when(op == DELETE, "key").otherwise("nothing")


def _placed(read: DataFrame, contract: Contract) -> DataFrame:
    """Add the place of each change among those of its entity, and the places of the snapshots that hold the entity (`seen`).

    Changes of one row are logged in the order of their commits, for each locks the row. A snapshot stands where it was
    taken, but a transaction that was open then has logged before it and commits after it: such a change comes after the
    last commit before it, or, as the first one streamed, after the snapshot it follows on its topic.
    """
    change, here = F.col("_change"), F.struct("_source", "_position")
    snapshot = F.struct(
        change["lsn"].alias("lsn"), F.col("_source").alias("source"), F.col("_position").alias("position")
    )
    snapshots = F.collect_list(F.when(change["op"] == SNAPSHOT, snapshot)).over(_entity(contract))
    followed = F.filter(
        F.col("_snapshots"), lambda s: (s["source"] == here["_source"]) & (s["position"] < here["_position"])
    )
    after = F.when(change["is_first"], F.array_max(F.transform(followed, lambda s: s["lsn"])))
    place = F.when(change["is_stream"], F.greatest(change["lsn"], change["committed"], after)).otherwise(change["lsn"])
    seen = F.transform("_snapshots", lambda s: s["lsn"])
    placed = F.when(change.isNotNull(), change.withField("place", place).withField("seen", seen))
    return read.withColumn("_snapshots", snapshots).withColumn("_change", placed).drop("_snapshots")


def _carry_forward(read: DataFrame, contract: Contract) -> DataFrame:
    """Fill large values that an update left as they were with the last ones known, whatever order they arrived in."""
    order = (*PLACE, "_delivery_date", "_source", "_position")
    before = _entity(contract).orderBy(*order).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_state = F.col("_problem").isNull() & (F.col("_change").isNull() | F.col("_change.op").isin(*WRITES))

    def carried(column: Column) -> Expr:
        value = F.col("_record")[column.name]
        is_known = is_state & (value.isNull() | (value != UNAVAILABLE))
        last = F.last(F.when(is_known, F.struct(value.alias("value"))), ignorenulls=True).over(before)["value"]
        return F.when(value == UNAVAILABLE, F.coalesce(last, value)).otherwise(value).alias(column.name)

    filled = read.withColumn("_record", F.struct(*[carried(column) for column in contract.record]))
    is_lost = F.array_contains(F.array(*[F.col("_record")[c.name] for c in contract.record]), UNAVAILABLE)
    lost = F.when(is_lost & is_state, F.lit(UNAVAILABLE_RULE))
    return filled.withColumn("_problem", F.coalesce("_problem", lost))


def _entity(contract: Contract) -> WindowSpec:
    return Window.partitionBy(*[F.col("_record")[name] for name in contract.key])
