"""`stream quarantine …` and `stream replay`: rejected records, from looking at them to having them accepted."""

from __future__ import annotations

import json
import os
import sys
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from stream_assets.commands.rollback import parse_days
from stream_assets.contracts.load import load_contracts
from stream_assets.contracts.model import Contract
from stream_assets.errors import StreamError
from stream_assets.settings import Settings

console = Console(highlight=False, file=sys.stdout)
app = typer.Typer(no_args_is_help=True, help="Records that broke their contract.")

Dataset = Annotated[str, typer.Argument(help="The dataset.")]
Rule = Annotated[str | None, typer.Option(help="Only records that broke this rule.")]
Day = Annotated[str | None, typer.Option("--day", help="A day or FROM..TO. Default: all.")]
Resolved = Annotated[bool, typer.Option("--resolved", help="Also records that are rejected no more.")]
Reveal = Annotated[bool, typer.Option("--reveal", help="Show personal data in the clear.")]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def _open(dataset: str) -> tuple[Settings, Contract]:
    settings = Settings.from_env()
    contracts = load_contracts(settings.contracts)
    if dataset not in contracts:
        raise StreamError(f"{settings.contracts} has no sound contract called {dataset}. See `stream contracts lint`.")
    return settings, contracts[dataset]


def _filter(rule: str | None, days: tuple[date, date] | None, *, with_resolved: bool) -> Any:
    from stream_assets.ops.quarantine.records import Filter

    first, last = days or (None, None)
    return Filter(rule, first, last, with_resolved)


@app.command("list")
def list_rejected(
    dataset: Annotated[str | None, typer.Argument(help="One dataset. Default: all.")] = None,
    day: Day = None,
    resolved: Resolved = False,
    as_json: Json = False,
) -> None:
    """Count rejected records by dataset, day, rule and contract version. Starts no engine."""
    from stream_assets.ops.quarantine.records import read_rejected
    from stream_assets.ops.quarantine.show import count_rejected, show_counts

    settings = Settings.from_env()
    names = [_open(dataset)[1].name] if dataset else sorted(load_contracts(settings.contracts))
    wanted = _filter(None, parse_days(day), with_resolved=resolved)
    counts = count_rejected(row for name in names for row in read_rejected(settings, name, wanted, payload=False))
    print(json.dumps(counts, indent=2)) if as_json else show_counts(console, counts)


@app.command("show")
def show_records(
    dataset: Dataset,
    rule: Rule = None,
    day: Day = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = 20,
    resolved: Resolved = False,
    reveal: Reveal = False,
    as_json: Json = False,
) -> None:
    """Show rejected records with every rule they broke; personal data is masked. Starts no engine."""
    from stream_assets.ops.quarantine.records import read_headers, read_rejected
    from stream_assets.ops.quarantine.show import rejected_document, show_rejected

    settings, contract = _open(dataset)
    wanted, headers = _filter(rule, parse_days(day), with_resolved=resolved), read_headers(settings, contract)
    found = islice(read_rejected(settings, dataset, wanted), limit)
    rows = [rejected_document(row, contract, headers.get(row.source), reveal=reveal) for row in found]
    print(json.dumps(rows, indent=2, ensure_ascii=False)) if as_json else show_rejected(console, rows)


@app.command("export")
def export_records(
    dataset: Dataset,
    to: Annotated[Path, typer.Option("--to", help="The file to write, one JSON line per record.")],
    rule: Rule = None,
    day: Day = None,
    reveal: Reveal = False,
) -> None:
    """Write rejected records to a file, to be edited and given to `stream replay --from-file`.

    Edit what is under `record`. A mask stands for the value as received: leave it, or write another value.
    """
    from stream_assets.ops.quarantine.records import read_headers, read_rejected
    from stream_assets.ops.quarantine.replay import export_lines

    settings, contract = _open(dataset)
    wanted, headers = _filter(rule, parse_days(day), with_resolved=False), read_headers(settings, contract)
    lines = list(export_lines(read_rejected(settings, dataset, wanted), contract, headers, reveal=reveal))
    with os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)
    console.print(f"{len(lines):,} records in {to}", soft_wrap=True)


def replay(
    dataset: Dataset,
    rule: Rule = None,
    first: Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day.")] = None,
    from_file: Annotated[
        Path | None, typer.Option("--from-file", exists=True, dir_okay=False, help="An edited export.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would happen.")] = False,
    as_json: Json = False,
) -> None:
    """Judge rejected records again under today's contract, and take in what it accepts. Doing it twice changes nothing.

    With --from-file, corrected records stand in for the originals, which Bronze keeps.
    """
    from stream_assets.ops.quarantine.show import replay_document, show_replay

    settings, contract = _open(dataset)
    days = parse_days(f"{first or '0001-01-01'}..{last or '9999-12-31'}") if first or last else None
    told, executed = _replay(settings, contract, _filter(rule, days, with_resolved=False), from_file, dry_run=dry_run)
    if told is None:
        print("{}") if as_json else console.print(f"Quarantine of {dataset} holds no such record.")
        return
    print(json.dumps(replay_document(told, executed=executed), indent=2)) if as_json else show_replay(console, told)
    if not as_json and not executed:
        console.print("Nothing was changed." if dry_run else "Nothing to do.")


def _replay(settings: Settings, contract: Contract, wanted: Any, file: Path | None, *, dry_run: bool) -> Any:
    from stream_assets.build import build_defs
    from stream_assets.engine.session import open_session
    from stream_assets.ops.quarantine.run import replay_records

    with Console(stderr=True).status("Judging records again …"):
        defs = build_defs(settings)
        return replay_records(open_session(settings), settings, defs, contract, wanted, file=file, dry_run=dry_run)
