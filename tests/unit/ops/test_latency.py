"""From event to Gold, by hand: when what arrived was in every daily table, and what 99 of 100 records waited at most."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from stream_assets.engine.ledger import Commit
from stream_assets.engine.log import LoggedCommit, read_log
from stream_assets.gold.models import Model
from stream_assets.ops.latency import (
    Arrival,
    Logs,
    fed_by,
    measure_latency,
    percentile,
    reaches_gold,
    read_arrivals,
    waits_of,
)
from stream_assets.settings import Settings
from tests.documents import contract

DAY = "2026-04-10"


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2026, 4, 10, hour, minute, second, tzinfo=UTC)


def commit(version: int, moment: datetime, *days: str, silver: int | None = None) -> LoggedCommit:
    inputs = {} if silver is None else {"inputs": {"silver/readings": silver}}
    return LoggedCommit(version, moment, {"days": {day: {} for day in days}, **inputs})


LOGS = Logs(
    "readings",
    bronze=[commit(0, at(9), DAY), commit(1, at(10), DAY)],
    silver=[commit(0, at(9, 1), DAY), commit(1, at(9, 59), DAY), commit(2, at(10, 1), DAY)],
    gold=[
        [commit(0, at(9, 2), DAY, silver=0), commit(1, at(10, 2), DAY, silver=1), commit(2, at(10, 9), DAY, silver=2)],
        [commit(0, at(9, 3), DAY, silver=0), commit(1, at(10, 8), DAY, silver=2)],
    ],
)


@pytest.mark.parametrize(
    ("arrived", "reached"),
    [(at(8, 59), at(9, 3)), (at(9, 30), at(10, 9)), (at(11), None)],
    ids=["with the first of everything", "with the second delivery", "not landed yet"],
)
def test_a_record_is_in_gold_when_every_table_read_it(arrived: datetime, reached: datetime | None) -> None:
    """What arrived at 9:30 landed at 10:00: neither Silver of 9:59 nor Gold of 10:02, made of it, can have it."""
    assert reaches_gold(Arrival(DAY, DAY, arrived), LOGS) == reached


def test_waits_are_from_the_event_and_go_on_until_gold_has_it() -> None:
    """Event 8:58:00, Gold 9:03 → 300 s; event 9:00, Gold 10:09 → 4,140 s; event 10:59, not in Gold at noon → 3,660 s."""
    found = {
        Arrival(DAY, DAY, at(8, 59)): {int(at(8, 58).timestamp()): 97},
        Arrival(DAY, DAY, at(9, 30)): {int(at(9).timestamp()): 2},
        Arrival(DAY, DAY, at(11)): {int(at(10, 59).timestamp()): 1},
    }
    waits = waits_of(found, LOGS, at(12))
    assert waits == Counter({300: 97, 3_660: 1, 4_140: 2})
    assert percentile(waits) == timedelta(seconds=4_140)
    assert percentile(waits, 0.98) == timedelta(seconds=3_660)
    assert percentile(waits, 0.97) == timedelta(seconds=300)


def test_nothing_measured_is_no_figure() -> None:
    assert percentile({}) is None


def test_only_daily_tables_made_of_the_dataset_count() -> None:
    models = [
        Model("facts", "c", frozenset({"silver/readings"}), "day"),
        Model("names", "c", frozenset({"silver/readings"}), None),
        Model("report", "c", frozenset({"gold/names"}), "day"),
        Model("others", "c", frozenset({"silver/others"}), "day"),
    ]
    assert sorted(fed_by("readings", {m.asset: m for m in models})) == ["gold/facts", "gold/report"]


def test_it_is_read_from_tables_and_their_logs(tmp_path: Path) -> None:
    """99 records of 10 s and one of an hour before the build: 99 of 100 waited about 10 s, and Gold's commit says how long."""
    settings, now = Settings.from_env({"STREAM_HOME": str(tmp_path)}), datetime.now(UTC).replace(microsecond=0)
    day, seconds = now.date(), [10] * 99 + [3_600]
    events = [now - timedelta(seconds=n) for n in seconds]
    rows = pa.table(
        {
            "taken_at": pa.array(events, pa.timestamp("us", tz="UTC")),
            "_ingested_at": pa.array([now - timedelta(seconds=5)] * 100, pa.timestamp("us", tz="UTC")),
            "_delivery_date": [day] * 100,
            "_event_date": [day] * 100,
        }
    )
    for layer, name in (("bronze", "readings"), ("silver", "readings"), ("gold", "facts")):
        page = Commit("run", name, layer, "1.0.0", {day.isoformat(): {}}, inputs={"silver/readings": 0}).to_json()
        path = settings.table_path(layer, name)
        write_deltalake(path, rows, commit_properties=CommitProperties({"userMetadata": page}))
    model = Model("facts", "c", frozenset({"silver/readings"}), "day")
    (built,) = read_log(settings.table_path("gold", "facts"))
    found = measure_latency(settings, contract(tmp_path), {model.asset: model}, now + timedelta(hours=1))
    assert found is not None
    assert abs(found - (built.committed_at - (now - timedelta(seconds=10)))) <= timedelta(seconds=1)
    (arrival,) = read_arrivals(settings.table_path("silver", "readings"), "taken_at", [day.isoformat()])
    assert arrival == Arrival(day.isoformat(), day.isoformat(), now - timedelta(seconds=5))
    assert measure_latency(settings, contract(tmp_path), {}, now) is None


def test_days_without_a_table_have_no_arrivals(tmp_path: Path) -> None:
    assert read_arrivals(str(tmp_path / "none"), "taken_at", [date.today().isoformat()]) == {}
