"""`stream doctor`: is this installation in order?"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from stream_assets.settings import Settings

console = Console(highlight=False, file=sys.stdout)
MARKS = {"ok": "[green]✓[/]", "warn": "[yellow]![/]", "fail": "[red]✗[/]"}


def doctor(
    fix: Annotated[
        bool, typer.Option("--fix", help="End orphaned runs as failed and remove stale state files.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check the whole installation and say what to do where something is wrong. Exits 1 if a part fails."""
    from stream_assets.ops.doctor.checks import Line, examine, left_behind
    from stream_assets.ops.doctor.instance import examine_instance
    from stream_assets.ops.doctor.live import examine_live
    from stream_assets.ops.prepare import prepare_home

    settings = Settings.from_env()
    prepare_home(settings)
    for file in left_behind(settings) if fix else ():
        file.unlink(missing_ok=True)
    found: list[Line] = []
    for lines in (examine(settings), examine_live(settings), examine_instance(settings, fix=fix)):
        for line in lines:
            found.append(line)
            if not as_json:
                remedy = f"  [dim]→ {line.remedy}[/]" if line.remedy and line.state != "ok" else ""
                console.print(f"{MARKS[line.state]} {line.part:<15} {line.text}{remedy}", soft_wrap=True)
    if as_json:
        print(json.dumps([asdict(line) for line in found], indent=2))
    sys.exit(1 if any(line.state == "fail" for line in found) else 0)
