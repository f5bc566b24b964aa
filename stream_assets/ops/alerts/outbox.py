"""The durable part of alerts: open incidents, alerts to be sent, and the state of each channel, in one SQLite file.

Incidents and the alerts about them change in one transaction, so a kill at any point loses none and repeats none. What was
sent is noted after the channel took it: a kill in between sends it again, under the same id.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from stream_assets.ops.alerts.incidents import Condition, Incident, Notice, advance
from stream_assets.ops.alerts.message import Alert
from stream_assets.ops.alerts.routing import channels_for, held_until
from stream_assets.settings import AlertSettings

KEEP = timedelta(days=90)
"""How long alerts are remembered. One that no channel took for so long is of no use to anybody."""

_SCHEMA = """
create table if not exists incidents (key text primary key, incident text not null);
create table if not exists alerts (
    number integer primary key autoincrement, id text not null unique, incident text not null,
    alert text not null, created_at text not null, not_before text);
create table if not exists deliveries (
    number integer not null references alerts on delete cascade, channel text not null, sent_at text,
    primary key (number, channel));
create index if not exists waiting on deliveries (channel, number) where sent_at is null;
create table if not exists channels (name text primary key, failures integer not null, retry_at text, problem text);
"""


@dataclass(frozen=True)
class Health:
    """How a channel fares: failures in a row, when it is tried again, and what was wrong last."""

    failures: int = 0
    retry_at: datetime | None = None
    problem: str = ""


class Outbox:
    """Incidents and alerts of one STREAM_HOME. Any number of processes may use it."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "alerts"
        self._file = self.folder / "outbox.db"

    def record(
        self, conditions: Iterable[Condition], settings: AlertSettings, *, channels: Iterable[str], now: datetime
    ) -> list[Alert]:
        """Compare with the conditions that hold now; keep what is open and what is to be told, all or nothing."""
        remind_after = timedelta(hours=settings.remind_hours) or None
        configured = tuple(channels)
        with self._transaction() as db:
            after, notices = advance(_incidents(db), conditions, now=now, remind_after=remind_after)
            db.execute("delete from incidents")
            db.executemany("insert into incidents values (?, ?)", [(key, _write(one)) for key, one in after.items()])
            alerts = [_enqueue(db, notice, settings, configured) for notice in notices]
            db.execute("delete from alerts where created_at < ?", (_moment(now - KEEP),))
        return alerts

    def incidents(self) -> dict[str, Incident]:
        """What is open, by key."""
        if not self._file.exists():
            return {}
        with self._transaction() as db:
            return _incidents(db)

    def close(self, key: str) -> bool:
        """Forget an incident without telling anybody; False if there is none."""
        with self._transaction() as db:
            return db.execute("delete from incidents where key = ?", (key,)).rowcount > 0

    def waiting(self, channel: str, now: datetime) -> list[Alert]:
        """Alerts a channel has not got yet and that are not held back, the oldest first."""
        query = """select alert from deliveries join alerts using (number)
            where channel = ? and sent_at is null and (not_before is null or not_before <= ?) order by number"""
        with self._transaction() as db:
            return [_read_alert(text) for (text,) in db.execute(query, (channel, _moment(now)))]

    def mark_sent(self, alert: Alert, channel: str, now: datetime) -> None:
        """A channel took an alert; whatever was wrong with the channel is over."""
        query = (
            "update deliveries set sent_at = ? where channel = ? and number = (select number from alerts where id = ?)"
        )
        with self._transaction() as db:
            db.execute(query, (_moment(now), channel, alert.id))
            db.execute("delete from channels where name = ?", (channel,))

    def mark_failed(self, channel: str, health: Health) -> None:
        """A channel did not take an alert."""
        retry_at = _moment(health.retry_at) if health.retry_at else None
        with self._transaction() as db:
            db.execute(
                "insert or replace into channels values (?, ?, ?, ?)",
                (channel, health.failures, retry_at, health.problem),
            )

    def health(self, channel: str) -> Health:
        """How a channel fares."""
        query = "select failures, retry_at, problem from channels where name = ?"
        with self._transaction() as db:
            row = db.execute(query, (channel,)).fetchone()
        return Health(row[0], datetime.fromisoformat(row[1]) if row[1] else None, row[2]) if row else Health()

    def backlog(self) -> dict[str, int]:
        """Alerts not sent yet, held back or not, by channel."""
        query = "select channel, count(*) from deliveries where sent_at is null group by channel"
        with self._transaction() as db:
            return dict(db.execute(query).fetchall())

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One writer at a time, from the first read on; the others wait for their turn."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._file, timeout=30, isolation_level=None)) as db:
            db.execute("pragma foreign_keys = on")
            db.execute("begin immediate")
            try:
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    db.execute(statement)
                yield db
            except BaseException:
                db.execute("rollback")
                raise
            db.execute("commit")


def _incidents(db: sqlite3.Connection) -> dict[str, Incident]:
    return {key: _read_incident(text) for key, text in db.execute("select key, incident from incidents order by rowid")}


def _enqueue(db: sqlite3.Connection, notice: Notice, settings: AlertSettings, configured: tuple[str, ...]) -> Alert:
    """Put an alert in line for its channels. Held-back news of the same incident is replaced by news that is not."""
    alert, about = Alert.of(notice), notice.condition
    not_before = held_until(about, settings.quiet_hours, notice.at)
    if not_before is None:
        db.execute("delete from alerts where incident = ? and not_before > ?", (about.key, _moment(notice.at)))
    row = (alert.id, about.key, _write(alert), _moment(notice.at), _moment(not_before) if not_before else None)
    number = db.execute(
        "insert into alerts (id, incident, alert, created_at, not_before) values (?, ?, ?, ?, ?)", row
    ).lastrowid
    channels = channels_for(about, settings.routes, configured)
    db.executemany("insert into deliveries values (?, ?, null)", [(number, channel) for channel in channels])
    return alert


def _moment(at: datetime) -> str:
    """Moments that sort as text."""
    return at.isoformat(timespec="microseconds")


def _write(value: Incident | Alert) -> str:
    return json.dumps(asdict(value), default=_moment)


def _read_incident(text: str) -> Incident:
    return Incident(**_read(text, "opened_at", "told_at"))


def _read_alert(text: str) -> Alert:
    return Alert(**_read(text, "opened_at", "at"))


def _read(text: str, *moments: str) -> dict[str, Any]:
    fields = json.loads(text)
    about = fields["condition"]
    lists = {name: tuple(value) for name, value in about.items() if isinstance(value, list)}
    condition = Condition(**about | lists)
    return fields | {"condition": condition} | {name: datetime.fromisoformat(fields[name]) for name in moments}
