"""Replays a topic into Bronze: a range of offsets that was landed before is read again and replaces exactly those rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from stream_assets.bronze.follow import Follower, Step, count_groups, fingerprint, follower
from stream_assets.bronze.land import counted_bytes
from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.engine.log import Ledger
from stream_assets.engine.session import kept
from stream_assets.errors import DeliveryError
from stream_assets.settings import Settings
from stream_assets.sources.kafka import Offsets, Positions, Slice, offsets_at, require_kept, require_same_topic


def replay(
    spark: SparkSession, settings: Settings, contract: Contract, start: Offsets | datetime, *, run_id: str
) -> Step:
    """Land again what was landed from these offsets, or since this moment, in one commit.

    Messages that were not landed yet are left to the next landing. Silver and Gold of the touched days are stale afterwards
    and are rebuilt by the next run.
    """
    follow = follower(spark, settings, contract, run_id=run_id)
    ledger, marks = follow.ledger(), follow.marks()
    positions = Positions.from_page(ledger.positions)
    if positions is None:
        raise DeliveryError(f"{follow.topic} was never landed: there is nothing to replay. Run `stream run`.")
    require_same_topic(positions, marks)
    first = offsets_at(follow.address, marks, start) if isinstance(start, datetime) else start
    if strange := set(first) - set(positions.offsets):
        raise DeliveryError(f"{follow.topic} has no partition {min(strange)}.")
    part = _slice(first, positions)
    require_kept(marks, part.first)
    return _replace(follow, ledger, positions, part)


def _slice(first: Offsets, positions: Positions) -> Slice:
    """What was landed from these offsets on."""
    wanted = {p: offset for p, offset in first.items() if offset < positions.offsets[p]}
    return Slice(wanted, {p: positions.offsets[p] for p in wanted})


def _replace(follow: Follower, ledger: Ledger, positions: Positions, part: Slice) -> Step:
    if not part.size:
        return Step(0, (), ())
    with kept(follow.read(part)) as rows:
        held = count_groups(_held(follow, part))
        found = count_groups(rows)
        entries = _entries(ledger.days, held, found, follow.run_id)
        after = replace(positions, generation=positions.generation + 1)
        commit = follow.commit(ledger, after, entries)
        delta.replace_where(follow.table, rows, where=_where(follow.topic, part), commit=commit, token=positions.token)
    if follow.ledger().positions != after.to_page():
        raise DeliveryError(f"{follow.topic} was landed at the same moment, so nothing was replayed. Try again.")
    both = [*held, *found]
    return Step(
        sum(row["records"] for row in found),
        tuple(sorted({row["_delivery_date"] for row in both})),
        tuple(sorted({row["_event_date"] for row in both})),
    )


def _held(follow: Follower, part: Slice) -> DataFrame:
    return follow.spark.table(follow.table.qualified).where(_where(follow.topic, part))


def _where(topic: str, part: Slice) -> str:
    """Exactly these messages. Topic names hold no quotes."""
    return " or ".join(
        f"(_source = '{topic}/{p}' and _position >= {part.first[p]} and _position < {end})"
        for p, end in part.end.items()
    )


def _entries(
    known: Mapping[str, Mapping[str, Any]], held: Sequence[Row], found: Sequence[Row], run_id: str
) -> dict[str, dict[str, Any]]:
    """The entries of the touched days: less what was held, more what was found."""
    change: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    size: dict[str, int] = defaultdict(int)
    for rows, sign in ((held, -1), (found, 1)):
        for row in rows:
            day = row["_delivery_date"].isoformat()
            change[day][row["_source"]] += sign * row["records"]
            size[day] += sign * row["bytes"]
    return {day: _entry(known.get(day, {}), sources, size[day], run_id) for day, sources in change.items()}


def _entry(before: Mapping[str, Any], change: Mapping[str, int], size: int, run_id: str) -> dict[str, Any]:
    sources = {s: before.get("sources", {}).get(s, 0) + change.get(s, 0) for s in {*before.get("sources", {}), *change}}
    kept = {name: value for name, value in before.items() if name not in ("run_id", "version")}
    return kept | {
        "rows_in": before.get("rows_in", 0) + sum(change.values()),
        **counted_bytes(before, size),
        "sources": {source: n for source, n in sources.items() if n},
        "files": fingerprint(before, f"replay {run_id}"),
        "from_topic": True,
    }


def parse_start(text: str) -> tuple[int, int]:
    """`2:1500` as partition and offset."""
    partition, _, offset = text.partition(":")
    if not (partition.isdigit() and offset.isdigit()):
        raise DeliveryError(f"{text!r} is no place in a topic: write partition:offset, such as 2:1500.")
    return int(partition), int(offset)
