"""Keeps streams alive: starts each, looks after it, starts it again when it fails, and ends all of them when asked to.

One supervisor per STREAM_HOME. It holds no data: everything a stream knows is in its checkpoint and its table, so killing
the supervisor, a query or the engine at any moment costs time and nothing else.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import grpc
from deltalake.exceptions import DeltaError
from filelock import Timeout
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stream_assets.engine.failures import is_gone
from stream_assets.engine.server import connect
from stream_assets.engine.session import give_up_early, open_session, use_token
from stream_assets.errors import StreamError
from stream_assets.streaming.control import Control, Facts
from stream_assets.streaming.notes import Pace, note_progress, note_tables
from stream_assets.streaming.queries import Streams
from stream_assets.streaming.rebuild import needs_rebuild, rebuild

LONGEST_PAUSE_S = 60.0
PATIENCE_S = 120.0
"""A stream that has worked for so long is healthy: its next failure counts as its first."""
LOOK_S = 5.0
"""How often the tables of a stream are looked at."""
_FAULTS = (PySparkException, grpc.RpcError, StreamError, DeltaError, OSError)

Report = Callable[[Sequence[Facts]], None]
"""Called now and then with how the streams are doing."""
Feed = Callable[[], tuple[int, int]]
"""Brings new records of one dataset into Bronze; returns how many came and how many are still to come."""
Say = Callable[[str], None]
"""Called with a line for whoever watches, whenever the state of a stream changes."""


@dataclass
class _Watched:
    """One stream, its query if it has one, and when to try again if not."""

    facts: Facts
    query: Any = None
    failures: int = 0
    try_at: float = 0.0
    started_at: float | None = None
    noted_at: float = 0.0
    refreshed_at: float = field(default_factory=time.monotonic)


class Supervisor:
    """Looks after some streams until it is told to stop."""

    def __init__(
        self,
        streams: Streams,
        names: Sequence[str],
        *,
        report: Report,
        feeds: Mapping[str, Feed] | None = None,
        say: Say = lambda _: None,
    ) -> None:
        self.streams, self.settings, self.report, self.say = streams, streams.settings, report, say
        self.control = Control.of(streams.settings)
        self.watched = {name: _Watched(Facts(name)) for name in names}
        self.feeds = dict(feeds or {})
        self.fed = {name: Facts(name) for name in self.feeds}
        self.paces = {name: Pace() for name in (*self.fed, *self.watched)}
        self.said: dict[str, tuple[str, str | None]] = {}
        self.stopping = threading.Event()
        self.spark: SparkSession | None = None
        self.losses = 0
        """How often the engine was lost without having worked in between."""

    def run(self) -> None:
        """Supervise until SIGTERM, SIGINT or `stream streams stop`."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stopping.set())
        try:
            with self.control.lock().acquire(timeout=0):
                self._run()
        except Timeout:
            raise StreamError(
                "The streams of this STREAM_HOME are already supervised: see `stream streams status`."
            ) from None

    def _run(self) -> None:
        pool = ThreadPoolExecutor(len(self.feeds) or 1, thread_name_prefix="feed")
        feeding = [pool.submit(self._feed, *feed) for feed in self.feeds.items()]
        reported = time.monotonic()
        try:
            while not self.stopping.is_set():
                self.tick()
                for feed in feeding:
                    if feed.done():  # which it is only by a fault nobody foresaw: to end is better than to feed no more
                        feed.result()
                if time.monotonic() - reported >= self.settings.report_seconds:
                    self.report(self.facts)
                    reported = time.monotonic()
                self.stopping.wait(max(0.5, min(2.0, self.settings.trigger_seconds)))
        finally:
            self.stopping.set()
            self._end()
            pool.shutdown()

    @property
    def facts(self) -> list[Facts]:
        """How everything is doing, in the order data flows."""
        return [*self.fed.values(), *(watched.facts for watched in self.watched.values())]

    def tick(self) -> None:
        """Look at every stream once."""
        paused = self.control.paused
        self._tell()
        try:
            spark = self._session()
            for name, watched in self.watched.items():
                self._look_safely(spark, watched, is_paused=name in paused)
                self._tell()
            self.losses = 0
        except _FAULTS as error:
            if not is_gone(error) and not isinstance(error, StreamError):
                raise
            self._lose_engine(error)

    def _tell(self) -> None:
        """Say how everything is doing: to `status`, and what changed to whoever watches."""
        for one in self.facts:
            one.rate = self.paces[one.name](one.rows)
            if self.said.get(one.name, ("starting", None)) != (one.state, one.error):
                self.said[one.name] = (one.state, one.error)
                self.say(f"{one.name} {one.state}" + (f": {one.error}" if one.error else ""))
        self.control.tell(self.facts)

    def _session(self) -> SparkSession:
        """The supervisor's session. Whatever an earlier one left running on the engine is ended first: a stream runs once."""
        if self.spark is None:
            self._end_leftovers()
            self.spark = open_session(self.settings)
            self.control.keep_session(self.spark.session_id)  # pyright: ignore[reportAttributeAccessIssue]
        return self.spark

    def _end_leftovers(self) -> None:
        if not self.control.session:
            return
        connection = connect(self.settings)
        use_token(connection)
        old = SparkSession.builder.remote(f"{connection.url}/;session_id={self.control.session}").create()
        give_up_early(old, connection)
        try:
            for query in old.streams.active:
                query.stop()
            old.stop()
        except (PySparkException, grpc.RpcError) as error:
            # The server is new, or has closed the session: nothing of it can be left.
            if "INVALID_HANDLE" not in str(error):
                raise
        self.control.keep_session(None)

    def _look_safely(self, spark: SparkSession, watched: _Watched, *, is_paused: bool) -> None:
        """Look after one stream. Its trouble is told and must not touch the others; a lost engine is everybody's."""
        try:
            self._look_after(spark, watched, is_paused=is_paused)
        except _FAULTS as error:
            if is_gone(error):
                raise
            watched.facts.error = _short(error)

    def _look_after(self, spark: SparkSession, watched: _Watched, *, is_paused: bool) -> None:
        if is_paused:
            self._rest(watched)
        elif watched.query is None:
            if time.monotonic() >= watched.try_at:
                self._start(spark, watched)
        elif not watched.query.isActive:
            error = watched.query.exception()
            watched.query = None
            self._failed(watched, error or "ended by itself")
        else:
            self._note(spark, watched)

    def _start(self, spark: SparkSession, watched: _Watched) -> None:
        name = watched.facts.name
        try:
            if needs_rebuild(self.streams, name):
                rebuild(spark, self.streams, name)
            trigger = f"{int(self.settings.trigger_seconds * 1000)} milliseconds"
            watched.query = self.streams.start(spark, name, processingTime=trigger)
        except _FAULTS as error:
            if is_gone(error):
                raise
            self._failed(watched, error)
            return
        watched.facts.restarts += watched.started_at is not None
        watched.started_at = time.monotonic()
        watched.facts.state, watched.facts.error = "running", None

    def _failed(self, watched: _Watched, error: object) -> None:
        """Wait longer each time; never give up: what a stream waits for may come."""
        was_healthy = watched.facts.state == "running" and _since(watched.started_at) > PATIENCE_S
        watched.failures = 1 if was_healthy else watched.failures + 1
        watched.try_at = time.monotonic() + min(LONGEST_PAUSE_S, 2.0**watched.failures)
        watched.facts.state, watched.facts.error = "waiting", _short(error)

    def _rest(self, watched: _Watched) -> None:
        if watched.query is not None:
            watched.query.stop()
        watched.query, watched.try_at, watched.facts.state = None, 0.0, "stopped"

    def _note(self, spark: SparkSession, watched: _Watched) -> None:
        view = self.streams.view(watched.facts.name)
        if (
            view
            and view.lookup
            and view.lookup.sql
            and time.monotonic() - watched.refreshed_at > view.lookup.refresh.total_seconds()
        ):
            self.streams.refresh_lookup(spark, view.name, view.lookup)
            watched.refreshed_at = time.monotonic()
        for progress in watched.query.recentProgress:
            note_progress(watched.facts, json.loads(progress.json), has_event_time=view is not None)
        if _since(watched.noted_at) > LOOK_S:
            note_tables(watched.facts, self.streams)
            watched.noted_at = time.monotonic()
        watched.facts.error = None

    def _lose_engine(self, error: object) -> None:
        """The engine is gone, and every query with it. The next round opens a session on a new one."""
        self.spark = None
        for watched in self.watched.values():
            watched.query = None
            self._failed(watched, error)
        self.losses += 1
        self.stopping.wait(min(LONGEST_PAUSE_S, 2.0**self.losses))

    def _feed(self, name: str, feed: Feed) -> None:
        """Bring in new records until told to stop; a failure is told, and tried again."""
        facts, failures = self.fed[name], 0
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                landed, facts.lag_versions = feed()
                facts.rows += landed
                failures, facts.state, facts.error = 0, "running", None
                facts.seen_at = datetime.now(UTC).isoformat(timespec="milliseconds")
            except _FAULTS as error:
                failures += 1
                facts.state, facts.error, facts.restarts = "waiting", _short(error), facts.restarts + 1
            pause = min(LONGEST_PAUSE_S, 2.0**failures) if failures else self.settings.trigger_seconds - _since(began)
            self.stopping.wait(max(0.0, pause))

    def _end(self) -> None:
        """Stop every query and let go of the session. A batch that is cut short is done again at the next start."""
        for watched in self.watched.values():
            try:
                self._rest(watched)
            except (PySparkException, grpc.RpcError) as error:
                watched.facts.error = _short(error)
        if self.spark is not None:
            with suppress(PySparkException, grpc.RpcError):
                self.spark.stop()
        self.control.keep_session(None)
        for facts in self.fed.values():
            facts.state = "stopped"
        self._tell()


def _since(moment: float | None) -> float:
    """Seconds since a moment of the monotonic clock; none if there was none."""
    return time.monotonic() - moment if moment is not None else 0.0


def _short(error: object) -> str:
    """One line that says what happened, for people."""
    if is_gone(error):
        return "The engine went away and is started again."
    return next(iter(str(error).strip().splitlines()), "failed")[:500]
