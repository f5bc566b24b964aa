"""A Bronze load that touched older days asks for exactly those days of Silver and Gold, once."""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
import pytest

from stream_assets.bronze.assets import TOUCHED
from stream_assets.build import build_defs
from stream_assets.ops.automation import RANGE_END, RANGE_START, cron
from stream_assets.settings import Settings
from tests.documents import contract, document
from tests.ledgers import MadeLake


@pytest.fixture(scope="module")
def defs(tmp_path_factory: pytest.TempPathFactory) -> dg.Definitions:
    return build_defs(Settings.from_env({**os.environ, "STREAM_HOME": str(tmp_path_factory.mktemp("home"))}))


def materialize(instance: dg.DagsterInstance, layer: str, day: str, touched: list[str] | None = None) -> None:
    metadata = {TOUCHED: dg.MetadataValue.json(touched)} if touched is not None else {}
    event = dg.AssetMaterialization(dg.AssetKey([layer, "orders"]), partition=day, metadata=metadata)
    instance.report_runless_asset_event(event)


def evaluate(defs: dg.Definitions, instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult:
    sensor = defs.resolve_sensor_def("late_data")
    context = dg.build_sensor_context(instance=instance, cursor=cursor, repository_def=defs.get_repository_def())
    result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    return result


def test_touched_days_are_requested_as_ranges(defs: dg.Definitions) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        materialize(instance, "bronze", "2026-11-10", touched=["2026-11-07", "2026-11-08", "2026-11-10"])
        requests = evaluate(defs, instance).run_requests or []
    assert [(r.tags[RANGE_START], r.tags[RANGE_END]) for r in requests] == [
        ("2026-11-07", "2026-11-08"),
        ("2026-11-10", "2026-11-10"),
    ]
    keys = {key.to_user_string() for key in requests[0].asset_selection or []}
    assert {"silver/orders", "quarantine/orders", "gold/fct_orders"} <= keys
    assert not any(key.startswith("bronze/") or key == "silver/stores" for key in keys)


def test_every_landing_of_a_stream_counts(defs: dg.Definitions) -> None:
    """What a stream lands belongs to no run: two such reports are two landings."""
    with dg.DagsterInstance.ephemeral() as instance:
        materialize(instance, "bronze", "2026-11-10", touched=["2026-11-05"])
        materialize(instance, "bronze", "2026-11-10", touched=["2026-11-08"])
        requests = evaluate(defs, instance).run_requests or []
    assert [r.tags[RANGE_START] for r in requests] == ["2026-11-05", "2026-11-08"]


def test_no_run_is_asked_to_make_a_live_view(defs: dg.Definitions) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                dg.AssetKey(["bronze", "customers"]),
                partition="2026-11-10",
                metadata={TOUCHED: dg.MetadataValue.json(["2026-11-10"])},
            )
        )
        (request,) = evaluate(defs, instance).run_requests or []
    assert not [key for key in request.asset_selection or [] if key.path[0] == "live"]


def test_days_refined_since_are_not_requested(defs: dg.Definitions) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        materialize(instance, "bronze", "2026-11-10", touched=["2026-11-09", "2026-11-10"])
        materialize(instance, "silver", "2026-11-10")
        requests = evaluate(defs, instance).run_requests or []
    assert [r.tags[RANGE_START] for r in requests] == ["2026-11-09"]


def test_the_same_load_is_not_asked_for_twice(defs: dg.Definitions) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        materialize(instance, "bronze", "2026-11-10", touched=["2026-11-09"])
        first = evaluate(defs, instance)
        assert not evaluate(defs, instance, first.cursor).run_requests


def test_what_a_killed_run_left_is_asked_for_once_its_day_is_landed_again(tmp_path: Path) -> None:
    """It landed a record of another day and told nobody. To the run after it nothing was new, so it touched no day."""
    late, day = date(2025, 3, 5), date(2025, 3, 6)
    lake = MadeLake(tmp_path / "home", contract(tmp_path / "contracts", document()))
    for own in (late, day):
        lake.land(own, own)
    lake.refine(late, day)
    lake.land(day, day, late, files="b")
    lake.refine(day)
    home = {"STREAM_HOME": str(tmp_path / "home"), "STREAM_CONTRACTS": str(tmp_path / "contracts")}
    defs = build_defs(Settings.from_env({**os.environ, **home}))

    @dg.asset(key=["bronze", "readings"], partitions_def=dg.DailyPartitionsDefinition("2025-03-01"))
    def landed() -> dg.MaterializeResult:
        return dg.MaterializeResult(metadata={TOUCHED: dg.MetadataValue.json([])})

    with dg.DagsterInstance.ephemeral() as instance:
        dg.materialize([landed], instance=instance, partition_key=str(day))
        asked = evaluate(defs, instance)
        assert [(r.tags[RANGE_START], r.tags[RANGE_END]) for r in asked.run_requests or []] == [(str(late), str(late))]
        assert not evaluate(defs, instance, asked.cursor).run_requests
        lake.refine(late)
        dg.materialize([landed], instance=instance, partition_key=str(day))
        assert not evaluate(defs, instance, asked.cursor).run_requests


@pytest.mark.parametrize(
    ("cadence", "line"),
    [
        (timedelta(minutes=30), "*/30 * * * *"),
        (timedelta(hours=1), "0 */1 * * *"),
        (timedelta(days=1), "30 0 * * *"),
    ],
)
def test_cadence_becomes_cron(cadence: timedelta, line: str) -> None:
    assert cron(cadence) == line
