"""What a Postgres says of a captured table: whether its log will hold enough, and how far behind the reader of it is.

Nothing is changed here but what a person asked for by name (`set_full_rows`, `drop_capture`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from stream_assets.errors import AwayError, ServiceError
from stream_assets.sources.debezium import Capture

CONNECT_TIMEOUT_S = 5
IDENTITIES = {"d": "default", "n": "nothing", "f": "full", "i": "index"}


@dataclass(frozen=True)
class Slot:
    """A replication slot: the database keeps its log from there on."""

    is_active: bool
    """Whether somebody reads it."""
    retained_bytes: int
    """Log kept for it."""
    is_lost: bool
    """Whether the log it needs is gone: nothing can be read from it again."""


@contextmanager
def connection(dsn: str) -> Iterator[psycopg.Connection]:
    """A connection that commits each statement. Errors tell no address: it may hold a password."""
    try:
        opened = psycopg.connect(dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S)
    except psycopg.OperationalError as error:
        reason = str(error).strip().splitlines()[-1].rpartition(": ")[2]
        raise AwayError(
            f"Postgres cannot be reached ({reason}). Start ours with `stream services up`, or correct STREAM_POSTGRES_DSN."
        ) from None
    with opened:
        yield opened


def verify_table(database: psycopg.Connection, capture: Capture) -> None:
    """Refuse a table whose log cannot be followed, with the statement that would change it."""
    level = database.execute("show wal_level").fetchone()
    if level != ("logical",):
        raise ServiceError(
            f"Postgres runs with wal_level={level and level[0]}. Run `alter system set wal_level = logical` and restart it."
        )
    found = database.execute(
        "select c.relreplident, exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary) "
        "from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relname = %s",
        [capture.schema, capture.table],
    ).fetchone()
    name = f"{capture.schema}.{capture.table}"
    if found is None:
        raise ServiceError(f"Postgres has no table {name}. Correct schema or table of the contract's server.")
    identity, has_key = IDENTITIES[found[0]], found[1]
    if capture.needs_full_rows and identity != "full":
        raise ServiceError(
            f"{name} has REPLICA IDENTITY {identity.upper()}: the log will not hold rows as they were before a change. Run "
            f"`{full_rows_statement(capture)}` on it, or `stream cdc up {capture.dataset} --fix`, or let the contract's server say "
            "replicaIdentity: any."
        )
    if identity == "nothing" or (identity == "default" and not has_key):
        raise ServiceError(
            f"{name} has no primary key to tell its rows apart: deletes could not be followed. Give it one, or run "
            f"`{full_rows_statement(capture)}`."
        )


def full_rows_statement(capture: Capture) -> str:
    """What makes the log hold whole rows."""
    return f'alter table "{capture.schema}"."{capture.table}" replica identity full'


def set_full_rows(database: psycopg.Connection, capture: Capture) -> None:
    """Make the log hold whole rows."""
    table = sql.Identifier(capture.schema, capture.table)
    database.execute(sql.SQL("alter table {} replica identity full").format(table))


def slot_of(database: psycopg.Connection, capture: Capture) -> Slot | None:
    """The slot of a capture, if it is there."""
    found = database.execute(
        "select active, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint, "
        "coalesce(wal_status = 'lost', false) from pg_replication_slots where slot_name = %s",
        [capture.slot],
    ).fetchone()
    return Slot(*found) if found else None


def log_position(database: psycopg.Connection) -> int:
    """Where the log ends by now."""
    found = database.execute("select (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
    return int(found[0]) if found else 0


def drop_capture(database: psycopg.Connection, capture: Capture) -> None:
    """Drop the slot and the publication: the database stops keeping log for us."""
    database.execute(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s", [capture.slot]
    )
    database.execute(sql.SQL("drop publication if exists {}").format(sql.Identifier(capture.slot)))


def apply(
    database: psycopg.Connection, changes: Iterable[tuple[str, Mapping[str, Any]]], *, rate: float | None = None
) -> int:
    """Run statements one by one, each its own transaction, at most `rate` a second. Returns how many."""
    started, done = time.monotonic(), 0
    for done, (statement, values) in enumerate(changes, start=1):
        database.execute(statement, values)  # pyright: ignore[reportArgumentType] written by us, values apart
        if rate:
            time.sleep(max(0.0, started + done / rate - time.monotonic()))
    return done
