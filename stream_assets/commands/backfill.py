"""`stream backfill …`: plan what is stale, run a plan, look at plans."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.console import Console

from stream_assets.errors import StreamError
from stream_assets.ops.backfill.plan import Reason, load, load_all, store
from stream_assets.settings import Settings

app = typer.Typer(
    no_args_is_help=True, help="Plan repairs from what is really stale, and run them beside the live path."
)
console = Console(highlight=False, file=sys.stdout)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@app.command("plan")
def plan_backfill(
    reason: Annotated[str, typer.Option(help="schema or logic (all of history), bug (--from to --to), new-source.")],
    select: Annotated[str, typer.Option(help="What changed, such as 'key:\"silver/orders\"'. All downstream follows.")],
    first: Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day.")] = None,
    days_per_run: Annotated[int, typer.Option(min=1, help="A run covers at most so many days.")] = 31,
    out: Annotated[Path | None, typer.Option(dir_okay=False, help="Write the plan there too.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is stale, what making it again takes, what stands against it and how to undo it. Starts no engine."""
    from stream_assets.build import build_defs
    from stream_assets.ops.backfill import run
    from stream_assets.ops.backfill.make import Request
    from stream_assets.ops.backfill.show import show_plan

    if reason not in get_args(Reason):
        raise typer.BadParameter(f"{reason!r} is no reason: say {', '.join(get_args(Reason))}", param_hint="--reason")
    settings = Settings.from_env()
    request = Request(reason, select, _day(first), _day(last), days_per_run)  # pyright: ignore[reportArgumentType]
    plan = run.plan_backfill(settings, build_defs(settings), request)
    if out:
        store(settings.home, plan, to=out)
    print(plan.to_json()) if as_json else show_plan(console, plan)


@app.command("run")
def run_plan(
    name: Annotated[str, typer.Argument(metavar="PLAN", help="Id of a plan, the beginning of it, or its file.")],
    force: Annotated[bool, typer.Option("--force", help="Run although a pre-check failed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a plan, or go on with one that was interrupted. Exits 1 unless everything was made and verified."""
    from stream_assets.build import build_defs
    from stream_assets.ops.backfill import run
    from stream_assets.ops.backfill.show import show_plan
    from stream_assets.ops.show import Progress

    settings = Settings.from_env()
    plan = load(settings.home, name)
    if plan.blockers and not force:
        told = "; ".join(f"{check.name}: {check.text}" for check in plan.blockers)
        raise StreamError(f"{plan.id} must not start ({told}). Mend that and plan again, or run it with --force.")
    out = Console(highlight=False, file=sys.stderr) if as_json else console
    with Progress(out) as progress:
        plan = run.run_backfill(settings, build_defs(settings), plan, report=progress.report, note=progress.note)
    print(plan.to_json()) if as_json else show_plan(console, plan)
    sys.exit(0 if plan.status == "done" else 1)


@app.command("list")
def list_plans(as_json: AsJson = False) -> None:
    """Show every plan and what came of it."""
    from stream_assets.ops.backfill.show import show_plans

    plans = load_all(Settings.from_env().home)
    print(json.dumps([json.loads(plan.to_json()) for plan in plans], indent=2)) if as_json else show_plans(
        console, plans
    )


@app.command("show")
def show_one(
    name: Annotated[str, typer.Argument(metavar="PLAN", help="Id of a plan, the beginning of it, or its file.")],
    as_json: AsJson = False,
) -> None:
    """Show one plan and what came of it."""
    from stream_assets.ops.backfill.show import show_plan

    plan = load(Settings.from_env().home, name)
    print(plan.to_json()) if as_json else show_plan(console, plan)


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day; use YYYY-MM-DD") from None
