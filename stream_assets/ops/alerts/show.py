"""What `stream alerts` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stream_assets.ops.alerts.channels import build_channels
from stream_assets.ops.alerts.deliver import is_open
from stream_assets.ops.alerts.incidents import Incident
from stream_assets.ops.alerts.message import days, one_line, repair, runbook
from stream_assets.ops.alerts.outbox import Outbox
from stream_assets.settings import SEVERITIES, Settings

COLOURS = {"warning": "yellow", "error": "red", "critical": "bold red"}


def describe(settings: Settings) -> dict[str, Any]:
    """Open incidents, the worst and oldest first, and how each channel fares."""
    outbox = Outbox(settings.home)
    backlog = outbox.backlog()
    incidents = sorted(
        outbox.incidents().values(), key=lambda i: (-SEVERITIES.index(i.condition.severity), i.opened_at)
    )
    return {
        "incidents": [_describe_incident(incident) for incident in incidents],
        "channels": {
            name: _describe_channel(outbox, name, backlog.get(name, 0)) for name in build_channels(settings.alerts)
        },
    }


def _describe_incident(incident: Incident) -> dict[str, Any]:
    about = incident.condition
    return {
        "incident": about.key,
        "severity": about.severity,
        "asset": about.subject,
        "rule": about.rule,
        "found": one_line(about.found),
        "expected": one_line(about.expected),
        "partitions": list(about.partitions),
        "owners": list(about.owners),
        "opened_at": incident.opened_at.isoformat(timespec="seconds"),
        "told_at": incident.told_at.isoformat(timespec="seconds"),
        "runbook": runbook(about),
        "repair": repair(about),
    }


def _describe_channel(outbox: Outbox, name: str, waiting: int) -> dict[str, Any]:
    health = outbox.health(name)
    return {
        "waiting": waiting,
        "failures": health.failures,
        "breaker_open": is_open(health),
        "problem": health.problem,
        "retry_at": health.retry_at.isoformat(timespec="seconds") if health.retry_at else None,
    }


def show_incidents(console: Console, found: Mapping[str, Any]) -> None:
    """Incidents as a table, then how to repair them, then the channels that do not keep up."""
    if not found["incidents"]:
        console.print("No open incident.")
    else:
        _show_table(console, found["incidents"])
    for name, channel in found["channels"].items():
        if channel["waiting"] or channel["failures"]:
            why = f", {channel['problem']}; next try {channel['retry_at']}" if channel["failures"] else ""
            console.print(f"[yellow]{name}[/] {channel['waiting']} alerts waiting{why}", soft_wrap=True)


def _show_table(console: Console, incidents: list[dict[str, Any]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("severity", "incident", "days", "found", "owner", "since"):
        table.add_column(title, overflow="fold")
    for one in incidents:
        severity = f"[{COLOURS[one['severity']]}]{one['severity']}[/]"
        facts = (one["incident"], days(tuple(one["partitions"])), one["found"], ", ".join(one["owners"]))
        table.add_row(severity, *map(escape, facts), one["opened_at"][:16].replace("T", " "))
    console.print(table)
    for one in incidents:
        console.print(f"[dim]{one['asset']}[/] {one['repair'] or one['runbook']}", soft_wrap=True)


def show_trials(console: Console, problems: Mapping[str, str]) -> None:
    """Which channels took the test alert."""
    for name, problem in problems.items():
        console.print(f"[red]✗[/] {name:<8} {problem}" if problem else f"[green]✓[/] {name}", soft_wrap=True)
