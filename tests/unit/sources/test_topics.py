"""Topics from contracts, and which offsets are read next."""

from dataclasses import replace
from pathlib import Path

import pytest

from stream_assets.contracts.load import load_contracts
from stream_assets.errors import DeliveryError
from stream_assets.services.addresses import KafkaAddress
from stream_assets.settings import Settings
from stream_assets.sources.kafka import Marks, Positions, next_slice
from stream_assets.sources.topics import consumer_group, partitions_for, topic_of
from tests.brokers import live_contract

MARKS = Marks("t", "id", {0: 0, 1: 0}, {0: 100, 1: 50})


@pytest.mark.parametrize(("peak", "partitions"), [(0, 3), (0.3, 3), (0.31, 4), (1, 10), (7.25, 73), (40, 100)])
def test_partitions_follow_the_peak(peak: float, partitions: int) -> None:
    """Ten for each MB/s, never fewer than 3 nor more than 100."""
    assert partitions_for(peak) == partitions


def test_the_samples_topics() -> None:
    """One topic per dataset, named by domain and dataset."""
    settings = Settings.from_env({})
    contracts = load_contracts(settings.contracts)
    topics = {
        name: topic_of(settings, contract, server)
        for name, contract in contracts.items()
        for server in contract.live_servers
        if server.kind == "kafka"
    }
    assert topics["orders"].name == "sales.orders.events"
    assert topics["web_events"].partitions == 6
    assert all(topic.config["message.timestamp.type"] == "LogAppendTime" for topic in topics.values())
    assert consumer_group(contracts["orders"]) == "stream-bronze.orders"


@pytest.mark.parametrize(
    ("environment", "replicas", "in_sync"), [("development", 1, "1"), ("staging", 2, "1"), ("production", 3, "2")]
)
def test_replicas_follow_the_environment(tmp_path: Path, environment: str, replicas: int, in_sync: str) -> None:
    law = live_contract(tmp_path)
    topic = topic_of(Settings.from_env({"STREAM_ENVIRONMENT": environment}), law, law.server("live"))
    assert (topic.replication, topic.config["min.insync.replicas"]) == (replicas, in_sync)


def test_the_next_slice_goes_on_from_the_positions() -> None:
    part = next_slice(Positions("t", "id", {0: 40, 1: 50}), MARKS, until=MARKS.end, limit=1000)
    assert (part.first, part.end, part.size) == ({0: 40, 1: 50}, {0: 100, 1: 50}, 60)


def test_a_slice_is_bounded_and_every_partition_gets_on() -> None:
    part = next_slice(MARKS.start(), MARKS, until=MARKS.end, limit=30)
    assert part.end == {0: 20, 1: 10}
    assert next_slice(MARKS.start(), MARKS, until=MARKS.end, limit=1).end == {0: 1, 1: 1}


def test_a_new_partition_is_read_from_its_beginning() -> None:
    part = next_slice(Positions("t", "id", {0: 100}), MARKS, until=MARKS.end, limit=1000)
    assert (part.first[1], part.end[1]) == (0, 50)


def test_what_expired_is_never_skipped() -> None:
    expired = replace(MARKS, first={0: 60, 1: 0})
    with pytest.raises(DeliveryError, match="t/0 offsets 40 to 59"):
        next_slice(Positions("t", "id", {0: 40, 1: 50}), expired, until=MARKS.end, limit=10)


@pytest.mark.parametrize("positions", [Positions("t", "other", {0: 1}), Positions("t", "id", {0: 101})])
def test_another_topic_of_the_same_name_is_noticed(positions: Positions) -> None:
    with pytest.raises(DeliveryError, match="made anew"):
        next_slice(positions, MARKS, until=MARKS.end, limit=10)


def test_positions_survive_the_ledger_and_name_their_place() -> None:
    """A replay changes the place: who read before it cannot go on as if nothing had happened."""
    positions = Positions("t", "id", {10: 1, 2: 7}, generation=1)
    assert Positions.from_page(positions.to_page()) == positions
    assert positions.token == Positions("t", "id", {2: 7, 10: 1}, generation=1).token
    assert positions.token != replace(positions, generation=2).token


def test_places_that_follow_each_other_have_growing_numbers() -> None:
    """Delta makes no commit whose number is not higher than the last of its name, so a place must never share one with another."""
    places = [Positions("t", "id", offsets) for offsets in ({0: 0}, {0: 0, 1: 0}, {0: 0, 1: 1}, {0: 5, 1: 1})]
    assert len({place.token[0] for place in places}) == 1
    assert [place.token[1] for place in places] == sorted({place.token[1] for place in places})


def test_passwords_are_quoted_and_never_shown() -> None:
    address = KafkaAddress("h:1", "SASL_SSL", "SCRAM-SHA-512", "me", 'a"b\\c')
    assert 'password="a\\"b\\\\c";' in address.for_java()["sasl.jaas.config"]
    assert address.for_clients()["sasl.password"] == 'a"b\\c'
    assert 'a"b' not in repr(address)
