"""How `stream quarantine` and `stream replay` show rejected records, to people and to machines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stream_assets.contracts.model import Contract
from stream_assets.ops.quarantine.records import Rejected, mask, parse
from stream_assets.silver.replay import Replay

GROUP = ("dataset", "day", "rule", "contract_version")


def count_rejected(rows: Iterable[Rejected]) -> list[dict[str, Any]]:
    """Records per dataset, day, rule and contract version. A record that breaks two rules counts for both."""
    counts: Counter[tuple[str, ...]] = Counter()
    resolved: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        for rule in row.violations:
            group = (row.dataset, row.event_date.isoformat(), rule, row.contract_version)
            (resolved if row.resolved_at else counts)[group] += 1
    groups = sorted({*counts, *resolved})
    return [dict(zip(GROUP, g, strict=True)) | {"open": counts[g], "resolved": resolved[g]} for g in groups]


def show_counts(console: Console, counts: list[dict[str, Any]]) -> None:
    """A line per dataset, day, rule and contract version."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in GROUP:
        table.add_column(name, overflow="fold")
    for name in ("open", "resolved"):
        table.add_column(name, justify="right")
    for group in counts:
        table.add_row(*(escape(str(group[name])) for name in GROUP), f"{group['open']:,}", f"{group['resolved']:,}")
    console.print(table if counts else "Nothing is in quarantine.")


def rejected_document(row: Rejected, contract: Contract, header: str | None, *, reveal: bool) -> dict[str, Any]:
    """One rejected record that can be shown: its personal data is masked unless it is revealed."""
    record = parse(row.raw, header)
    unreadable = row.raw if reveal else f"({len((row.raw or '').encode())} bytes that cannot be read)"
    return {
        "source": row.source,
        "position": row.position,
        "delivery_date": row.delivery_date.isoformat(),
        "event_date": row.event_date.isoformat(),
        "violations": list(row.violations),
        "contract_version": row.contract_version,
        "quarantined_at": row.quarantined_at.isoformat() if row.quarantined_at else None,
        "resolved_at": row.resolved_at.isoformat() if row.resolved_at else None,
        "resolution": row.resolution,
        "record": unreadable if record is None else record if reveal else mask(record, contract),
    }


def show_rejected(console: Console, rows: Iterable[Mapping[str, Any]]) -> None:
    """Each record under its place and the rules it broke."""
    for row in rows:
        state = f"[green]resolved: {escape(row['resolution'])}[/]" if row["resolved_at"] else "[red]open[/]"
        console.print(
            f"[bold]{escape(row['source'])}:{row['position']}[/]  {row['event_date']}  {state}", soft_wrap=True
        )
        console.print(f"  broke   {', '.join(row['violations'])} (contract {row['contract_version']})", soft_wrap=True)
        console.print(f"  record  {json.dumps(row['record'], ensure_ascii=False)}", markup=False, soft_wrap=True)


FATES = ("recovered", "still_rejected", "newly_rejected")


def replay_document(replay: Replay, *, executed: bool) -> dict[str, Any]:
    """What a replay does, for machines."""
    return {
        "dataset": replay.dataset,
        "contract_version": replay.contract_version,
        "executed": executed,
        **{fate: replay.total(fate) for fate in FATES},
        "rules": {fate: dict(sorted(getattr(replay, fate).items())) for fate in FATES},
        "days": [vars(day) for day in replay.days],
    }


def show_replay(console: Console, replay: Replay) -> None:
    """What becomes of the records, by rule and by day."""
    console.print(f"[bold]{replay.dataset}[/] under contract {replay.contract_version}")
    rules = Table("rule", box=box.SIMPLE_HEAD, pad_edge=False)
    days = Table("day", box=box.SIMPLE_HEAD, pad_edge=False)
    for fate in FATES:
        rules.add_column(fate.replace("_", " "), justify="right")
        days.add_column(fate.replace("_", " "), justify="right")
    for rule in sorted({*replay.recovered, *replay.still_rejected, *replay.newly_rejected}):
        rules.add_row(escape(rule), *(f"{getattr(replay, fate)[rule]:,}" for fate in FATES))
    for day in replay.days:
        days.add_row(day.day, *(f"{getattr(day, fate):,}" for fate in FATES))
    console.print(rules)
    console.print(days)
    console.print(", ".join(f"{replay.total(fate):,} {fate.replace('_', ' ')}" for fate in FATES))
