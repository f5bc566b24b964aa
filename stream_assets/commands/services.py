"""`stream services …`: Kafka, Postgres, Kafka Connect and a schema registry on this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stream_assets.settings import Settings

app = typer.Typer(
    no_args_is_help=True, help="Kafka, Postgres, Kafka Connect and a schema registry on this machine, loopback only."
)
console = Console(highlight=False, file=sys.stdout)
Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="kafka, postgres, connect, registry. Default: the first three, and registry once it was asked for."
    ),
]


@app.command()
def up(names: Names = None) -> None:
    """Start the servers that do not run, and wait until each answers. State and logs are in $STREAM_HOME/services."""
    from stream_assets.services.local import up as bring_up

    with console.status("Starting …"):
        bring_up(Settings.from_env(), names or (), report=_tell)


@app.command()
def down(names: Names = None) -> None:
    """Stop the servers. What they hold stays and is there again after `up`."""
    from stream_assets.services.local import down as bring_down

    bring_down(Settings.from_env(), names or (), report=_tell)


@app.command()
def status(
    names: Names = None, as_json: Annotated[bool, typer.Option("--json", help="Print the state as JSON.")] = False
) -> None:
    """Show how the servers stand. Exits 1 if one is down."""
    from stream_assets.services.local import status as look

    found = look(Settings.from_env(), names or ())
    if as_json:
        print(json.dumps([asdict(state) for state in found], default=str, indent=2))
    else:
        table = Table("service", "state", "address", "process", box=None, pad_edge=False)
        table.add_column("log", overflow="fold")
        for state in found:
            address = f"127.0.0.1:{state.port}" if state.port else ""
            table.add_row(state.name, state.state, address, str(state.pid or ""), str(state.log or ""))
        console.print(table)
    sys.exit(0 if all(s.state == "running" or s.state.startswith("elsewhere") for s in found) else 1)


def _tell(service: str, what: str) -> None:
    console.print(f"{service:<9} {what}", soft_wrap=True)
