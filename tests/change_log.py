"""A small Postgres that never was: transactions that interleave, commit and are logged, and what its tables really held.

It writes the change events Debezium would, and keeps the truth beside them: the state of each row after each commit.
Nothing of the product is used, so that both can only agree by being right.
"""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

START = datetime(2025, 3, 1, 12, tzinfo=UTC)
UNAVAILABLE = "__debezium_unavailable_value"
Row = dict[str, Any]


@dataclass(frozen=True)
class Version:
    """A state of a row, as the oracle keeps it."""

    key: str
    amount: str
    note: str | None
    valid_from: datetime
    valid_to: datetime | None


@dataclass
class _Transaction:
    number: int
    changes: list[tuple[int, str, str, Row | None, Row | None, Row | None]] = field(default_factory=list)
    """(lsn, op, key, before, after, after as logged)."""


class Database:
    """One table of rows {id, amount, note}: `note` is large, so updates that leave it alone do not log it."""

    def __init__(self, random: Random, *, keys: int = 30, transactions: int = 120, wrapped: bool = False) -> None:
        self.random, self.wrapped = random, wrapped
        self.keys = [f"k{n}" for n in range(keys)]
        self.lsn, self.clock, self.last_commit = 1000, START, None
        self.committed: dict[str, Row] = {}
        self.reader = 0
        self.events: list[tuple[int, str | None]] = []
        """The topic: partition and value of each event, null for tombstones."""
        self.history: list[tuple[datetime, dict[str, Row | None]]] = []
        """What each commit left of the rows it touched (None: no such row), in the order of commits."""
        self._open: list[_Transaction] = []
        self._run(transactions)

    def _run(self, transactions: int) -> None:
        for _ in range(transactions // 4):
            self._step(is_captured=False)
        while self.random.random() < 0.5:  # the reader dies, and what happens until it begins anew is nowhere
            self._snapshot(is_cut_off=True)
            for _ in range(transactions // 8):
                self._step(is_captured=False)
        self._snapshot()
        for _ in range(transactions):
            self._step(is_captured=True)
            if self.random.random() < 0.01:
                self._truncate()
            elif self.random.random() < 0.02:  # it forgot how far it was
                self._snapshot(is_cut_off=self.random.random() < 0.5)
                self._snapshot()
        while self._open:
            self._commit(is_captured=True)

    def _step(self, *, is_captured: bool) -> None:
        if len(self._open) < 3 and self.random.random() < 0.6:
            self._open.append(_Transaction(len(self.history) + self.lsn))
        for transaction in self.random.sample(self._open, k=len(self._open)):
            for _ in range(self.random.randint(0, 3)):
                self._change(transaction)
        if self._open and self.random.random() < 0.6:
            self._commit(is_captured=is_captured)

    def _change(self, transaction: _Transaction) -> None:
        locked = {key for other in self._open if other is not transaction for _, _, key, *_ in other.changes}
        free = [key for key in self.keys if key not in locked]
        if not free:
            return
        key = self.random.choice(free)
        row = self._seen(transaction, key)
        if row is None:
            self._log(transaction, "c", key, None, self._new(key))
        elif (choice := self.random.random()) < 0.2:
            self._log(transaction, "d", key, row, None)
        elif choice < 0.35 and (other := self.random.choice(free)) != key and self._seen(transaction, other) is None:
            moved = row | {"id": other}
            self._log(transaction, "d", key, row, None)
            self._log(transaction, "c", other, None, moved, advance=0)
        else:
            keeps_note = self.random.random() < 0.6
            changed = self._new(key) | ({"note": row["note"]} if keeps_note else {})
            hidden = {"note": UNAVAILABLE} if keeps_note and row["note"] is not None else {}
            self._log(transaction, "u", key, row, changed, logged=changed | hidden)

    def _new(self, key: str) -> Row:
        note = self.random.choice([None, f"note {self.random.random()}" * 3])
        return {"id": key, "amount": f"{self.random.randint(0, 99999) / 100:.2f}", "note": note}

    def _seen(self, transaction: _Transaction, key: str) -> Row | None:
        own = [change for change in transaction.changes if change[2] == key]
        return own[-1][4] if own else self.committed.get(key)

    def _log(
        self,
        transaction: _Transaction,
        op: str,
        key: str,
        before: Row | None,
        after: Row | None,
        *,
        logged: Row | None = None,
        advance: int = 8,
    ) -> None:
        self.lsn += advance
        transaction.changes.append((self.lsn, op, key, before, after, logged or after))

    def _commit(self, *, is_captured: bool) -> None:
        transaction = self._open.pop(self.random.randrange(len(self._open)))
        self.lsn += 8
        at = self._now()
        for lsn, op, key, before, after, logged in transaction.changes:
            if after is None:
                self.committed.pop(key, None)
            else:
                self.committed[key] = after
            if is_captured:
                # The old row is logged whole, by its key alone, or not at all, as the table's replica identity says.
                old = before if op == "d" and self.random.random() < 0.5 else {"id": key, "amount": None, "note": None}
                self._emit(op, old if op == "d" else None, logged, lsn, at, transaction.number)
                if op == "d":
                    self.events.append((self._partition(key), None))
        if is_captured and transaction.changes:
            self.history.append((at, {key: self.committed.get(key) for _, _, key, *_ in transaction.changes}))
        self.last_commit = self.lsn if is_captured else self.last_commit

    def _now(self) -> datetime:
        """Clocks repeat themselves and step back a little."""
        self.clock += timedelta(microseconds=self.random.choice([0, 1, 700, 40_000]))
        return self.clock - timedelta(microseconds=self.random.choice([0, 0, 0, 300]))

    def _snapshot(self, *, is_cut_off: bool = False) -> None:
        """What is there now, as if nothing had been read before. One that is cut off says nothing of what it did not reach."""
        self.lsn += 8
        self.clock += timedelta(seconds=1)
        rows = self.random.sample(sorted(self.committed.items()), k=len(self.committed))
        read = rows[: self.random.randint(0, len(rows) - 1)] if is_cut_off and rows else rows
        marks = {0: "first", len(rows) - 1: "last"}
        for number, (_, row) in enumerate(read):
            self._emit("r", None, row, self.lsn, self.clock, None, mark=marks.get(number, "true"))
        # An empty table says nothing at all.
        gone = dict.fromkeys(self.keys) if rows and read == rows else {}
        self.history.append((self.clock, gone | dict(read)))
        self.last_commit = None
        self.clock += timedelta(seconds=1)

    def _truncate(self) -> None:
        while self._open:  # it waits for every lock
            self._commit(is_captured=True)
        self.lsn += 8
        self.clock += timedelta(seconds=1)
        self._emit("t", None, None, self.lsn, self.clock, None)
        self.history.append((self.clock, dict.fromkeys(self.keys)))
        self.committed = {}
        self.lsn += 8
        self.last_commit = self.lsn
        self.clock += timedelta(seconds=1)

    def _partition(self, key: str) -> int:
        return int(key[1:]) % 3

    def _emit(
        self,
        op: str,
        before: Row | None,
        after: Row | None,
        lsn: int,
        at: datetime,
        number: int | None,
        *,
        mark: str = "false",
    ) -> None:
        micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        committed = None if op == "r" else self.last_commit
        source = {
            "version": "3.4.3.Final",
            "connector": "postgresql",
            "ts_ms": micros // 1000,
            "ts_us": micros,
            "snapshot": mark,
            "sequence": json.dumps([committed and str(committed), str(lsn)]),
            "txId": number,
            "lsn": lsn,
        }
        self.reader += 1
        event = {"before": before, "after": after, "source": source, "op": op, "ts_us": self.reader}
        row = after or before
        value = json.dumps({"schema": {"type": "struct"}, "payload": event} if self.wrapped else event)
        self.events.append((self._partition(row["id"]) if row else 0, value))

    def versions(self) -> list[Version]:
        """The history the table really had, from its commits."""
        found: list[Version] = []
        for key in self.keys:
            states: list[tuple[datetime, Row | None]] = []
            for at, rows in self.history:
                if key in rows:
                    moment = max([at, *(m for m, _ in states[-1:])])
                    states = [s for s in states if s[0] < moment] + [(moment, rows[key])]
            ends = [moment for moment, _ in states[1:]] + [None]
            for (moment, row), end in zip(states, ends, strict=True):
                if row is not None:
                    _add(found, Version(key, row["amount"], row["note"], moment, end))
        return found


def _add(found: list[Version], version: Version) -> None:
    """What goes on unchanged is one version."""
    last = found[-1] if found else None
    if last and (last.key, last.amount, last.note, last.valid_to) == (
        version.key,
        version.amount,
        version.note,
        version.valid_from,
    ):
        found[-1] = replace(last, valid_to=version.valid_to)
    else:
        found.append(version)
