"""kill -9 of the landing, the engine, the broker and the registry at random moments: afterwards every message is there once.

Bronze is compared with Kafka's receipts, Silver with a recomputation in plain Python of what was sent: repeated, shuffled,
superseded and late.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from stream_assets.contracts.model import Contract
from stream_assets.engine import server
from stream_assets.services import local, process
from stream_assets.services.addresses import kafka, schema_registry
from stream_assets.settings import PROJECT, Settings
from stream_assets.sources.topics import ensure_topic
from stream_assets.sources.topics import topic_of as wanted_topic
from tests.brokers import Sent, live_contract, send, topic_of
from tests.documents import document
from tests.lakes import rows
from tests.registries import LATER, Writer

KILLS = int(os.environ.get("STREAM_KILLS", "3"))
PER_ROUND = int(os.environ.get("STREAM_KILL_EVENTS", "300"))
FORMATS = ("avro", "json") if KILLS > 3 else ("avro",)
"""Of the messages. What was Avro goes the way of JSON once it is read: where there is little time, it stands for both."""
NOW = datetime.now(UTC).replace(hour=12, microsecond=0)
DAYS = [(NOW - timedelta(days=back)).date() for back in (2, 1, 0)]

Record = dict[str, Any]


@pytest.fixture(params=FORMATS)
def hurt(
    registry: Settings, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[Settings, Contract, dict[str, str]]]:
    """A home of its own, whose engine can be killed, its contract and its environment."""
    law = live_contract(tmp_path / "contracts", document(maxLateness=7), message_format=request.param)
    environment = {
        **os.environ,
        "STREAM_HOME": str(tmp_path / "home"),
        "STREAM_CONTRACTS": str(tmp_path / "contracts"),
        "STREAM_SERVER": "live",
        "STREAM_KAFKA_BOOTSTRAP": kafka(registry).bootstrap,
        "STREAM_SCHEMA_REGISTRY": schema_registry(registry).url,
        "STREAM_KAFKA_MAX_RECORDS": str(max(200, PER_ROUND // 5)),
        "STREAM_SPARK_MEMORY": "1g",
        "STREAM_SPARK_IDLE_MINUTES": "2",
    }
    settings = Settings.from_env(environment)
    ensure_topic(kafka(settings), wanted_topic(settings, law, law.server("live")))
    yield settings, law, environment
    server.stop(settings)


def make(dice: random.Random, first: int) -> list[Record]:
    """Readings of three days, each key in up to three versions, some repeated, all shuffled."""
    made: list[Record] = []
    for number in range(first, first + PER_ROUND):
        key = f"r{dice.randrange(first // 2, first + PER_ROUND)}"
        day = NOW - timedelta(days=sum(map(ord, key)) % 3)
        record = {"reading_id": key, "taken_at": day + timedelta(milliseconds=number), "pieces": number}
        made += [record] * dice.choice((1, 1, 1, 2))
    dice.shuffle(made)
    return made


def writer(settings: Settings, law: Contract, number: int) -> Callable[[Record], bytes]:
    """How the producer of a round writes: in Avro, by a schema that grows from round to round."""
    if law.server("live").format == "json":
        return lambda record: json.dumps(record, default=datetime.isoformat).encode()
    write = Writer(settings, law, *LATER[: number % (len(LATER) + 1)])
    return lambda record: write(0, **record)


def start(environment: dict[str, str], run_id: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.e2e.lander", run_id, *map(str, DAYS)]
    return subprocess.Popen(
        command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def hurt_once(settings: Settings, servers: Settings, victim: subprocess.Popen[str], what: str) -> None:
    """Kill the landing, or the engine or a server under it; the landing does not survive either."""
    state = server.running(settings)
    if what == "engine" and state:
        psutil.Process(state.pid).kill()
    if found := process.find(servers.home / "services" / what):
        found.kill()
        found.wait(10)
    victim.kill()
    victim.communicate(timeout=60)
    local.up(servers, ["kafka", "registry"])


def expected_silver(produced: list[Record]) -> dict[str, int]:
    """The latest version of each key."""
    return {r["reading_id"]: r["pieces"] for r in sorted(produced, key=lambda r: r["taken_at"])}


def test_any_kill_leaves_every_message_once(
    hurt: tuple[Settings, Contract, dict[str, str]], registry: Settings
) -> None:
    """Nothing is lost and nothing doubled, whatever was killed, whenever."""
    settings, law, environment = hurt
    dice = random.Random(KILLS)
    produced: list[Record] = []
    sent: list[Sent] = []
    for number in range(KILLS):
        produced += (made := make(dice, number * PER_ROUND))
        write = writer(settings, law, number)
        sent += send(settings, topic_of(law), [(record["reading_id"], write(record)) for record in made])
        victim = start(environment, f"run-{number}")
        assert victim.stdout
        victim.stdout.readline()
        time.sleep(dice.uniform(0.0, 8.0))
        hurt_once(settings, registry, victim, ("engine", "kafka", "registry", "landing")[number % 4])
    done = start(environment, "final")
    output, errors = done.communicate(timeout=400)
    assert done.returncode == 0, errors[-2000:]
    assert "done" in output
    landed = rows(settings, "bronze", "readings")
    received = sorted((r["_source"], r["_position"], r["_raw_bytes"] or r["_raw"].encode()) for r in landed)
    assert received == sorted((s.source, s.offset, s.value) for s in sent)
    silver = {r["reading_id"]: r["pieces"] for r in rows(settings, "silver", "readings")}
    assert silver == expected_silver(produced)
