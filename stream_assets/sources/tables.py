"""Changes of a table without its log: by a column that dates them, or by comparing all rows with those known.

What is found is told as change events, in the same words as a log's, so that Silver reads both alike. The rows of one
look are held in memory: this is for tables that fit there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg import IsolationLevel, sql

from stream_assets.contracts.model import Contract, Server
from stream_assets.errors import ServiceError
from stream_assets.sources.changes import DELETE

OVERLAP_MINUTES = 10
_POSITION = (
    "(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end - '0/0')::bigint"
)


@dataclass(frozen=True)
class TableRow:
    """A row as text that loses nothing: JSON, with decimals as text."""

    key: str
    content: str
    changed_at: datetime | None

    @property
    def digest(self) -> str:
        """Tells whether a row is the same as before."""
        return hashlib.sha256(self.content.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Look:
    """What a table held at one moment, or what of it changed since."""

    position: int
    """Where the database's log ended then: later looks have later ones."""
    at: datetime
    rows: tuple[TableRow, ...]

    @property
    def newest(self) -> datetime | None:
        """The latest date of a change among the rows."""
        return max((row.changed_at for row in self.rows if row.changed_at), default=None)


def look_at(database: psycopg.Connection, contract: Contract, server: Server, since: datetime | None) -> Look:
    """Read the rows that changed since then, less an overlap for transactions that committed late; all, for `full`."""
    database.isolation_level = IsolationLevel.REPEATABLE_READ
    with database.transaction():
        found = database.execute(sql.SQL("select {}, clock_timestamp()").format(sql.SQL(_POSITION))).fetchone()
        cursor = server.options.get("cursor") if server.options.get("pattern") == "timestamp" else None
        rows = database.execute(*_query(database, contract, server, cursor, since)).fetchall()
    position, at = found or (0, datetime.now(UTC))
    return Look(int(position), at, tuple(TableRow(*row) for row in rows))


def _query(
    database: psycopg.Connection, contract: Contract, server: Server, cursor: str | None, since: datetime | None
) -> tuple[sql.Composed, list[object]]:
    schema, table = server.schema or "public", str(server.options.get("table", contract.name))
    columns = database.execute(
        "select column_name, data_type from information_schema.columns where table_schema = %s and table_name = %s "
        "order by ordinal_position",
        [schema, table],
    ).fetchall()
    key = [contract.column(name).source for name in contract.key]
    names = {name for name, _ in columns}
    if not columns or not {*key, *([cursor] if cursor else [])} <= names:
        raise ServiceError(
            f"{schema}.{table} is not there, or lacks the key {key} or the cursor {cursor}: see the contract's server."
        )
    # JSON has no exact decimals that every reader keeps: they go as text.
    exact = [
        sql.SQL("{0}::text as {0}" if kind == "numeric" else "{0}").format(sql.Identifier(name))
        for name, kind in columns
    ]
    dated = sql.SQL("{}::timestamptz").format(sql.Identifier(cursor)) if cursor else sql.SQL("null::timestamptz")
    body = sql.SQL(
        "select json_build_array({key})::text, (select row_to_json(r)::text from (select {exact}) r), {dated} from {table}"
    ).format(
        key=sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in key),
        exact=sql.SQL(", ").join(exact),
        dated=dated,
        table=sql.Identifier(schema, table),
    )
    if cursor is None or since is None:
        return body, []
    overlap = timedelta(minutes=float(server.options.get("overlapMinutes", OVERLAP_MINUTES)))
    return body + sql.SQL(" where {} >= %s").format(sql.Identifier(cursor)), [since - overlap]


def changes_of(
    look: Look, known: Mapping[str, str], key: Sequence[str], *, is_whole: bool
) -> Iterator[tuple[str, str]]:
    """Key and change event of each row that is new or other than known (key → digest); of a whole look also what is gone."""
    for row in look.rows:
        if known.get(row.key) != row.digest:
            mark = {"key": row.key, "digest": row.digest}
            yield row.key, _event("u", "null", row.content, look.position, row.changed_at or look.at, mark)
    for gone in sorted(set(known) - {row.key for row in look.rows}) if is_whole else ():
        image = json.dumps(dict(zip(key, json.loads(gone), strict=True)))
        yield gone, _event(DELETE, image, "null", look.position, look.at, {"key": gone, "digest": None})


def _event(op: str, before: str, after: str, position: int, at: datetime, mark: Mapping[str, str | None]) -> str:
    micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    source = {"connector": "stream", "lsn": position, "ts_us": micros, **mark}
    # Rows are put in as Postgres wrote them: reading and writing them again could change a number.
    return f'{{"before":{before},"after":{after},"op":"{op}","source":{json.dumps(source)}}}'
