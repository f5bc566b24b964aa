"""A topic in Avro under streams that run, by the commands a person would type, while its registry goes away and comes back.

What is served is compared with what was produced, Bronze with Kafka's receipts, quarantine with the poison that was sent.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from stream_assets.contracts.model import Contract
from stream_assets.services import local
from stream_assets.services.addresses import kafka
from stream_assets.settings import Settings
from stream_assets.sources.topics import ensure_topic
from stream_assets.sources.topics import topic_of as wanted_topic
from stream_assets.streaming.control import Control
from tests.brokers import live_contract, send, topic_of
from tests.lakes import refine_days, rows
from tests.registries import LATER, NOW, Writer, as_sent, landed
from tests.shops import Shop, served, wait_for

VIEW = {
    "name": "amounts", "description": "What was measured, minute by minute.", "kind": "tumbling", "source": "readings",
    "watermark": "1h", "window": {"size": "1m"}, "group_by": [],
    "measures": {"readings": "count(*)", "amount": "cast(sum(amount) as decimal(18,2))"},
}  # fmt: skip


@pytest.fixture
def law(tmp_path: Path) -> Contract:
    views = tmp_path / "contracts" / "views"
    views.mkdir(parents=True)
    (views / "amounts.yaml").write_text(yaml.safe_dump(VIEW))
    return live_contract(tmp_path / "contracts", message_format="avro")


@pytest.fixture
def lab(live: Settings, registry: Settings, law: Contract) -> Iterator[Shop]:
    """An empty lake with a view on readings, fed by the broker and the registry."""
    contracts = law.file.parent
    settings = replace(live, contracts=contracts, views=contracts / "views", trigger_seconds=0.5)
    ensure_topic(kafka(settings), wanted_topic(settings, law, law.server("live")))
    yield Shop(settings, os.environ | settings.to_env(), topic_of(law), views=("amounts",))
    Control.of(settings).end()
    local.up(registry, ["registry"])


def at(number: int) -> datetime:
    return NOW - timedelta(minutes=number % 4)


def write(writer: Writer, numbers: Iterable[int]) -> list[tuple[str, bytes]]:
    return [(f"k{n}", writer(n, taken_at=at(n))) for n in numbers]


def wait_until_served(lab: Shop, numbers: range) -> None:
    """Every reading up to here, once, in its minute, to the cent."""
    counts: dict[datetime, list[int]] = defaultdict(list)
    for n in numbers:
        counts[at(n).replace(second=0, microsecond=0)].append(n)
    expected = sorted((minute, len(found), Decimal(sum(found)) / 100) for minute, found in counts.items())
    columns = ("window_start", "readings", "amount")
    wait_for(lambda: served(lab.settings, "amounts", *columns) == expected, f"{len(numbers)} readings to be served")


def feed(lab: Shop) -> dict[str, Any]:
    return next(one for one in Control.of(lab.settings).status()["streams"] if one["name"] == "bronze/readings")


def test_streams_outlive_the_registry(spark: SparkSession, lab: Shop, law: Contract, registry: Settings) -> None:
    """Schemas seen before are enough; a new one waits, and says so, until the registry is back. Poison stops nothing."""
    old, new = Writer(lab.settings, law), Writer(lab.settings, law, *LATER)
    poison = {"unframed": b'{"reading_id": "r1"}', "unknown_schema": b"\x00\x7f\x00\x00\x01" + old(2)[5:], "undecodable": old(3)[:-1]}  # fmt: skip
    sent = send(lab.settings, lab.topic, [*write(old, range(20)), *(("junk", value) for value in poison.values())])
    supervisor = lab.supervise()
    wait_until_served(lab, range(20))
    unseen = write(new, range(40, 60))
    local.down(registry, ["registry"])
    sent += send(lab.settings, lab.topic, write(old, range(20, 40)))
    wait_until_served(lab, range(40))
    waiting = send(lab.settings, lab.topic, [*unseen, ("junk", b"\x00\x7f\x00\x00\x02"), *write(old, range(60, 80))])
    wait_for(lambda: feed(lab)["state"] == "waiting", "the stream to miss the registry")
    assert "schema registry does not answer" in feed(lab)["error"]
    assert landed(lab.settings) == as_sent(sent)
    local.up(registry, ["registry"])
    wait_until_served(lab, range(80))
    assert (feed(lab)["state"], feed(lab)["error"]) == ("running", None)
    stopped = lab.stream("stop")
    assert (stopped.returncode, supervisor.wait(60)) == (0, 0), stopped.stdout
    assert landed(lab.settings) == as_sent(sent + waiting)
    assert rejected(spark, lab, law) == sorted([*poison.items(), ("unknown_schema", b"\x00\x7f\x00\x00\x02")])


def rejected(spark: SparkSession, lab: Shop, law: Contract) -> list[tuple[str, bytes]]:
    """What Silver of these days sets aside, with its rule."""
    days = {NOW.date(), at(3).date(), datetime.now(UTC).date()}
    refine_days(spark, lab.settings, law, *sorted(days))
    aside = rows(lab.settings, "quarantine", "readings")
    return sorted(
        (rule.removeprefix("validity__record__"), r["_raw_bytes"]) for r in aside for rule in r["_violations"]
    )
