"""How `stream why` tells the story of a record: a timeline for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from stream_assets.quality.words import count_text

COLOURS = {"accepted": "green", "quarantined": "red", "duplicate": "yellow", "corrected": "yellow"}


def show_story(console: Console, story: Mapping[str, Any]) -> None:
    """Each record from its arrival to its verdict, then where it is now."""
    key = ", ".join(f"{name} {value}" for name, value in story["key"].items())
    rules = f"{count_text(len(story['rules']), 'rule')} of contract {story['contract_version']}"
    records = count_text(len(story["records"]), "record")
    console.print(f"[bold]{story['dataset']}[/] {escape(key)}: {records}, {rules}", soft_wrap=True)
    for record in story["records"]:
        _show_record(console, record)
    for row in story["silver"]:
        console.print(f"[bold]Silver[/]  {_commit(row['commit'])}", soft_wrap=True)
        console.print(f"  {json.dumps(row['row'], ensure_ascii=False)}", markup=False, soft_wrap=True)
    if not story["silver"]:
        console.print("[bold]Silver[/]  has no such row")
    for table in story["gold"]:
        console.print(
            f"[bold]Gold[/]    {table['table']}: {len(table['rows'])} rows, {_commit(table['rows'][0]['commit'])}",
            soft_wrap=True,
        )
        console.print(f"  {json.dumps(table['rows'][0]['row'], ensure_ascii=False)}", markup=False, soft_wrap=True)


def _show_record(console: Console, record: Mapping[str, Any]) -> None:
    colour = COLOURS[record["verdict"]]
    console.print(f"\n[bold]{escape(record['source'])}:{record['position']}[/]", soft_wrap=True)
    console.print(
        f"  {record['arrived_at']}  arrived, delivery {record['delivery_date']}, event {record['event_date']}",
        soft_wrap=True,
    )
    console.print(f"  {_commit(record['bronze'])}  landed in Bronze", soft_wrap=True)
    console.print(f"  {_commit(record['judged'])}  [{colour}]{record['verdict']}[/]{_reason(record)}", soft_wrap=True)
    console.print(f"  {json.dumps(record['record'], ensure_ascii=False)}", markup=False, soft_wrap=True)


def _reason(record: Mapping[str, Any]) -> str:
    parts = [f"broke {', '.join(record['broken'])}"] if record["broken"] else []
    parts += [f"lost to {escape(record['lost_to'])}"] if record.get("lost_to") else []
    parts += [f"noted {', '.join(record['warned'])}"] if record["warned"] else []
    return f": {'; '.join(parts)}" if parts else ""


def _commit(commit: Mapping[str, Any] | None) -> str:
    return (
        f"{commit['committed_at'][:19]}  v{commit['version']} run {commit['run_id'][:13]}" if commit else "(no commit)"
    )
