"""`stream erase`: remove a person from everywhere, and prove it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from stream_assets.contracts.load import load_contracts
from stream_assets.settings import Settings

console = Console(highlight=False, file=sys.stdout)


def erase(
    subject: Annotated[str, typer.Option(help="Whom: column=value, such as customer_id=cus_42.")],
    reason: Annotated[str, typer.Option(help="Why, for the certificate. No personal data.")] = "",
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it. Without this, only what would be removed is shown.")
    ] = False,
    tombstones: Annotated[
        bool,
        typer.Option("--tombstones", help="Also publish messages without a value that end theirs on compacted topics."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Remove a person from Bronze, Silver, quarantine, Gold and live tables, with their past, and look through every file after.

    Versions that held the person can no longer be restored. Exits 1 if their key is still found anywhere but in the landing zone.
    """
    from stream_assets.engine.session import open_session
    from stream_assets.ops.erase.find import parse_subject
    from stream_assets.ops.erase.run import erase as remove
    from stream_assets.ops.erase.run import removed, trace

    settings = Settings.from_env()
    contracts = load_contracts(settings.contracts)
    person = parse_subject(subject, settings, contracts)
    spark = open_session(settings)
    with Console(stderr=True).status("Looking through every table …"):
        found = trace(spark, settings, contracts, person)
        topics = {on.topic: {"messages": on.messages, "can_end": len(on.keys) * on.can_end} for on in found.topics}
        told: dict[str, Any] = {"removed": removed(found), "landing": found.landing, "topics": topics, "executed": yes}
        told |= remove(spark, settings, contracts, found, reason=reason, tombstones=tombstones) if yes else {}
    print(json.dumps(told, indent=2)) if as_json else _show(told)
    sys.exit(0 if told.get("verified", True) else 1)


def _show(told: Mapping[str, Any]) -> None:
    table = Table("table", "days", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rows", justify="right")
    for asset, facts in told["removed"].items():
        table.add_row(asset, f"{len(facts['days']) or 'whole'}", f"{facts['rows']:,}")
    console.print(table)
    if told["landing"]:
        console.print(f"{len(told['landing'])} files of the landing zone name them; landing leaves these records out.")
    for topic, facts in told["topics"].items() if not told["executed"] else ():
        ends = f"; --tombstones ends {facts['can_end']} keys of theirs" if facts["can_end"] else ""
        console.print(f"{topic} has {facts['messages']:,} messages of theirs, which stay{ends}.", soft_wrap=True)
    if not told["executed"]:
        console.print(
            "Nothing was changed. Give --yes to remove this for good: versions that hold it cannot be restored."
        )
        return
    console.print(
        f"{told['old_files_removed']} old files removed or cleaned. Certificate: {told['place']}", soft_wrap=True
    )
    for part in told["remains"]:
        what = ", ".join(part["topics"]) if "topics" in part else f"{len(part['files'])} files"
        console.print(f"{what} remain: {part['reason']}", soft_wrap=True)
    console.print(
        "[green]Verified[/]: the key is in no file of the lake or of STREAM_HOME."
        if told["verified"]
        else "[red]Not verified.[/]"
    )
