"""`stream rollback`: put days back to what they were."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from stream_assets.errors import StreamError
from stream_assets.settings import Settings

console = Console(highlight=False, file=sys.stdout)


def rollback(
    run: Annotated[
        str | None, typer.Option(help="Undo everything this run wrote. The start of its id will do.")
    ] = None,
    asset: Annotated[str | None, typer.Option(help="Go back with one table, such as silver/orders.")] = None,
    partition: Annotated[str | None, typer.Option(help="A day or FROM..TO. Default: every day that changed.")] = None,
    to: Annotated[str | None, typer.Option(help="Version or time (UTC). Default: before the latest change.")] = None,
    downstream: Annotated[bool, typer.Option("--downstream", help="Also what was made of it since.")] = False,
    include_later: Annotated[
        bool, typer.Option("--include-later", help="Undo also what other runs did since to the same days.")
    ] = False,
    release: Annotated[
        bool, typer.Option("--release", help="Restore nothing: let runs compute held days of --asset again.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without this, only the plan is shown.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Put days of tables back to what they were, from their own history. Shows the plan; --yes does it.

    A restored day of Silver or Bronze is held: runs leave it alone until what made it wrong has changed.
    """
    if bool(run) == bool(asset) or (run and (partition or to)) or (release and not asset):
        raise typer.BadParameter("give --run, or --asset with --partition and --to as you need them")
    settings, days = Settings.from_env(), parse_days(partition)
    if release:
        _release(settings, str(asset), days, yes=yes)
        return
    from stream_assets.build import build_defs
    from stream_assets.ops.instance import descendants
    from stream_assets.ops.prepare import prepare_home
    from stream_assets.ops.rollback.plan import Request, plan_rollback
    from stream_assets.ops.rollback.show import plan_document, show_plan

    prepare_home(settings)
    defs = build_defs(settings)
    request = Request(run, asset, days, to, downstream, include_later)
    plan = plan_rollback(settings, request, lambda name: descendants(defs, name))
    if not as_json:
        show_plan(console, plan)
    is_done = yes and not plan.problems and bool(plan.restores or plan.rebuilds)
    if is_done:
        from stream_assets.ops.rollback.run import run_plan

        run_plan(settings, defs, plan, reason)
    if as_json:
        print(json.dumps(plan_document(plan, executed=is_done), indent=2))
    elif is_done:
        console.print(f"Done as {plan.id}. Undo it with `stream rollback --run {plan.id} --yes`.", soft_wrap=True)
    elif plan.restores and not plan.problems:
        console.print("Nothing was changed. Give --yes to do this.")
    sys.exit(1 if plan.problems else 0)


def _release(settings: Settings, asset: str, days: tuple[date, date] | None, *, yes: bool) -> None:
    from stream_assets.engine.history import read_history
    from stream_assets.engine.session import open_session
    from stream_assets.ops.rollback.execute import held_days, release

    layer, _, name = asset.partition("/")
    history = read_history(settings.table_path(layer, name))
    if history is None:
        raise StreamError(f"The lake {settings.lake} has no table {asset}. Assets are called layer/name.")
    held: dict[str, Any] = {day: entry["held"] for day, entry in held_days(history, days).items()}
    for day, mark in sorted(held.items()):
        console.print(f"{day}  held by {mark['by']} until {mark['until']}", soft_wrap=True)
    if held and yes:
        release(open_session(settings), history, asset, days, f"release-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    told = "Released: the next run computes them again." if yes else "Give --yes to let runs compute them again."
    console.print(told if held else f"No day of {asset} is held.")


def parse_days(text: str | None) -> tuple[date, date] | None:
    """A day or FROM..TO as a range."""
    if not text:
        return None
    first, _, last = text.partition("..")
    try:
        days = date.fromisoformat(first), date.fromisoformat(last or first)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a day like 2025-03-09 nor 2025-03-01..2025-03-09") from None
    if days[0] > days[1]:
        raise typer.BadParameter(f"{text!r} ends before it begins")
    return days
