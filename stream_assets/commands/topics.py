"""`stream topics …`: the topics of the contracts, and landing them again."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from rich.console import Console
from rich.table import Table

from stream_assets.contracts.load import load_contracts
from stream_assets.errors import StreamError
from stream_assets.settings import Settings

if TYPE_CHECKING:
    from stream_assets.contracts.model import Contract

app = typer.Typer(no_args_is_help=True, help="The Kafka topics of the contracts.")
console = Console(highlight=False, file=sys.stdout)
Dataset = Annotated[str, typer.Argument(help="The dataset whose topic is meant.")]


@app.command("ensure")
def ensure_topics() -> None:
    """Make the topics that are missing and verify the others. Nothing is altered; exits 1 if one differs."""
    from stream_assets.services.addresses import kafka
    from stream_assets.sources.topics import ensure_topic, topic_of

    settings = Settings.from_env()
    table = Table("dataset", "topic", "partitions", "replicas", "state", box=None, pad_edge=False)
    is_sound = True
    for contract in load_contracts(settings.contracts).values():
        for server in contract.live_servers:
            if server.kind != "kafka":
                continue
            state = ensure_topic(kafka(settings), topic_of(settings, contract, server))
            differs = "; ".join(f"{k} is {found}, wanted {want}" for k, (want, found) in state.differences.items())
            is_sound = is_sound and not differs
            topic = state.topic
            sizes = str(topic.partitions), str(topic.replication)
            table.add_row(contract.name, topic.name, *sizes, "made" if state.is_new else differs or "as wanted")
    console.print(table)
    sys.exit(0 if is_sound else 1)


@app.command("replay")
def replay_topic(
    dataset: Dataset,
    from_offset: Annotated[
        list[str] | None, typer.Option(help="partition:offset to begin at; may be given for each partition.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Moment to begin at, such as 2026-11-16T08:00 (UTC).")] = None,
) -> None:
    """Read landed messages of a topic again and replace exactly those in Bronze, in one commit.

    Silver and Gold of the touched days are rebuilt by the next `stream run`.
    """
    from stream_assets.bronze.replay import parse_start, replay
    from stream_assets.engine.session import open_session

    if bool(from_offset) == bool(since):
        raise typer.BadParameter("give --from-offset or --since")
    settings = Settings.from_env()
    contract = _contract(settings, dataset)
    start = _moment(since) if since else dict(parse_start(text) for text in from_offset or ())
    with Console(stderr=True).status("Replaying …"):
        step = replay(open_session(settings), settings, contract, start, run_id=f"replay-{uuid4()}")
    console.print(
        f"{step.records:,} messages read again. Touched event days: {', '.join(map(str, step.touched)) or 'none'}. "
        f"Run `stream run --select {dataset}` to rebuild what is made of them.",
        soft_wrap=True,
    )


@app.command("skip")
def skip_messages(dataset: Dataset) -> None:
    """Go on after messages that expired unread, or at the beginning of a topic that was made anew."""
    from stream_assets.bronze.follow import skip_lost
    from stream_assets.engine.session import open_session

    settings = Settings.from_env()
    contract = _contract(settings, dataset)
    with Console(stderr=True).status("Looking …"):
        positions = skip_lost(open_session(settings), settings, contract, run_id=f"skip-{uuid4()}")
    places = ", ".join(f"{p}:{offset}" for p, offset in sorted(positions.offsets.items()))
    console.print(f"{positions.topic} goes on at {places}.")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no moment; use 2026-11-16T08:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _contract(settings: Settings, dataset: str) -> Contract:
    """The contract of a dataset that is read from a topic."""
    contract = load_contracts(settings.contracts).get(dataset)
    if contract is None or contract.server(settings.server).kind == "local":
        raise StreamError(
            f"{dataset} is not read from a topic: its contract has no server of that kind called {settings.server}. "
            "Set STREAM_SERVER, such as STREAM_SERVER=live."
        )
    return contract
