"""The live part of the doctor: broker, Postgres, Kafka Connect and schema registry, the topics of the contracts, the tables that are followed.

A line for every fault. What depends on a server that does not answer is not looked at: it would only say the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from stream_assets.contracts.load import load_contracts
from stream_assets.contracts.model import REGISTERED, Contract, Server
from stream_assets.errors import ServiceError
from stream_assets.ops.doctor.checks import Line, State
from stream_assets.services.addresses import connect_url, kafka, postgres_dsn, schema_registry, services_folder
from stream_assets.settings import Settings
from stream_assets.sources import connect, postgres
from stream_assets.sources.capture import CaptureState, capture, captured, find_slot, look, megabytes
from stream_assets.sources.registry import ask_for_types
from stream_assets.sources.topics import Topic, compare_topic, topic_names, topic_of

PATIENCE_S = 5
Dataset = tuple[Contract, Server]


def examine_live(settings: Settings) -> Iterator[Line]:
    """The servers of contracts that do not come as files, if there are any on this machine or in the settings."""
    live = settings.live
    is_known = (services_folder(settings) / "ports.json").exists() or live.services_port
    if not (is_known or live.kafka_bootstrap or live.postgres_dsn or live.connect_url or live.registry_url):
        yield Line("live services", "ok", "none yet: everything comes as files")
        return
    topics: set[str] = set()
    faults = {name: _fault(ask, settings, topics) for name, ask in SERVERS.items()}
    contracts = load_contracts(settings.contracts).values()
    needed = {kind for contract in contracts for kind in _needs(contract.server(settings.server))}
    yield from (_server_line(name, fault, is_needed=name in needed) for name, fault in faults.items())
    if live.registry_url or any(contract.formats & set(REGISTERED) for contract in contracts):
        yield _server_line("registry", _fault(_ask_registry, settings, topics), is_needed="registry" in needed)
    if not faults["kafka"]:
        streamed = [(c, s) for c in contracts for s in c.live_servers if s.kind == "kafka"]
        yield from chain.from_iterable(_topic(settings, *dataset, topics) for dataset in streamed)
    followed = captured(contracts).values()
    if not any(faults.values()):
        yield from chain.from_iterable(_followed(settings, *dataset, topics) for dataset in followed)
    elif not faults["postgres"]:
        yield from chain.from_iterable(_unread_slot(settings, *dataset) for dataset in followed)


def _ask_kafka(settings: Settings, topics: set[str]) -> None:
    topics.update(topic_names(kafka(settings), PATIENCE_S))


def _ask_postgres(settings: Settings, _: set[str]) -> None:
    with postgres.connection(postgres_dsn(settings)):
        pass


def _ask_connect(settings: Settings, _: set[str]) -> None:
    connect.connector_state(connect_url(settings), "stream-doctor")


def _ask_registry(settings: Settings, _: set[str]) -> None:
    ask_for_types(schema_registry(settings))


SERVERS: Mapping[str, Callable[[Settings, set[str]], None]] = {
    "kafka": _ask_kafka,
    "postgres": _ask_postgres,
    "connect": _ask_connect,
}


def _fault(ask: Callable[[Settings, set[str]], None], settings: Settings, topics: set[str]) -> str:
    try:
        ask(settings, topics)
    except ServiceError as error:
        return str(error)
    return ""


def _needs(server: Server) -> tuple[str, ...]:
    """The servers without which a dataset of such a server cannot be read."""
    if server.kind == "postgres":
        return ("kafka", "postgres", "connect") if server.options.get("pattern", "log") == "log" else ("postgres",)
    if server.kind == "kafka":
        return ("kafka", "registry") if server.format in REGISTERED else ("kafka",)
    return ()


def _server_line(name: str, fault: str, *, is_needed: bool) -> Line:
    text, _, remedy = fault.partition(". ")
    state: State = "fail" if is_needed else "warn"
    return Line(name, state, text, remedy) if fault else Line(name, "ok", "answers")


def _topic(settings: Settings, contract: Contract, server: Server, known: set[str]) -> Iterator[Line]:
    wanted = topic_of(settings, contract, server)
    if wanted.name in known:
        yield from _differences(settings, wanted)
    elif contract.server(settings.server) == server:
        yield Line("topic", "warn", f"{wanted.name} of {contract.name} is not there", "`stream topics ensure` makes it")


def _differences(settings: Settings, wanted: Topic) -> Iterator[Line]:
    for name, (want, found) in compare_topic(kafka(settings), wanted).differences.items():
        tool = "kafka-topics.sh --alter --partitions" if name == "partitions" else f"kafka-configs.sh --alter {name}="
        remedy = f"the contract wants {want}: `{tool}`, or change the contract; nothing is altered by itself"
        # Without it nobody can tell when a message arrived, and landing refuses the topic.
        state: State = "fail" if name == "message.timestamp.type" else "warn"
        yield Line("topic", state, f"{wanted.name}: {name} is {found}", remedy)


def _followed(settings: Settings, contract: Contract, server: Server, topics: set[str]) -> Iterator[Line]:
    wanted, is_read = capture(contract, server), contract.server(settings.server) == server
    state = look(settings, wanted)
    if state.connector == connect.ABSENT and state.slot is None:
        if is_read:
            yield Line("capture", "warn", f"{contract.name} is not followed yet", f"`stream cdc up {contract.name}`")
        return
    yield _capture_line(state)
    if wanted.topic in topics:
        yield from _differences(settings, topic_of(settings, contract, server))
    else:
        text = f"{wanted.topic} of {contract.name} is not there"
        yield Line("topic", "fail", text, f"`stream cdc up {contract.name}` makes it")


def _unread_slot(settings: Settings, contract: Contract, server: Server) -> Iterator[Line]:
    """While nobody can read it, a slot holds back the log of its database."""
    wanted = capture(contract, server)
    if slot := find_slot(settings, wanted):
        text = f"{contract.name}: its slot keeps {megabytes(slot)} of log on the source's disk, and nobody reads it"
        drop = f"select pg_drop_replication_slot('{wanted.slot}')"
        remedy = f"mend the above; if its disk is in danger, `{drop}` there, and later `stream cdc resnapshot {contract.name}`"
        yield Line("capture", "fail", text, remedy)


def _capture_line(state: CaptureState) -> Line:
    name = state.capture.dataset
    if state.problem is None:
        return Line("capture", "ok", f"{name}: changes flow" if state.capture.reads_log else f"{name}: copied once")
    found, remedy = state.problem
    return Line("capture", "fail", f"{name}: {found}", f"`{remedy}`")
