"""Runs dbt inside this process, on a Spark session of its own, and tells what happens as it happens.

A dbt process of its own spends 5 s on imports and 2 s on parsing before its first statement, as much as a small day takes
to build. Here both are already done: the libraries are loaded and the project is parsed (see `project.py`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from stream_assets.engine.failures import is_transient
from stream_assets.engine.server import Connection
from stream_assets.engine.session import give_up_early, use_token
from stream_assets.gold.project import DbtError, GoldProject, keep_newest

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_ONE_AT_A_TIME = threading.Lock()
"""dbt keeps flags, adapters and loggers in module globals."""

KEPT_RUNS = 30
"""How many runs' logs and compiled models are kept."""

_RESULTS = {"LogModelResult", "LogTestResult", "LogSeedResult", "LogSnapshotResult"}


def run_dbt(
    project: GoldProject,
    connection: Connection,
    args: Sequence[str],
    *,
    env: Mapping[str, str],
    output: Path,
    conf: Mapping[str, str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Run one dbt command, yielding dbt's structured result event of every node as it finishes. `conf` is set on its session.

    The event of a failed test has the first of its rows under `failing_rows`, if the test keeps them (macros/tests.sql).

    Raises:
        DbtError: dbt could not run, or nodes failed. The events of everything that did run were yielded before.
        PySparkException: Nodes failed because the server went away or another run wrote first: worth another attempt.
    """
    places = ["--target-path", str(output), "--log-path", str(output)]
    command = ["--quiet", "--no-use-colors", "--no-write-json", *args, *project.flags, *places]
    keep_newest(output.parent, KEPT_RUNS)
    with _ONE_AT_A_TIME, _environment(env), _own_session(connection, conf or {}) as session:
        events: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        with ThreadPoolExecutor(1, thread_name_prefix="dbt") as thread:
            done = thread.submit(_invoke, project, command, events)
            done.add_done_callback(lambda _: events.put(None))
            try:
                while (event := events.get()) is not None:
                    yield event
            finally:
                if not done.done():
                    # The run was cancelled: what dbt is doing, and what it would do next, fails at once.
                    session.interruptAll()
                    session.stop()
    _raise_failures(done, output)


def _invoke(project: GoldProject, command: list[str], events: SimpleQueue[dict[str, Any] | None]) -> Any:
    from dbt.cli.main import dbtRunner
    from dbt.contracts.graph.manifest import Manifest
    from dbt.parser.manifest import extended_mashumuro_decoder
    from dbt_common.events.functions import msg_to_dict

    def listen(event: Any) -> None:
        if event.info.name in _RESULTS:
            told = msg_to_dict(event)
            rows = manifest.flat_graph.get("failing_rows", {}).get(told["data"]["node_info"]["unique_id"], [])
            events.put({**told, "failing_rows": rows})

    manifest = Manifest.from_msgpack(project.parsed.read_bytes(), decoder=extended_mashumuro_decoder)
    manifest.build_flat_graph()
    return dbtRunner(manifest=manifest, callbacks=[listen]).invoke(command)


def _raise_failures(done: Future[Any], output: Path) -> None:
    outcome = done.result()
    if outcome.success:
        return
    if outcome.exception is not None:
        raise DbtError(
            f"dbt could not run: {_gist(outcome.exception)} The whole story is in {output / 'dbt.log'}."
        ) from outcome.exception
    failed = [result for result in outcome.result if str(result.status) in ("error", "fail", "runtime error")]
    listing = "\n".join(f"- {result.node.name}: {_gist(result.message)}" for result in failed)
    message = f"{len(failed)} dbt nodes failed:\n{listing}\nThe whole story is in {output / 'dbt.log'}."
    texts = [str(result.message) for result in failed]
    if any(is_transient(text) for text in texts):
        raise PySparkException(message)
    raise DbtError(message)


def _gist(message: object) -> str:
    """What went wrong, without the plan and the stack trace Spark sends along."""
    lines = [line.strip() for line in str(message).split("JVM stacktrace")[0].splitlines()]
    return " ".join(line for line in lines if line)[:600]


@contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
    """While inside, these variables are set: dbt projects read theirs from the process."""
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


@contextmanager
def _own_session(connection: Connection, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """While inside, dbt-spark works on a session made for it.

    Left alone it takes the session of the process, switches ANSI mode off on it, and leaves the user metadata of its
    commits behind for whoever writes next. It also sets its options again before each statement, a round trip each time.
    """
    from dbt.adapters.spark import session as dbt_spark  # pyright: ignore[reportPrivateImportUsage]
    from pyspark.sql.connect.session import SparkSession

    use_token(connection)
    session = SparkSession(connection.url)
    give_up_early(session, connection)
    for key, value in conf.items():
        session.conf.set(key, value)
    original, dbt_spark.SparkSession = dbt_spark.SparkSession, _SessionGiver(session)  # pyright: ignore[reportPrivateImportUsage]
    try:
        yield session
    finally:
        dbt_spark.SparkSession = original  # pyright: ignore[reportPrivateImportUsage]
        session.stop()


class _SessionGiver:
    """What dbt-spark uses of `SparkSession`: a builder that gives the one session, with options set once."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._options: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def builder(self) -> _SessionGiver:
        return self

    def enableHiveSupport(self) -> _SessionGiver:  # noqa: N802 the name is PySpark's
        return self

    def config(self, key: str, value: str) -> _SessionGiver:
        with self._lock:
            if self._options.get(key) != value:
                self._session.conf.set(key, value)
                self._options[key] = value
        return self

    def getOrCreate(self) -> SparkSession:  # noqa: N802 the name is PySpark's
        return self._session
