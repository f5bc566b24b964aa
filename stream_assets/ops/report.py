"""Gathers the quality report from the ledgers of the lake and the Dagster instance, and stores it. Nothing here starts Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from stream_assets.contracts.model import Contract
from stream_assets.engine.log import LoggedCommit, newest_entries, read_log
from stream_assets.ops.status import DatasetStatus, dataset_status
from stream_assets.quality.drift import judge_days
from stream_assets.quality.outcomes import Entries
from stream_assets.quality.page import render_page
from stream_assets.quality.report import (
    DatasetFacts,
    Report,
    ServiceLevel,
    Window,
    build_report,
    find_anomalies,
    find_column_changes,
    latest_page,
    report_document,
    window_of,
)
from stream_assets.quality.score import CheckResult
from stream_assets.settings import Settings

DAYS = 28
"""Days a report covers unless told otherwise: four of each weekday."""


def gather_report(
    settings: Settings, contracts: Iterable[Contract], checks: Sequence[CheckResult], now: datetime, *, days: int = DAYS
) -> Report:
    """Read the logs of each dataset and put everything together."""
    logs = [(contract, read_log(settings.table_path("silver", contract.name))) for contract in contracts]
    window = window_of([newest_entries(commits) for _, commits in logs], days, now.date())
    facts = [_dataset_facts(settings, contract, commits, window=window, now=now) for contract, commits in logs]
    return build_report(facts, checks, window=window, made_at=now)


def _dataset_facts(
    settings: Settings, contract: Contract, commits: Sequence[LoggedCommit], *, window: Window, now: datetime
) -> DatasetFacts:
    entries = newest_entries(commits)
    return DatasetFacts(
        name=contract.name,
        entries=entries,
        deliveries=newest_entries(read_log(settings.table_path("bronze", contract.name))),
        service=_service_level(dataset_status(contract, commits, now)),
        anomalies=(
            *find_column_changes(contract.name, _within(window, entries)),
            *find_anomalies(contract.name, judge_days(contract, _within(window, entries), entries)),
        ),
    )


def _service_level(status: DatasetStatus) -> ServiceLevel:
    return ServiceLevel(
        tier=status.tier,
        target=status.limit,
        newest_event=status.newest_event,
        age=status.age,
        is_fresh=status.is_fresh,
        availability=status.budget.availability,
        budget=status.budget.allowed,
        remaining=status.budget.remaining,
        state=status.budget.state,
    )


def _within(window: Window, entries: Entries) -> dict[str, Mapping[str, Any]]:
    return {day: entries[day] for day in window.days if day in entries}


def to_json(report: Report) -> str:
    """The report as stored for machines."""
    return json.dumps(report_document(report), indent=2)


def store_report(settings: Settings, report: Report, *, name: str | None = None) -> Path:
    """Keep the report as page and as JSON, as the latest and, if it has a name, under that too. Returns the latest page."""
    page = latest_page(settings.home)
    page.parent.mkdir(parents=True, exist_ok=True)
    texts = {".html": render_page(report), ".json": to_json(report)}
    for stem in filter(None, (name, page.stem)):
        for suffix, text in texts.items():
            _replace(page.with_name(f"{stem}{suffix}"), text)
    return page


def _replace(file: Path, text: str) -> None:
    """Whoever has the old one open reads it to the end."""
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)
