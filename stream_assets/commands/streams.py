"""`stream streams …`: long-lived queries and what becomes of them."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stream_assets.errors import StreamError
from stream_assets.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Live views: streaming queries that are kept alive.")
console = Console(highlight=False, file=sys.stdout)
Names = Annotated[list[str] | None, typer.Argument(help="Streams, by name. Default: all.")]
STOP_TIMEOUT_S = 120


def _streams(settings: Settings) -> Any:
    from stream_assets.contracts.load import load_contracts
    from stream_assets.secrets import pii_salt
    from stream_assets.streaming.load import load_views
    from stream_assets.streaming.queries import Streams

    contracts = load_contracts(settings.contracts)
    views = load_views(settings.views, contracts)
    for error in views.broken:
        Console(stderr=True, highlight=False).print(f"[bold red]refused[/] {error}", soft_wrap=True)
    return Streams(settings, contracts, views, pii_salt(settings))


def _chosen(streams: Any, names: list[str] | None) -> list[str]:
    """The streams asked for, with the event logs they need."""
    if unknown := set(names or ()) - set(streams.names):
        raise StreamError(f"No stream is called {', '.join(sorted(unknown))}. There are {', '.join(streams.names)}.")
    needed = {f"{source}_events" for name in names or () if (view := streams.view(name)) for source in view.sources}
    return [name for name in streams.names if not names or name in {*names, *needed}]


@app.command()
def run(names: Names = None) -> None:
    """Run streams, look after them, and report to Dagster, until stopped. With a supervisor running: let these work again."""
    from stream_assets.ops.feeds import build_feeds
    from stream_assets.ops.prepare import prepare_home
    from stream_assets.streaming.assets import dagster_report
    from stream_assets.streaming.control import Control
    from stream_assets.streaming.supervise import Supervisor

    settings = Settings.from_env()
    streams = _streams(settings)
    chosen = _chosen(streams, names)
    control = Control.of(settings)
    control.resume(chosen)
    if control.status()["running"]:
        console.print(f"Supervised already: {', '.join(chosen)} will work again.")
        return
    prepare_home(settings)
    feeds = build_feeds(settings, streams, chosen)
    console.print(f"Running {', '.join([*feeds, *chosen])}.", soft_wrap=True)
    console.print(
        "`stream streams status` tells how they do; Ctrl-C or `stream streams stop` ends them.", soft_wrap=True
    )
    with dagster_report(settings, streams) as report:
        Supervisor(streams, chosen, report=report, feeds=feeds, say=_say).run()
    console.print("Stopped.")


def _say(line: str) -> None:
    console.print(f"[dim]{datetime.now():%H:%M:%S}[/] {escape(line)}", soft_wrap=True)


@app.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> None:
    """Say how every stream is doing. Exits 1 if none is supervised or one is not running. Starts nothing."""
    from stream_assets.streaming.control import Control

    told = Control.of(Settings.from_env()).status()
    if as_json:
        print(json.dumps(told, indent=2))
    else:
        show_status(told)
    sys.exit(0 if told["running"] and all(one["state"] in ("running", "stopped") for one in told["streams"]) else 1)


def show_status(told: dict[str, Any]) -> None:
    """The status as a table."""
    state = (
        f"Supervised by process {told['pid']}, seen {told['at']}."
        if told["running"]
        else "No supervisor runs: `stream streams run`."
    )
    console.print(state)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("stream", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in ("rows in", "rows/s", "behind", "watermark", "held", "late", "served"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in told["streams"]:
        colour = {"running": "green", "waiting": "red"}.get(one["state"], "yellow")
        counts = (one["state_rows"], one["late_rows"], one["served_rows"])
        table.add_row(
            one["name"], f"[{colour}]{one['state']}[/]", _count(one["rows"]), f"{one['rate']:,.0f}", _behind(one),
            (one["watermark"] or "")[11:19], *(_count(count) if count else "" for count in counts),
        )  # fmt: skip
    console.print(table)
    for one in told["streams"]:
        if one["restarts"] or one["error"]:
            again = f"started again {one['restarts']} times. " if one["restarts"] else ""
            console.print(f"[red]{one['name']}[/] {again}{escape(one['error'] or '')}", soft_wrap=True)


def _count(number: int) -> str:
    """A count in at most seven characters: eight columns have to fit on a terminal."""
    return f"{number:,}" if number < 1_000_000 else f"{number / 1e6:,.1f} M"


def _behind(one: dict[str, Any]) -> str:
    """How far a stream is behind its source: in time, or in messages of its topic."""
    if one["name"].startswith("bronze/"):
        return f"{one['lag_versions']:,} msg"
    return f"{one['lag_seconds']:.0f} s"


@app.command()
def stop(names: Names = None) -> None:
    """Stop the supervisor and every stream, or let some streams rest."""
    from stream_assets.streaming.control import Control

    settings = Settings.from_env()
    control = Control.of(settings)
    if names:
        _chosen(_streams(settings), names)
        control.pause(names)
        _wait(lambda: not control.status()["running"] or _all_stopped(control, names))
        console.print(f"Stopped {', '.join(names)}. `stream streams run {' '.join(names)}` lets them work again.")
        return
    if not control.end():
        console.print("No supervisor runs.")
        return
    _wait(lambda: not control.status()["running"])
    console.print("Stopped.")


@app.command()
def rebuild(name: Annotated[str, typer.Argument(help="A view, or the event log of a dataset.")]) -> None:
    """Compute a view anew from the log. Readers see its old rows until the new ones are complete."""
    from stream_assets.engine.session import open_session
    from stream_assets.streaming.control import Control
    from stream_assets.streaming.rebuild import rebuild as rebuild_stream

    settings = Settings.from_env()
    streams, control = _streams(settings), Control.of(settings)
    _chosen(streams, [name])
    affected = (
        [name]
        if streams.view(name)
        else [name, *(view.name for view in streams.views.of(name.removesuffix("_events")))]
    )
    rested = [one for one in affected if one not in control.paused]
    control.pause(rested)
    try:
        _wait(lambda: not control.status()["running"] or _all_stopped(control, affected))
        rows = rebuild_stream(open_session(settings), streams, name)
    finally:
        control.resume(rested)
    console.print(f"Rebuilt {name} from the log: {rows:,} rows.")


def _all_stopped(control: Any, names: list[str]) -> bool:
    return all(one["state"] == "stopped" for one in control.status()["streams"] if one["name"] in names)


def _wait(is_done: Any) -> None:
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while not is_done():
        if time.monotonic() > deadline:
            raise StreamError(f"Still not stopped after {STOP_TIMEOUT_S} s: see `stream streams status`.")
        time.sleep(0.2)
