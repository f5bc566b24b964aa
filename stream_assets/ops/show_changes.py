"""How `stream contracts diff` and `propose` show changes, to people and to machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stream_assets.contracts.propose import Proposal, to_fragment
from stream_assets.contracts.versions import DatasetDiff

COLOURS = {"ok": "green", "warning": "yellow", "failure": "red"}


def show_changes(console: Console, diffs: Sequence[DatasetDiff]) -> None:
    """A table per dataset, each under its versions and the verdict."""
    for diff in diffs:
        colour = COLOURS[diff.verdict]
        console.print(f"[bold]{diff.name}[/] {_versions(diff)}  [{colour}]{_verdict(diff)}[/]", soft_wrap=True)
        console.print(_table(diff))
    failed = sum(diff.verdict == "failure" for diff in diffs)
    warned = sum(diff.verdict == "warning" for diff in diffs)
    console.print(f"{len(diffs)} datasets changed, {failed} without the version they need, {warned} with a warning")


def _table(diff: DatasetDiff) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("field", "change", "kind", "direction", "why"):
        table.add_column(name, overflow="fold")
    for change in diff.changes:
        kind = f"[red]{change.kind}[/]" if change.kind == "breaking" else change.kind
        table.add_row(change.field, escape(change.what), kind, change.direction, change.reason)
    return table


def _versions(diff: DatasetDiff) -> str:
    return f"{diff.old_version or 'new'} → {diff.new_version or 'removed'}"


def _verdict(diff: DatasetDiff) -> str:
    if diff.verdict == "ok":
        return "ok"
    need = f" needs a {diff.needs} version." if diff.new_version else ""
    return f"{diff.verdict}:{need} {diff.advice}"


def show_proposal(console: Console, proposal: Proposal) -> None:
    """The part of the contract that would change, as YAML, with whom it hurts as comments."""
    for name in proposal.kept:
        console.print(f"# {name} had no values, but records cannot be told apart or dated without it.", soft_wrap=True)
    if not proposal.changes:
        console.print(f"# Nothing to propose: records of {proposal.contract.name} carry the columns of the contract.")
        return
    for change in proposal.changes:
        console.print(f"# {change.field}: {change.kind}. {change.reason}", markup=False, soft_wrap=True)
    text = yaml.safe_dump(to_fragment(proposal), sort_keys=False, allow_unicode=True)
    console.print(text.rstrip(), markup=False, soft_wrap=True)


def changes_document(diffs: Sequence[DatasetDiff]) -> dict[str, Any]:
    """The same for machines."""
    return {
        "passed": all(diff.verdict != "failure" for diff in diffs),
        "datasets": [_dataset_document(diff) for diff in diffs],
    }


def _dataset_document(diff: DatasetDiff) -> dict[str, Any]:
    return {
        "name": diff.name,
        "old_version": diff.old_version,
        "new_version": diff.new_version,
        "needs": diff.needs,
        "has": diff.has,
        "verdict": diff.verdict,
        "advice": diff.advice,
        "changes": [
            {
                "field": change.field,
                "what": change.what,
                "kind": change.kind,
                "direction": change.direction,
                "reason": change.reason,
            }
            for change in diff.changes
        ],
    }
