"""Lands what a table's rows tell of its changes, where its log is out of reach. Rows and how far they go are one commit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_assets.bronze.land import Landing, bronze_table, count_records, counted_bytes, lasting, stamp
from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import Ledger, read_positions, recent_entries
from stream_assets.services.addresses import postgres_dsn
from stream_assets.settings import Settings
from stream_assets.sources import postgres
from stream_assets.sources.erasures import names_erased, read_tombstones
from stream_assets.sources.tables import Look, changes_of, look_at

RECEIVED = (
    "_raw string, _raw_bytes binary, _decoding string, _header string, _source string, _position bigint, "
    "_delivery_date date, _ingested_at timestamp, _message_key binary, _message_headers array<struct<key:string,value:binary>>"
)


def look_up(
    spark: SparkSession, settings: Settings, contract: Contract, days: Sequence[date] = (), *, run_id: str
) -> Landing:
    """Look at the table once, and land what changed since the last look, on today's delivery day."""
    table, server = bronze_table(settings, contract), contract.server(settings.server)
    delta.ensure(spark, table)
    ledger = read_positions(table.path)
    before = ledger.positions if "table" in ledger.positions else {}
    is_whole = server.options.get("pattern") == "full"
    with postgres.connection(postgres_dsn(settings)) as database:
        since = datetime.fromisoformat(before["since"]) if before.get("since") else None
        look = look_at(database, contract, server, since)
    known = _known(spark, table, look.at, is_whole=is_whole)
    key = [contract.column(name).source for name in contract.key]
    if gone := read_tombstones(settings):
        look, known = _without(look, known, key, lambda row: names_erased(row, contract, gone, settings))
    found = list(changes_of(look, known, key, is_whole=is_whole))
    today = look.at.astimezone(UTC).date()
    if found or look.newest != since:
        first, looks = int(before.get("rows", 0)), int(before.get("looks", 0))
        positions = {
            "table": contract.name,
            "since": _text(look.newest or since),
            "rows": first + len(found),
            "looks": looks + 1,
        }
        entry = _entry(ledger.days.get(today.isoformat(), {}), look, found)
        page = {today.isoformat(): entry} if found else {}
        commit = Commit(
            run_id, contract.name, "bronze", contract.version, page, positions, recent_entries(ledger.days, but=page)
        )
        rows = _rows(spark, contract, run_id, look, found, first)
        # Of two looks that go on from one, one is written.
        size = delta.Size(len(found), _bytes(found))
        delta.append_once(table, rows, commit=commit, token=(f"table:{contract.name}", looks), size=size)
    return _landing(table, ledger, sorted({*days, *([today] if found else [])}), bool(found) and today)


def _without(
    look: Look, known: Mapping[str, str], key: Sequence[str], is_erased: Callable[[Mapping[str, Any]], bool]
) -> tuple[Look, Mapping[str, str]]:
    """As if people who were erased had never been in the table, nor in Bronze."""
    rows = tuple(row for row in look.rows if not is_erased(json.loads(row.content)))
    kept = {k: v for k, v in known.items() if not is_erased(dict(zip(key, json.loads(k), strict=True)))}
    return replace(look, rows=rows), kept


def _known(spark: SparkSession, table: delta.Table, at: datetime, *, is_whole: bool) -> dict[str, str]:
    """Digest of each row by key, as Bronze last saw it: all rows, or those lately read, which an overlap reads again."""
    bronze = spark.table(table.qualified).where('_raw like \'%"connector": "stream"%\'')
    if not is_whole:
        bronze = bronze.where(F.col("_delivery_date") >= F.lit(at.date() - timedelta(days=1)))
    place, digest = F.get_json_object("_raw", "$.source.key"), F.get_json_object("_raw", "$.source.digest")
    last = bronze.groupBy(place.alias("key")).agg(F.max_by(digest, "_position").alias("digest"))
    return {row["key"]: row["digest"] for row in last.collect() if row["digest"]}


def _rows(
    spark: SparkSession, contract: Contract, run_id: str, look: Look, found: Sequence[tuple[str, str]], first: int
) -> DataFrame:
    """Events as Bronze rows, numbered on from the last look."""
    source, day = f"{contract.name}/0", look.at.astimezone(UTC).date()
    received = [
        (event, None, None, None, source, first + number, day, look.at, key.encode(), None)
        for number, (key, event) in enumerate(found)
    ]
    stamped = stamp(spark.createDataFrame(received, RECEIVED), contract, ())
    return stamped.select("*", F.lit(run_id).alias("_run_id"), F.lit(contract.version).alias("_contract_version"))


def _entry(before: Mapping[str, Any], look: Look, found: Sequence[tuple[str, str]]) -> dict[str, Any]:
    text = f"{before.get('files')}+{look.position}+{len(found)}+{look.at.isoformat()}"
    return {
        "rows_in": before.get("rows_in", 0) + len(found),
        **counted_bytes(before, _bytes(found)),
        "arrived": look.at.isoformat(),
        "files": f"table:{hashlib.sha256(text.encode()).hexdigest()[:16]}",
        "sources": {},
        "unreadable": {},
        "from_topic": True,
        **lasting(before),
    }


def _bytes(found: Sequence[tuple[str, str]]) -> int:
    return sum(len(event.encode()) for _, event in found)


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _landing(table: delta.Table, before: Ledger, days: Sequence[date], landed: date | bool) -> Landing:
    known, counts = read_positions(table.path), count_records(table, days)
    entries = {d: known.days[d] for d in (day.isoformat() for day in days) if d in known.days}
    written = (landed,) if isinstance(landed, date) else ()
    return Landing(
        rows={day: sum(n for (d, _), n in counts.items() if d == day) for day in days},
        expected={date.fromisoformat(d): entry["rows_in"] for d, entry in entries.items()},
        landed=written,
        touched=written,
        entries=entries,
        history=before.days,
    )
