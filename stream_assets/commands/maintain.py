"""`stream maintain`: do what is due, or show it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated
from uuid import uuid4

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from stream_assets.settings import Settings

console = Console(highlight=False, file=sys.stdout)


def maintain(
    select: Annotated[str | None, typer.Option(help="Only tables whose name contains this, such as silver/.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what is due and change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the chores as JSON.")] = False,
) -> None:
    """Retention by contract, compaction of small files, vacuum within the rollback window, pruning of old reports.

    Safe beside runs, streams and readers. The schedule `nightly_maintenance` does the same every night.
    """
    from stream_assets.ops.maintenance.chores import Chore
    from stream_assets.ops.maintenance.jobs import chores_of

    settings = Settings.from_env()
    chores = chores_of(settings, select)
    if not dry_run:
        chores = _do(settings, chores)
    if as_json:
        print(json.dumps([{"text": c.text, **asdict(c)} for c in chores], indent=2, default=str))
        sys.exit(1 if any(chore.problem for chore in chores) else 0)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("chore", "table or folder", "what"):
        table.add_column(name)
    table.add_column("MB", justify="right")
    table.add_column("" if dry_run else "done")

    def outcome(chore: Chore) -> str:
        after = chore.after
        if chore.problem:
            return f"[red]not done:[/] {chore.problem}"
        if "files_before" not in after:
            return "removed" if after else ""
        disk = (after["disk_bytes_before"] - after["disk_bytes"]) / 1e6
        return f"{after['files_before']} → {after['files']} files, {disk:,.1f} MB freed"

    for chore in chores:
        table.add_row(chore.kind, chore.subject, chore.text, f"{chore.bytes / 1e6:,.1f}", outcome(chore))
    console.print(table if chores else "Nothing is due.")
    sys.exit(1 if any(chore.problem for chore in chores) else 0)


def _do(settings: Settings, chores: list) -> list:
    from functools import cache

    from stream_assets.engine.session import open_session
    from stream_assets.ops.maintenance.work import do_chores

    session = cache(lambda: open_session(settings))
    done = []
    with Console(stderr=True).status("Starting …") as status:
        for chore in do_chores(session, settings, chores, f"maintain-{uuid4().hex[:8]}"):
            done.append(chore)
            status.update(f"{chore.kind} {chore.subject} done")
    return done
