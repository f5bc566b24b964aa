"""Our own Spark Connect server: started on demand, one per STREAM_HOME, loopback only, token-protected, stopped when idle.

A small keeper process owns the JVM: it waits for it, stops it when nobody has been connected for a while, and cleans up
after it. State is in `$STREAM_HOME/spark`: `server.json` (who runs where), `token` (mode 600) and `server.log`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from filelock import FileLock

from stream_assets.engine.alive import is_alive
from stream_assets.engine.archive import class_flags
from stream_assets.engine.jars import resolve_jars, spark_home
from stream_assets.engine.java import find_java
from stream_assets.errors import EngineError, StreamError
from stream_assets.secrets import secret_file
from stream_assets.settings import Settings

START_TIMEOUT_S = 120
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_FILE_SYSTEM, _FILE_SYSTEM_JAR = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem", "hadoop-bare-naked-local-fs"
_AVRO_LIMITS = tuple(
    f"-Dorg.apache.avro.limits.{what}.maxLength={16 << 20}" for what in ("bytes", "string", "collectionItems")
)
"""No value is longer than the largest message. Avro believes the lengths it reads, and a wrong one would take all of the heap."""


@dataclass(frozen=True)
class Connection:
    """How to reach Spark."""

    url: str
    token: str | None = None


@dataclass(frozen=True)
class ServerState:
    """What `server.json` says."""

    pid: int
    born: float
    """Creation time of the process: a recycled pid is not our server."""
    keeper: int
    port: int


def connect(settings: Settings, *, classes_to: Path | None = None) -> Connection:
    """Where Spark is: the cluster of SPARK_REMOTE, or our own server, started if need be.

    A server that is started with `classes_to` leaves its classes there when it is stopped.
    """
    if settings.spark_remote:
        return Connection(settings.spark_remote)
    folder = _folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "start.lock"):
        state = running(settings) or _start(settings, classes_to)
    return Connection(f"sc://localhost:{state.port}", _token(settings))


def start_meanwhile(settings: Settings) -> None:
    """Start our server in the background, if it does not run: it takes as long as loading everything that will need it.

    Nobody waits for it here, and nobody hears why it failed: whoever connects does both.
    """
    if not settings.spark_remote:
        threading.Thread(target=_try_to_connect, args=(settings,), daemon=True, name="engine").start()


def _try_to_connect(settings: Settings) -> None:
    with suppress(StreamError, OSError):
        connect(settings)


def running(settings: Settings) -> ServerState | None:
    """The live server of this STREAM_HOME, if there is one."""
    try:
        state = ServerState(**json.loads((_folder(settings) / "server.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return state if is_alive(state.pid, state.born) and _listens(state.port) else None


def stop(settings: Settings, *, timeout_s: float = 20) -> bool:
    """Stop our server, if it runs. True if there was one."""
    if not _folder(settings).exists():
        return False
    with FileLock(_folder(settings) / "start.lock"):
        state = running(settings)
        if state is None:
            return False
        process = psutil.Process(state.pid)
        process.terminate()
        try:
            process.wait(timeout_s)
        except psutil.TimeoutExpired:
            process.kill()
        (_folder(settings) / "server.json").unlink(missing_ok=True)
        return True


def log_file(settings: Settings) -> Path:
    """What the server writes."""
    return _folder(settings) / "server.log"


def _folder(settings: Settings) -> Path:
    return settings.home / "spark"


def _token(settings: Settings) -> str:
    return secret_file(_folder(settings) / "token")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _start(settings: Settings, classes_to: Path | None) -> ServerState:
    """Start the keeper, which starts the JVM, and wait until it answers."""
    (_folder(settings) / "server.json").unlink(missing_ok=True)
    port = _free_port()
    plan = {
        "command": _command(settings, port, classes_to),
        "port": port,
        "folder": str(_folder(settings)),
        "idle_s": settings.spark_idle_minutes * 60,
    }
    environment = os.environ | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": _token(settings),
        "STREAM_KEEPER": json.dumps(plan),
        "PYSPARK_PYTHON": str(_worker_python(settings)),
        "TZ": "UTC",
    }
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        # A process that has been a client before, and now starts a new server, has both: the driver would be a client too.
        environment.pop(name, None)
    # Workers of streams print the address they connect to, token included.
    with open(log_file(settings), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
        keeper = subprocess.Popen(
            [sys.executable, "-c", "from stream_assets.engine.keeper import main; main()"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
            cwd=Path(__file__).parents[2],
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if state := running(settings):
            return state
        if keeper.poll() is not None:
            break
        time.sleep(0.1)
    if keeper.poll() is None:
        os.killpg(keeper.pid, signal.SIGTERM)
    tail = "\n".join(log_file(settings).read_text(errors="replace").splitlines()[-15:])
    raise EngineError(f"The Spark server did not start. The end of {log_file(settings)}:\n{tail}")


def _worker_python(settings: Settings) -> Path:
    """The Python that the driver and workers of streams run: this one, with the installed PySpark.

    Spark would put its zipped, uncompiled self before it, which takes 2.6 times as long to load; a worker that has not
    answered within ten seconds is given up. Workers of streams say where they connect to, token included, and two lines for
    every batch: what they print is for nobody. Their errors come by another way.
    """
    script = _folder(settings) / "python"
    python = f'exec "{sys.executable}" "$@"'
    script.write_text(
        f'#!/bin/sh\nunset PYTHONPATH\ncase "$*" in *connect.streaming.worker*) {python} > /dev/null ;; *) {python} ;; esac\n'
    )
    script.chmod(0o700)
    return script


def _command(settings: Settings, port: int, classes_to: Path | None) -> list[str]:
    """The JVM's command line. spark-submit's launcher adds the module flags Spark needs on modern Java."""
    jars = resolve_jars(settings.jars, "spark", report=lambda line: print(line, file=sys.stderr, flush=True))
    conf = server_conf(settings, port)
    java = find_java()
    classes = (f"-XX:ArchiveClassesAtExit={classes_to}",) if classes_to else class_flags(java)
    conf[_JAVA_OPTIONS] = " ".join((conf[_JAVA_OPTIONS], *classes))
    flags = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    os.environ.setdefault("JAVA_HOME", str(java.resolve().parent.parent))
    return [
        str(spark_home() / "bin" / "spark-submit"),
        "--master",
        f"local[{settings.spark_cores}]",
        "--driver-memory",
        settings.spark_memory,
        "--jars",
        ",".join(map(str, jars)),
        # Spark looks at files before it adds the jars.
        "--driver-class-path",
        str(next(jar for jar in jars if jar.name.startswith(_FILE_SYSTEM_JAR))),
        *flags,
        str(Path(__file__).with_name("host.py")),
    ]


def server_conf(settings: Settings, port: int) -> dict[str, str]:
    """Settings of the embedded server. Each was measured or is there for safety; a cluster brings its own."""
    return {
        "spark.app.name": "stream",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.local.dir": str(_folder(settings) / "scratch"),
        # Shuffled rows pass through files: personal data must not lie there readable, not even for a minute.
        "spark.io.encryption.enabled": "true",
        # What a killed client had asked for would go on for seven minutes, and the next one's queries wait behind it: that nobody listens
        # any more is seen when an answer is to be fetched anew, every so often.
        "spark.connect.execute.reattachable.senderMaxStreamDuration": "20s",
        "spark.connect.execute.manager.detachedTimeout": "10s",
        "spark.connect.execute.manager.maintenanceInterval": "5s",
        "spark.sql.warehouse.dir": str(_folder(settings) / "warehouse"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        # Delta replays its log with 50 tasks by default; that of a lake on one machine is done in one.
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": str(max(4, settings.spark_cores * 2)),
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(max(8, settings.spark_cores * 8)),
        "spark.default.parallelism": str(settings.spark_cores),
        # Hadoop's own, without its native library, runs `chmod` for every file and every checksum of one: of a year's load a tenth.
        "spark.hadoop.fs.file.impl": _FILE_SYSTEM,
        # Hadoop's own zstd codec wants a native library; this one is plain Java and ships with Spark.
        "spark.hadoop.io.compression.codecs": (
            "org.apache.hadoop.io.compress.GzipCodec,org.apache.hadoop.io.compress.DefaultCodec,io.airlift.compress.zstd.ZstdCodec"
        ),
        # A day runs more generated classes than the 100 that Spark keeps: it would compile and warm them up again every time.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # A set of days is handed to generated code, where comparisons would be part of it and new every day.
        "spark.sql.optimizer.inSetConversionThreshold": "1",
        "spark.sql.optimizer.inSetSwitchThreshold": "0",
        # State of streams lies on disk, beside the heap, and only its changes are written to the checkpoint.
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.log.level": "WARN",
        # The JVM compiles later than by default. An engine runs much code a little and some of it for long: of a warm day's processor time
        # a third went into compiling what was then hardly used, and a full load is no slower.
        _JAVA_OPTIONS: " ".join(
            (
                *("-Duser.timezone=UTC", "-XX:+UseParallelGC", "-XX:-DontCompileHugeMethods"),
                *("-XX:CompileThresholdScaling=5", f"-Dderby.system.home={_folder(settings) / 'scratch'}"),
                *_AVRO_LIMITS,
            )
        ),
    }
