"""kill -9 of the landing, of the engine and of the broker at random moments: afterwards every message is there once.

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
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from stream_assets.contracts.model import Contract
from stream_assets.engine import server
from stream_assets.services import local, process
from stream_assets.services.addresses import kafka
from stream_assets.settings import PROJECT, Settings
from stream_assets.sources.topics import ensure_topic
from stream_assets.sources.topics import topic_of as wanted_topic
from tests.brokers import Sent, live_contract, send, topic_of
from tests.lakes import rows

KILLS = int(os.environ.get("STREAM_KILLS", "3"))
PER_ROUND = int(os.environ.get("STREAM_KILL_EVENTS", "300"))
NOW = datetime.now(UTC).replace(hour=12)
DAYS = [(NOW - timedelta(days=back)).date() for back in (2, 1, 0)]


@pytest.fixture
def hurt(broker: Settings, tmp_path: Path) -> Iterator[tuple[Settings, Contract, dict[str, str]]]:
    """A home of its own, whose engine can be killed, its contract and its environment."""
    law = live_contract(tmp_path / "contracts")
    environment = {
        **os.environ,
        "STREAM_HOME": str(tmp_path / "home"),
        "STREAM_CONTRACTS": str(tmp_path / "contracts"),
        "STREAM_SERVER": "live",
        "STREAM_KAFKA_BOOTSTRAP": kafka(broker).bootstrap,
        "STREAM_KAFKA_MAX_RECORDS": str(max(200, PER_ROUND // 5)),
        "STREAM_SPARK_MEMORY": "1g",
        "STREAM_SPARK_IDLE_MINUTES": "2",
    }
    settings = Settings.from_env(environment)
    ensure_topic(kafka(settings), wanted_topic(settings, law, law.server("live")))
    yield settings, law, environment
    server.stop(settings)


def make(dice: random.Random, first: int) -> list[tuple[str, bytes]]:
    """Readings of three days, each key in up to three versions, some repeated, all shuffled."""
    made = []
    for number in range(first, first + PER_ROUND):
        key = f"r{dice.randrange(first // 2, first + PER_ROUND)}"
        day = NOW - timedelta(days=sum(map(ord, key)) % 3)
        record = {"reading_id": key, "taken_at": (day + timedelta(milliseconds=number)).isoformat(), "pieces": number}
        made += [(key, json.dumps(record).encode())] * dice.choice((1, 1, 1, 2))
    dice.shuffle(made)
    return made


def start(environment: dict[str, str], run_id: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.e2e.lander", run_id, *map(str, DAYS)]
    return subprocess.Popen(
        command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def hurt_once(settings: Settings, broker: Settings, victim: subprocess.Popen[str], what: str) -> None:
    """Kill the landing, or the engine or the broker under it; the landing does not survive either."""
    state = server.running(settings)
    if what == "engine" and state:
        psutil.Process(state.pid).kill()
    if what == "broker" and (found := process.find(broker.home / "services" / "kafka")):
        found.kill()
        found.wait(10)
    victim.kill()
    victim.communicate(timeout=60)
    local.up(broker, ["kafka"])


def expected_silver(sent: list[Sent]) -> dict[str, int]:
    """The latest version of each key."""
    latest: dict[str, dict] = {}
    for message in sent:
        record = json.loads(message.value or b"")
        known = latest.get(record["reading_id"])
        if known is None or record["taken_at"] > known["taken_at"]:
            latest[record["reading_id"]] = record
    return {key: record["pieces"] for key, record in latest.items()}


def test_any_kill_leaves_every_message_once(hurt: tuple[Settings, Contract, dict[str, str]], broker: Settings) -> None:
    """Nothing is lost and nothing doubled, whatever was killed, whenever."""
    settings, law, environment = hurt
    dice = random.Random(KILLS)
    sent: list[Sent] = []
    for number in range(KILLS):
        sent += send(settings, topic_of(law), make(dice, number * PER_ROUND))
        victim = start(environment, f"run-{number}")
        assert victim.stdout
        victim.stdout.readline()
        time.sleep(dice.uniform(0.0, 8.0))
        hurt_once(settings, broker, victim, ("engine", "broker", "landing")[number % 3])
    done = start(environment, "final")
    output, errors = done.communicate(timeout=400)
    assert done.returncode == 0, errors[-2000:]
    assert "done" in output
    landed = sorted((r["_source"], r["_position"], r["_raw"]) for r in rows(settings, "bronze", "readings"))
    assert landed == sorted((s.source, s.offset, (s.value or b"").decode()) for s in sent)
    silver = {r["reading_id"]: r["pieces"] for r in rows(settings, "silver", "readings")}
    assert silver == expected_silver(sent)
