"""What a run prints is read in terminals of 80 columns and in logs."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from stream_assets.contracts.load import load_contracts
from stream_assets.ops.run import ExecutionResult
from stream_assets.ops.show import Progress, show_result
from stream_assets.settings import Settings

MILLIONS = 12_699_175


def printed() -> tuple[Console, StringIO]:
    """A console of 80 columns, and what it printed."""
    text = StringIO()
    return Console(file=text, width=80), text


def test_summary_of_millions_fits_into_80_columns() -> None:
    """No heading, name or number is cut off, for the sample's datasets with millions of rows each."""
    settings = Settings.from_env()
    contracts = load_contracts(settings.contracts)
    facts = {"rows": MILLIONS, "quarantined": MILLIONS, "duplicates": MILLIONS}
    made = {f"{layer}/{name}": facts for layer in ("bronze", "silver") for name in contracts}
    console, text = printed()
    show_result(console, settings, contracts, ExecutionResult(days=["2025-01-01", "2025-12-31"], assets=made))
    lines = [line.split() for line in text.getvalue().splitlines()]
    heading, *rows = [words for words in lines if words and words[0] in ("dataset", *contracts)]
    assert heading == ["dataset", "Bronze", "Silver", "quarantined", "duplicates", "checks", "freshness"]
    assert [row[:5] for row in rows] == [[name, *[f"{MILLIONS:,}"] * 4] for name in contracts]


def test_a_finished_step_is_one_line() -> None:
    """A log that is read line by line has the rows of a step beside its name."""
    console, text = printed()
    progress = Progress(console)
    progress.report("refine_payments", "started", {})
    for layer in ("silver", "quarantine"):
        progress.report(f"{layer}/payments", "rows", {"step": "refine_payments", "rows": MILLIONS})
    progress.report("refine_payments", "done", {"seconds": 187.8})
    (line,) = text.getvalue().splitlines()
    assert "silver/payments 12,699,175, quarantine/payments 12,699,175" in line
