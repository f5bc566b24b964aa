"""How `stream contracts suggest` shows rules that could be promised, to people and to machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from rich.console import Console

from stream_assets.contracts.evidence import Survey
from stream_assets.contracts.model import Contract
from stream_assets.contracts.suggest import Suggestion


def show_suggestions(console: Console, contract: Contract, survey: Survey, suggestions: Sequence[Suggestion]) -> None:
    """Each rule as a fragment of YAML under its evidence."""
    rows, days = f"{survey.rows:,} rows", f"{len(survey.days)} days"
    console.print(f"# {contract.name}: {len(suggestions)} rules kept by all of {rows} in {days}", soft_wrap=True)
    for suggestion in suggestions:
        head = f"\n# {suggestion.rule} ({suggestion.confidence} confidence)\n# {suggestion.evidence}"
        console.print(head, markup=False, soft_wrap=True)
        console.print(_to_yaml(suggestion), markup=False, soft_wrap=True)


def suggestions_document(contract: Contract, survey: Survey, suggestions: Sequence[Suggestion]) -> dict[str, Any]:
    """The same for machines."""
    return {
        "dataset": contract.name,
        "rows": survey.rows,
        "days": [day.isoformat() for day in survey.days],
        "suggestions": [{**vars(suggestion), "yaml": _to_yaml(suggestion)} for suggestion in suggestions],
    }


def _to_yaml(suggestion: Suggestion) -> str:
    return yaml.safe_dump(suggestion.fragment, sort_keys=False, allow_unicode=True).rstrip()
