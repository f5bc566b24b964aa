"""Lands topics: the messages since the last commit become rows of Bronze, in a commit that also says how far it went.

Rows and positions are one atomic commit, so there is no checkpoint that could be lost or disagree. Each commit names the
place it went on from, and Delta lets only one commit do so: two landings at once, or one repeated after a crash, write
every message once.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from stream_assets.bronze.land import Landing, bronze_table, count_records, counted_bytes, lasting, stamp
from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import Ledger, read_positions, read_whole_ledger, recent_entries
from stream_assets.engine.session import kept
from stream_assets.errors import DeliveryError
from stream_assets.services.addresses import KafkaAddress, kafka
from stream_assets.settings import Settings
from stream_assets.sources.erasures import split_erased
from stream_assets.sources.kafka import Marks, Offsets, Positions, Slice, look_at, next_slice, read_messages, text_of
from stream_assets.sources.topics import consumer_group, ensure_topic, topic_of

RECORDS_PER_FILE = 100_000


@dataclass(frozen=True)
class Follower:
    """A topic, the Bronze table it is landed in, and all that is needed for it."""

    spark: SparkSession
    settings: Settings
    contract: Contract
    address: KafkaAddress
    topic: str
    run_id: str

    @property
    def table(self) -> delta.Table:
        """The Bronze table."""
        return bronze_table(self.settings, self.contract)

    @property
    def delivery(self) -> str:
        """exactly-once, at-least-once or at-most-once."""
        return self.contract.server(self.settings.server).options.get("delivery", "exactly-once")

    def ledger(self, days: Iterable[date] = ()) -> Ledger:
        """What Bronze's commits say."""
        return read_whole_ledger(self.table.path, days) if days else read_positions(self.table.path)

    def marks(self) -> Marks:
        """Which offsets the topic has now."""
        return look_at(self.address, self.topic)

    def read(self, part: Slice) -> DataFrame:
        """The rows of a slice as Bronze holds them."""
        group = consumer_group(self.contract)
        as_text = text_of(self.settings, self.contract.server(self.settings.server).format)
        messages = read_messages(self.spark, self.address, self.topic, part, group=group, as_text=as_text)
        messages, _ = split_erased(messages, self.contract, self.settings)
        stamped = stamp(messages.coalesce(1 + part.size // RECORDS_PER_FILE), self.contract, ())
        return stamped.select(
            "*", F.lit(self.run_id).alias("_run_id"), F.lit(self.contract.version).alias("_contract_version")
        )

    def commit(self, ledger: Ledger, positions: Positions, entries: Mapping[str, Mapping[str, Any]]) -> Commit:
        """The ledger page of a landing."""
        recent = recent_entries(ledger.days, but=entries)
        contract = self.contract
        return Commit(self.run_id, contract.name, "bronze", contract.version, entries, positions.to_page(), recent)


@dataclass(frozen=True)
class Step:
    """What one commit landed."""

    records: int
    days: tuple[date, ...]
    touched: tuple[date, ...]
    """Event days that the records belong to."""


def follower(spark: SparkSession, settings: Settings, contract: Contract, *, run_id: str) -> Follower:
    """Get ready to land a contract's topic: it and the table are there afterwards."""
    server = contract.server(settings.server)
    topic = topic_of(settings, contract, server)
    address = kafka(settings)
    ensure_topic(address, topic)
    made = Follower(spark, settings, contract, address, topic.name, run_id)
    delta.ensure(spark, made.table)
    return made


def catch_up(
    spark: SparkSession, settings: Settings, contract: Contract, days: Sequence[date] = (), *, run_id: str
) -> Landing:
    """Land everything the topic of a contract holds by now."""
    return land_waiting(follower(spark, settings, contract, run_id=run_id), days)


def land_waiting(follow: Follower, days: Sequence[date] = ()) -> Landing:
    """Land everything the topic holds by now, in as many commits as their bound asks for.

    If days are asked for, their rows are counted afterwards. A loop asks for none: it would count the whole day every time.
    """
    history = follow.ledger(days).days
    steps = list(land_until(follow, follow.marks().end))
    landed = tuple(sorted({day for step in steps for day in step.days}))
    known = follow.ledger(days)
    asked = sorted({*days, *landed})
    entries = {d: known.days[d] for d in (day.isoformat() for day in asked) if d in known.days}
    expected = {date.fromisoformat(d): entry["rows_in"] - entry.get("erased", 0) for d, entry in entries.items()}
    positions, marks = Positions.from_page(known.positions), follow.marks()
    return Landing(
        rows=_rows(follow, known, asked) if days else expected,
        expected=expected,
        landed=landed,
        records=sum(step.records for step in steps),
        touched=tuple(sorted({day for step in steps for day in step.touched})),
        entries=entries,
        history=history,
        positions={str(p): n for p, n in positions.offsets.items()} if positions else {},
        lag={
            f"{follow.topic}/{p}": end - (positions.offsets.get(p, 0) if positions else 0)
            for p, end in marks.end.items()
        },
    )


def _rows(follow: Follower, known: Ledger, days: Sequence[date]) -> dict[date, int]:
    """Rows of these days as of what the ledger tells of: another landing may have committed meanwhile."""
    as_of = max((entry["version"] for entry in known.days.values()), default=None)
    counted = count_records(follow.table, days, version=as_of)
    return {day: sum(n for (d, _), n in counted.items() if d == day) for day in days}


def land_until(follow: Follower, until: Offsets) -> Iterable[Step]:
    """Land slice after slice until these offsets are reached, by us or by another."""
    while True:
        ledger, marks = follow.ledger(), follow.marks()
        positions = Positions.from_page(ledger.positions) or marks.start()
        part = next_slice(positions, marks, until=until, limit=follow.settings.live.kafka_max_records)
        if not part.size:
            return
        step = _land(follow, ledger, positions, part)
        if step:
            yield step


def _land(follow: Follower, ledger: Ledger, positions: Positions, part: Slice) -> Step | None:
    """Land one slice in one commit; None if another landing was quicker."""
    after = replace(positions, offsets={**positions.offsets, **part.end})
    with kept(follow.read(part)) as rows:
        groups = count_groups(rows)
        size = delta.Size(sum(row["records"] for row in groups), sum(row["bytes"] for row in groups))
        entries = _entries(ledger.days, groups, part)
        commit = follow.commit(ledger, after, entries)
        if follow.delivery == "at-most-once":
            # Positions first: if we die between the two commits, the slice is skipped rather than read again.
            delta.append_once(
                follow.table, rows.limit(0), commit=follow.commit(ledger, after, {}), token=positions.token
            )
            if not _is_ours(follow, after):
                return None
            delta.append_once(follow.table, rows, commit=commit, token=None, size=size)
        else:
            token = None if follow.delivery == "at-least-once" else positions.token
            delta.append_once(follow.table, rows, commit=commit, token=token, size=size)
            if not _is_ours(follow, after):
                return None
    return Step(
        sum(row["records"] for row in groups),
        tuple(sorted({row["_delivery_date"] for row in groups})),
        tuple(sorted({row["_event_date"] for row in groups})),
    )


def _is_ours(follow: Follower, after: Positions) -> bool:
    """Whether the newest positions are those we meant to write: Delta does not say that it skipped a write."""
    found = follow.ledger()
    return found.run_id == follow.run_id and found.positions == after.to_page()


def count_groups(rows: DataFrame) -> list[Row]:
    """Records by delivery day, event day and partition."""
    return (
        rows.groupBy("_delivery_date", "_event_date", "_source")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.sum(_bytes("_raw") + _bytes("_raw_bytes")).alias("bytes"),
            F.date_format(F.max("_ingested_at"), "yyyy-MM-dd'T'HH:mm:ss.SSSxxx").alias("arrived"),
        )
        .collect()
    )


def _bytes(column: str) -> Expr:
    return F.coalesce(F.octet_length(column), F.lit(0))


def _entries(known: Mapping[str, Mapping[str, Any]], groups: Sequence[Row], part: Slice) -> dict[str, dict[str, Any]]:
    """The ledger entry of each delivery day that got records, the earlier ones of the day included."""
    by_day: dict[str, list[Row]] = defaultdict(list)
    for row in groups:
        by_day[row["_delivery_date"].isoformat()].append(row)
    return {day: _entry(known.get(day, {}), rows, part) for day, rows in by_day.items()}


def _entry(before: Mapping[str, Any], rows: Sequence[Row], part: Slice) -> dict[str, Any]:
    sources = dict(before.get("sources", {}))
    for row in rows:
        sources[row["_source"]] = sources.get(row["_source"], 0) + row["records"]
    arrived = max(row["arrived"] for row in rows)
    return {
        "rows_in": before.get("rows_in", 0) + sum(row["records"] for row in rows),
        **counted_bytes(before, sum(row["bytes"] for row in rows)),
        "arrived": max(arrived, before.get("arrived") or ""),
        "files": fingerprint(before, f"{sorted(part.first.items())}-{sorted(part.end.items())}"),
        "delivered": before.get("delivered", before.get("files")),
        "sources": sources,
        "unreadable": before.get("unreadable", {}),
        "from_topic": True,
        **lasting(before),
    }


def fingerprint(before: Mapping[str, Any], change: str) -> str:
    """What Silver of a day is computed from: another one after every change of the day."""
    text = f"{before.get('files')}+{change}"
    return f"kafka:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def skip_lost(spark: SparkSession, settings: Settings, contract: Contract, *, run_id: str) -> Positions:
    """Go on after what is lost: from the first offset the topic still has. Noted in the ledger as any commit."""
    follow = follower(spark, settings, contract, run_id=run_id)
    ledger, marks = follow.ledger(), follow.marks()
    positions = Positions.from_page(ledger.positions) or marks.start()
    is_same = positions.topic_id == marks.topic_id and positions.topic == marks.topic
    kept = {p: max(positions.offsets.get(p, 0), first) if is_same else first for p, first in marks.first.items()}
    after = Positions(marks.topic, marks.topic_id, kept, positions.generation)
    if after == positions:
        raise DeliveryError(f"{marks.topic} has lost nothing that was not read: there is nothing to skip.")
    nothing = spark.table(follow.table.qualified).limit(0)
    delta.append_once(follow.table, nothing, commit=follow.commit(ledger, after, {}), token=positions.token)
    return after
