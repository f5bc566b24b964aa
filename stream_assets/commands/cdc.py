"""`stream cdc …`: follow the changes of Postgres tables, by Debezium connectors made from the contracts."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from stream_assets.contracts.load import load_contracts
from stream_assets.errors import StreamError
from stream_assets.settings import Settings

if TYPE_CHECKING:
    from stream_assets.contracts.model import Contract, Server
    from stream_assets.sources.capture import CaptureState

app = typer.Typer(no_args_is_help=True, help="Follow the changes of Postgres tables, from their log.")
console = Console(highlight=False, file=sys.stdout)
Datasets = Annotated[list[str] | None, typer.Argument(help="Datasets. Default: all with a postgres server.")]


@app.command()
def up(
    datasets: Datasets = None,
    fix: Annotated[bool, typer.Option(help="Set REPLICA IDENTITY FULL where the contract wants it.")] = False,
) -> None:
    """Make topic and connector of each dataset, or bring them up to date, and wait until changes flow."""
    from stream_assets.sources.capture import start

    settings = Settings.from_env()
    with Console(stderr=True).status("Waiting until changes flow …"):
        found = [start(settings, *dataset, fix=fix) for dataset in _chosen(settings, datasets)]
    _report(found, then="`STREAM_SERVER=live stream run --select {}` brings them in.")


@app.command()
def status(
    datasets: Datasets = None, as_json: Annotated[bool, typer.Option("--json", help="Print the state as JSON.")] = False
) -> None:
    """Show connector and slot of each dataset. Exits 1 if changes do not flow, and says what to run."""
    from stream_assets.sources.capture import capture, look

    settings = Settings.from_env()
    found = [look(settings, capture(*dataset)) for dataset in _chosen(settings, datasets)]
    if as_json:
        print(json.dumps([asdict(state) | {"problem": state.problem} for state in found], indent=2))
        sys.exit(1 if any(state.problem for state in found) else 0)
    _report(found)


@app.command()
def pause(datasets: Datasets = None) -> None:
    """Stop reading for a while. The database keeps its log meanwhile: watch its disk."""
    _command("pause", datasets)


@app.command()
def resume(datasets: Datasets = None) -> None:
    """Go on where `pause` stopped."""
    _command("resume", datasets)


@app.command()
def down(
    datasets: Datasets = None,
    drop: Annotated[bool, typer.Option(help="Drop slot and publication too: the next `up` takes a snapshot.")] = False,
) -> None:
    """Remove the connectors. Their slots stay, so that nothing is lost, and hold back the database's log until `up`."""
    from stream_assets.sources.capture import capture, stop

    settings = Settings.from_env()
    for contract, server in _chosen(settings, datasets):
        wanted = capture(contract, server)
        stop(settings, wanted, drop=drop)
        kept = "" if drop else f"; slot {wanted.slot} still holds back the database's log (`--drop` ends that)"
        console.print(f"{contract.name}: connector removed{kept}", soft_wrap=True)


@app.command()
def resnapshot(dataset: Annotated[str, typer.Argument(help="Dataset.")]) -> None:
    """Begin anew after changes were lost: read every row again, and end those that vanished meanwhile.

    A dataset whose contract takes no snapshot (never, schema_only) goes on with the changes from now on.
    """
    from stream_assets.sources.capture import resnapshot as begin_anew

    settings = Settings.from_env()
    _report([begin_anew(settings, *chosen) for chosen in _chosen(settings, [dataset])])


@app.command()
def sample(
    days: Annotated[int, typer.Option(help="Days of changes.")] = 14,
    scale: Annotated[float, typer.Option(help="Size of the shop; 1 is about 2,000 orders a day.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Source of every choice.")] = 7,
    rate: Annotated[float | None, typer.Option(help="Changes a second. Default: as fast as it goes.")] = None,
) -> None:
    """Make the sample's customers in Postgres, and insert, update and delete them as their days go by."""
    from datetime import UTC, datetime

    from stream_assets.sample.customers import TABLE, customer_changes
    from stream_assets.services.addresses import postgres_dsn
    from stream_assets.sources import postgres

    changes = customer_changes(days=days, end=datetime.now(UTC).date(), scale=scale, seed=seed)
    with (
        Console(stderr=True).status("Changing customers …"),
        postgres.connection(postgres_dsn(Settings.from_env())) as database,
    ):
        database.execute(TABLE)
        done = postgres.apply(database, changes, rate=rate)
    console.print(f"{done:,} changes of customers made in Postgres. `stream cdc up customers --fix` follows the table.")


def _command(verb: str, datasets: list[str] | None) -> None:
    from stream_assets.services.addresses import connect_url
    from stream_assets.sources import connect
    from stream_assets.sources.capture import capture

    settings = Settings.from_env()
    for contract, server in _chosen(settings, datasets):
        connect.command(connect_url(settings), capture(contract, server).connector, verb)  # pyright: ignore[reportArgumentType]
        console.print(f"{contract.name}: {verb}d")


def _chosen(settings: Settings, names: list[str] | None) -> list[tuple[Contract, Server]]:
    from stream_assets.sources.capture import captured

    known = captured(load_contracts(settings.contracts).values())
    if strange := set(names or ()) - set(known):
        listed = ", ".join(known) or "none"
        raise StreamError(
            f"{min(strange)} is not followed by its database's log. Datasets with such a server: {listed}."
        )
    return [known[name] for name in names or known]


def _report(found: list[CaptureState], *, then: str = "") -> None:
    """Print a table and what comes next, or what is wrong: then exit 1."""
    from stream_assets.sources.capture import megabytes

    table = Table("dataset", "table", "connector", "slot", "log kept", "topic", box=None, pad_edge=False)
    for state in found:
        wanted, slot = state.capture, state.slot
        slot_state = "gone" if slot is None else "lost" if slot.is_lost else "read" if slot.is_active else "idle"
        slot_state = slot_state if wanted.reads_log else "none"
        kept = "" if slot is None else megabytes(slot)
        place = f"{wanted.schema}.{wanted.table}"
        table.add_row(wanted.dataset, place, state.connector.state.lower(), slot_state, kept, wanted.topic)
    console.print(table)
    problems = [(state.capture.dataset, *state.problem) for state in found if state.problem]
    for dataset, problem, remedy in problems:
        console.print(f"[red]{dataset}[/red]: {problem}. Run `{remedy}`.", soft_wrap=True)
    if then and not problems:
        names = [state.capture.dataset for state in found]
        console.print(f"Changes flow. {then.format(names[0])}" if len(names) == 1 else "Changes flow.", soft_wrap=True)
    sys.exit(1 if problems else 0)
