"""Turns a view into a DataFrame, from events that stream or that lie still: the same text serves both.

Lateness is decided from `_clock`, the newest event time that had arrived before an event (see `events.py`), not by the batch
it happens to be processed in. So a view is a function of the log alone: any batch size, restart or rebuild gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import reduce
from operator import and_

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.streaming.model import Partner, View

Read = Callable[[str], DataFrame]
"""The events of a dataset, by its name."""


def compute(view: View, contracts: Mapping[str, Contract], read: Read, looked_up: DataFrame | None) -> DataFrame:
    """The rows of a view. `looked_up` is the table of its lookup, if it has one."""
    time = str(contracts[view.source].event_time)
    if view.partner:
        return _joined(view, view.partner, contracts, read)
    rows = _filtered(read(view.source), view.where)
    if view.kind == "transform":
        rows = _look_up(rows, view, time, looked_up)
        return rows.select(*[F.expr(sql).alias(name) for name, sql in view.select.items()], "_event_key")
    rows = _look_up(_watermarked(rows, time, view.watermark), view, time, looked_up)
    return _sessions(rows, view, time) if view.kind == "session" else _windows(rows, view, time)


def _windows(rows: DataFrame, view: View, time: str) -> DataFrame:
    """One row per window and group, or per broken rule of a pattern. An event misses the windows that closed before it came."""
    size, step = _interval(view.window.size), _interval(view.window.step)
    placed = rows.withColumn("_window", F.window(time, size, step))
    open_yet = placed.where(F.col("_window.end") > _watermark(view.watermark))
    grouped = open_yet.groupBy("_window", *view.group_by).agg(*_measures(view))
    shaped = grouped.select(*_bounds("_window"), *view.group_by, *view.measures)
    if not view.rules:
        return shaped
    broken = F.array_compact(F.array(*[F.when(F.expr(sql), F.lit(name)) for name, sql in view.rules.items()]))
    return shaped.select(F.explode(broken).alias("rule"), "*")


def _sessions(rows: DataFrame, view: View, time: str) -> DataFrame:
    on_time = rows.where(F.col(time) > _watermark(view.watermark))
    session = F.session_window(time, _interval(view.window.gap)).alias("_window")
    grouped = on_time.groupBy(session, *view.group_by).agg(*_measures(view))
    return grouped.select(*_bounds("_window"), *view.group_by, *view.measures)


def _joined(view: View, partner: Partner, contracts: Mapping[str, Contract], read: Read) -> DataFrame:
    """Pairs of events within an interval. Both sides wait for late ones, and forget what can no longer find a partner."""
    sides = []
    for dataset in view.sources:
        where, delay = view.side(dataset)
        time = str(contracts[dataset].event_time)
        rows = _watermarked(_filtered(read(dataset), where), time, delay)
        sides.append(rows.where(F.col(time) > _watermark(delay)).alias(dataset))
    left, right = (f"{name}.{contracts[name].event_time}" for name in view.sources)
    apart = F.expr(
        f"{right} >= {left} - interval {_interval(partner.before)} and {right} <= {left} + interval {_interval(partner.after)}"
    )
    same = [F.expr(f"{view.source}.{name} = {partner.source}.{name}") for name in partner.by]
    how = "left_outer" if partner.keep_unmatched else "inner"
    pairs = sides[0].join(sides[1], reduce(and_, same, apart), how)
    return pairs.select(*[F.expr(sql).alias(name) for name, sql in view.select.items()])


def _look_up(rows: DataFrame, view: View, time: str, table: DataFrame | None) -> DataFrame:
    if view.lookup is None or table is None:
        return rows
    lookup, span = view.lookup, ("valid_from", "valid_to") if view.lookup.as_of else ()
    found = table.select(
        *[F.col(name).alias(f"_its_{name}") for name in (*lookup.by, *span)],
        *[F.col(column).alias(name) for name, column in lookup.columns.items()],
    )
    conditions = [F.col(name) == F.col(f"_its_{name}") for name in lookup.by]
    if lookup.as_of:
        conditions.append(F.col(time) >= F.col("_its_valid_from"))
        conditions.append(F.col("_its_valid_to").isNull() | (F.col(time) < F.col("_its_valid_to")))
    kept = [*rows.columns, *lookup.columns]
    return rows.join(found, reduce(and_, conditions), "left").select(*kept)


def _filtered(rows: DataFrame, where: str | None) -> DataFrame:
    return rows.where(where) if where else rows


def _watermarked(rows: DataFrame, time: str, delay: timedelta) -> DataFrame:
    """Lets Spark forget old state. Spark's watermark moves batch by batch, so it is never ahead of an event's own."""
    return rows.withWatermark(time, _interval(delay)) if rows.isStreaming else rows


def _watermark(delay: timedelta) -> Expr:
    """How far time had moved on when an event came; before the first event, not at all."""
    beginning = F.lit("1970-01-01").cast("timestamp")
    return F.coalesce(F.col("_clock"), beginning) - F.expr(f"interval {_interval(delay)}")


def _measures(view: View) -> list[Expr]:
    return [F.expr(sql).alias(name) for name, sql in view.measures.items()]


def _bounds(window: str) -> list[Expr]:
    return [F.col(f"{window}.start").alias("window_start"), F.col(f"{window}.end").alias("window_end")]


def _interval(span: timedelta | None) -> str:
    return f"{int((span or timedelta()).total_seconds())} seconds"
