"""`stream cost`: what the lake costs, and what would make it cheaper."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from stream_assets.settings import Settings

console = Console(highlight=False, file=sys.stdout)


def cost(as_json: Annotated[bool, typer.Option("--json", help="Print the bill as JSON.")] = False) -> None:
    """Show bytes, compute seconds and money per dataset and layer for a month, and ways to save. Starts no engine.

    Prices are STREAM_PRICE_GB_MONTH and STREAM_PRICE_CORE_HOUR; STREAM_COST_BUDGET makes an alert of too much.
    """
    from stream_assets.ops.cost.instance import gather_bill
    from stream_assets.ops.prepare import prepare_home

    settings = Settings.from_env()
    prepare_home(settings)
    bill = gather_bill(settings)
    if as_json:
        totals = {"storage": bill.storage, "compute": bill.compute, "total": bill.total, "is_over": bill.is_over}
        print(json.dumps({**asdict(bill), **totals}, indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("table", no_wrap=True)
    for name in ("live MB", "disk MB", "runs", "seconds", "last", "per month"):
        table.add_column(name, justify="right", no_wrap=True)
    for t in bill.tables:
        sizes = (f"{t.live_bytes / 1e6:,.2f}", f"{t.disk_bytes / 1e6:,.2f}")
        times = (str(t.runs), f"{t.seconds_month:,.1f}", f"{t.seconds_last:,.1f}")
        table.add_row(t.table, *sizes, *times, f"{t.total:,.4f}")
    console.print(table)
    budget = f", budget {bill.budget:,.2f}" if bill.budget else ""
    colour = "red" if bill.is_over else "green"
    console.print(
        f"Per month: [{colour}]{bill.total:,.4f}[/] ({bill.storage:,.4f} storage, {bill.compute:,.4f} compute{budget})"
    )
    for tip in bill.suggestions:
        console.print(f"save {tip.saving:,.4f}: {tip.subject}: {tip.text} → {tip.command}", soft_wrap=True)
