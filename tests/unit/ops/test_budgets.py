"""A dataset that was stale for longer than its tier allows opens one incident, critical when nothing is left."""

from datetime import UTC, datetime, timedelta

from stream_assets.engine.log import LoggedCommit
from stream_assets.ops.budgets import budget_conditions, watch_budgets
from stream_assets.ops.status import dataset_status
from stream_assets.settings import Settings
from tests.documents import contract, document

NOW = datetime(2025, 3, 20, 12, tzinfo=UTC)


def commit(at: datetime, newest: datetime) -> LoggedCommit:
    entry = {"accepted": 1, "newest_event": newest.isoformat()}
    page = {"run_id": "r", "dataset": "readings", "layer": "silver", "days": {newest.date().isoformat(): entry}}
    return LoggedCommit(version=0, committed_at=at, page=page)


def conditions(tmp_path, stale: timedelta) -> list:
    """The newest event is as old as the limit allows, and then some."""
    law = contract(tmp_path, document(slaTier=3))
    newest = NOW - law.freshness_limit - stale
    return budget_conditions([(law, dataset_status(law, [commit(newest, newest)], NOW))])


def test_fresh_enough_is_no_incident(tmp_path) -> None:
    assert conditions(tmp_path, timedelta()) == []


def test_spending_fast_is_an_error_and_having_spent_all_is_critical(tmp_path) -> None:
    """Tier 3 may be stale for 7.3 hours a month."""
    [burning], [gone] = conditions(tmp_path, timedelta(hours=5)), conditions(tmp_path, timedelta(hours=8))
    assert (burning.severity, gone.severity) == ("error", "critical")
    assert burning.key == gone.key == "budget:silver/readings:error_budget"
    assert "lab@example.com" in str(gone.owners)
    assert "exhausted" in gone.found


def test_logs_are_not_read_at_every_look(tmp_path) -> None:
    """A lake without tables has nothing to tell, and a second look does not go there at all."""
    watch = watch_budgets(Settings.from_env({"STREAM_HOME": str(tmp_path)}), [contract(tmp_path / "law")])
    assert watch({}) == watch({}) == []
