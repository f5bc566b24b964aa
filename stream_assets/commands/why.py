"""`stream why`: the story of one record."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from stream_assets.contracts.load import load_contracts
from stream_assets.errors import StreamError
from stream_assets.settings import Settings

console = Console(highlight=False, file=sys.stdout)


def why(
    dataset: Annotated[str, typer.Argument(help="The dataset.")],
    key: Annotated[list[str], typer.Argument(help="The record's key, one value per key column.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the story as JSON.")] = False,
) -> None:
    """Tell the story of one record: how it came, how it was judged and why, and where it is now. Personal data is masked."""
    from stream_assets.build import build_defs
    from stream_assets.engine.session import open_session
    from stream_assets.ops.instance import descendants
    from stream_assets.ops.show_why import show_story
    from stream_assets.ops.why import explain

    settings = Settings.from_env()
    contracts = load_contracts(settings.contracts)
    if dataset not in contracts:
        raise StreamError(f"{settings.contracts} has no sound contract called {dataset}. See `stream contracts lint`.")
    below = descendants(build_defs(settings), f"silver/{dataset}")
    gold = [name.removeprefix("gold/") for name in below if name.startswith("gold/")]
    with Console(stderr=True).status("Looking for it …"):
        story = explain(open_session(settings), settings, contracts[dataset], key, gold)
    print(json.dumps(story, indent=2, ensure_ascii=False)) if as_json else show_story(console, story)
