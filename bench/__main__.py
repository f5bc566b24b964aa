"""`python -m bench`: run the scenarios, show and keep what was measured. Nothing is shown for outputs that are not equal."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.data import SIZES
from bench.peers import peers
from bench.report import machine, show, show_streams, write
from bench.scenarios import Bench, checks, longer, quadruple, run_history
from bench.streams import LOADS, streams
from stream_assets.settings import PROJECT

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
SCENARIOS = ("full", "day", "backfill", "repair", "4x", "history", "checks", "peers", "streams")


@app.command()
def main(
    size: Annotated[str, typer.Option(help=f"How much data: {', '.join(SIZES)}.")] = "medium",
    only: Annotated[
        str,
        typer.Option(help="Scenarios, separated by commas. A day, a backfill and a repair need the full load first."),
    ] = ",".join(SCENARIOS),
    out: Annotated[Path, typer.Option(help="Where deliveries, lakes and results go.")] = PROJECT / ".bench",
) -> None:
    """Compare Stream with a plain PySpark script and with DuckDB on the same job, and its checks with Great Expectations."""
    wanted = set(only.split(","))
    if size not in SIZES or not wanted <= set(SCENARIOS):
        raise typer.BadParameter(f"sizes are {', '.join(SIZES)}; scenarios are {', '.join(SCENARIOS)}")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    facts = {"size": size, "machine": machine()}
    bench = Bench(out.absolute(), SIZES[size], lambda text: console.print(text, soft_wrap=True))
    if wanted & {"full", "day", "backfill", "repair"}:
        run_history(bench, wanted)
    if "4x" in wanted:
        quadruple(bench)
    if "history" in wanted:
        longer(bench)
    if "checks" in wanted:
        checks(bench)
    if "peers" in wanted:
        peers(bench)
    if "streams" in wanted:
        figures = streams(bench, LOADS[size])
        facts["streams"] = [asdict(figure) for figure in figures]
        show_streams(console, figures)
    if bench.results:
        show(console, bench.results)
    write(bench.root, bench.results, facts)
    console.print(f"Written to {bench.root}: results.json", soft_wrap=True)


if __name__ == "__main__":
    app()
