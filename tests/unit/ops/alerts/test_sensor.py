"""The sensor on a real Dagster instance with storage on disk: what runs and checks do becomes alerts, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.freshness import FreshnessState, FreshnessStateChange

from stream_assets.ops.alerts.incidents import Condition
from stream_assets.ops.alerts.outbox import Outbox
from stream_assets.ops.alerts.sensors import build_alerts, named_days, step_subject
from stream_assets.ops.automation import range_tags
from stream_assets.settings import Settings

from .conftest import HttpReceiver

Configure = Callable[..., Settings]
DRIFT, GATE = "validity__schema__drift", "completeness__table__reconciled"
DAYS = dg.DailyPartitionsDefinition("2026-11-01")
SILVER, QUARANTINE = dg.AssetKey(["silver", "orders"]), dg.AssetKey(["quarantine", "orders"])


class Weather(dg.ConfigurableResource):
    """What the run meets."""

    breaks: bool = False
    drifts: bool = False
    adds_up: bool = True


@dg.multi_asset(
    name="refine_orders",
    specs=[
        dg.AssetSpec(
            SILVER,
            owners=["team:commerce", "commerce@example.com"],
            partitions_def=DAYS,
            freshness_policy=dg.FreshnessPolicy.time_window(fail_window=timedelta(days=1)),
        ),
        dg.AssetSpec(QUARANTINE, partitions_def=DAYS),
    ],
    check_specs=[
        dg.AssetCheckSpec(DRIFT, asset=SILVER, description="Records carry the columns the contract promises."),
        dg.AssetCheckSpec(GATE, asset=SILVER, blocking=True),
    ],
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def refine_orders(weather: Weather) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
    if weather.breaks:
        raise ValueError("the record of jane.doe@example.com cannot be read")
    yield dg.MaterializeResult(SILVER)
    yield dg.MaterializeResult(QUARANTINE)
    evidence = {"sample": ["ord_1", "ord_2"], "look": "stream quarantine show orders", "replay": "stream replay orders"}
    facts = {"new_columns": {"2026-11-02": ["colour"]}, **evidence} if weather.drifts else {}
    yield dg.AssetCheckResult(
        asset_key=SILVER,
        check_name=DRIFT,
        passed=not weather.drifts,
        severity=dg.AssetCheckSeverity.WARN,
        description="new columns on 1 days",
        metadata={n: fact if isinstance(fact, str) else dg.MetadataValue.json(fact) for n, fact in facts.items()},
    )
    yield dg.AssetCheckResult(asset_key=SILVER, check_name=GATE, passed=weather.adds_up)


class House:
    """A code location with the alert sensor, an instance, and a receiver."""

    def __init__(self, settings: Settings, instance: dg.DagsterInstance, receiver: HttpReceiver) -> None:
        self.settings, self.instance, self.receiver = settings, instance, receiver
        self.more: list[Condition] = []
        self.defs = dg.Definitions.merge(
            dg.Definitions(assets=[refine_orders], resources={"weather": Weather()}),
            build_alerts(settings, [self._more]),
        )
        self.cursor: str | None = None

    def _more(self, _: object) -> list[Condition]:
        return self.more

    def run(self, first: int = 1, last: int | None = None, **weather: bool) -> None:
        defs = dg.Definitions(assets=[refine_orders], resources={"weather": Weather(**weather)})
        days = date(2026, 11, first), date(2026, 11, last or first)
        defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance, tags=range_tags(*days), raise_on_error=False
        )

    def look(self) -> list[tuple[str, str]]:
        """Evaluate the sensor; what is told, as (news, incident), this machine's own resources left out."""
        before = len(self.receiver.got)
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, repository_def=self.defs.get_repository_def()
        )
        result = self.defs.resolve_sensor_def("alerts")(context)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        told = [document for document in self.receiver.documents[before:] if document["kind"] != "resource"]
        return [(document["news"], document["incident"]) for document in told]


@pytest.fixture
def house(configure: Configure, receiver: HttpReceiver, tmp_path: Path) -> Iterator[House]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield House(configure(STREAM_ALERT_WEBHOOK_URL=receiver.url), instance, receiver)


def test_drift_is_told_once_with_its_days_and_recovers(house: House) -> None:
    house.run(1, 3, drifts=True)
    assert house.look() == [("opened", f"drift:silver/orders:{DRIFT}")]
    document = house.receiver.documents[-1]
    assert document["partitions"] == ["2026-11-02"]
    assert document["expected"] == "Records carry the columns the contract promises."
    assert document["owners"] == ["team:commerce", "commerce@example.com"]
    assert (document["severity"], document["runbook"]) == ("warning", "docs/operations.md#alert-drift")
    assert [house.look() for _ in range(5)] == [[]] * 5
    house.run(1, 3, drifts=True)
    assert house.look() == []
    house.run(1, 3)
    assert house.look() == [("recovered", f"drift:silver/orders:{DRIFT}")]


def test_a_failed_run_is_told_without_the_text_of_its_error(house: House) -> None:
    """The error quotes a record; Dagster shows it to those who may see it."""
    house.run(1, 2, breaks=True)
    assert house.look() == [("opened", "run:silver/orders:succeeds")]
    document = house.receiver.documents[-1]
    assert "ValueError" in document["found"]
    assert "jane.doe" not in json.dumps(house.receiver.documents)
    assert document["repair"] == "stream run --from 2026-11-01 --to 2026-11-02 --select 'key:\"silver/orders\"+'"


def test_a_failed_run_recovers_when_each_of_its_days_was_built(house: House) -> None:
    house.run(1, 2, breaks=True)
    house.look()
    house.run(2)
    assert house.look() == []
    house.run(1)
    assert house.look() == [("recovered", "run:silver/orders:succeeds")]


def test_a_failed_gate_is_an_error(house: House) -> None:
    house.run(1, adds_up=False)
    assert ("opened", f"check:silver/orders:{GATE}") in house.look()
    severities = {document["rule"]: document["severity"] for document in house.receiver.documents}
    assert severities[GATE] == "error"


def test_what_happened_between_two_looks_is_told_by_its_end(house: House) -> None:
    house.run(1, breaks=True)
    house.run(1)
    assert house.look() == []


def test_a_lost_cursor_changes_nothing(house: House) -> None:
    house.run(1, breaks=True)
    house.run(2, drifts=True)
    assert len(house.look()) == 2
    house.cursor = None
    assert house.look() == []


def test_a_check_reported_from_elsewhere_counts(house: House) -> None:
    def report(passed: bool) -> None:
        house.instance.report_runless_asset_event(dg.AssetCheckEvaluation(SILVER, DRIFT, passed, {}))

    report(False)
    assert house.look() == [("opened", f"drift:silver/orders:{DRIFT}")]
    report(True)
    assert house.look() == [("recovered", f"drift:silver/orders:{DRIFT}")]


def test_other_watches_join_in(house: House) -> None:
    """The seam for error budgets and whatever else there will be."""
    house.more = [Condition("budget", "silver/orders", "error_budget", "error", "99.9%", "99.1%")]
    assert house.look() == [("opened", "budget:silver/orders:error_budget")]
    house.more = []
    assert house.look() == [("recovered", "budget:silver/orders:error_budget")]


def test_a_look_reads_only_what_is_new(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of the past are not opened again."""
    for day in range(1, 6):
        house.run(day)
    house.look()
    opened: list[str] = []
    read = type(house.instance).get_records_for_run

    def counted(instance: dg.DagsterInstance, run_id: str, *args: object, **options: object) -> object:
        opened.append(run_id)
        return read(instance, run_id, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type(house.instance), "get_records_for_run", counted)
    house.look()
    assert opened == [""]


def test_with_nothing_configured_the_file_has_it(configure: Configure, house: House) -> None:
    bare = House(configure(), house.instance, house.receiver)
    bare.run(1, breaks=True)
    bare.look()
    lines = bare.settings.alerts.file.read_text().splitlines()
    assert "run:silver/orders:succeeds" in {json.loads(line)["incident"] for line in lines}
    assert "run:silver/orders:succeeds" in Outbox(bare.settings.home).incidents()
    assert house.receiver.got == []


def test_missed_freshness_escalates_and_recovers(house: House) -> None:
    """The freshness daemon reports states; here they are reported as it does."""

    def turn(state: FreshnessState) -> None:
        change = FreshnessStateChange(
            key=SILVER, new_state=state, previous_state=FreshnessState.UNKNOWN, state_change_timestamp=0.0
        )
        house.instance._report_runless_asset_event(change)

    incident = "freshness:silver/orders:freshness_policy"
    turn(FreshnessState.WARN)
    assert house.look() == [("opened", incident)]
    turn(FreshnessState.FAIL)
    assert house.look() == [("escalated", incident)]
    assert house.look() == []
    turn(FreshnessState.PASS)
    assert house.look() == [("recovered", incident)]


def test_a_step_is_about_its_asset() -> None:
    assert step_subject({"bronze/orders"}) == "bronze/orders"
    assert step_subject({"quarantine/orders", "silver/orders"}) == "silver/orders"
    assert step_subject({"gold/dim_stores", "gold/fct_orders"}) == "gold/*"


def test_days_are_found_in_facts() -> None:
    assert named_days({"limit": 0.05, "days_above": {"2026-11-03": 0.2}, "rows_per_rule": {"r": 1}}) == ("2026-11-03",)


def test_an_alert_names_records_and_how_to_see_and_judge_them(house: House) -> None:
    """What the check put beside itself arrives, and is still known when the incident is over."""
    house.run(drifts=True)
    house.look()
    house.run(drifts=False)
    house.look()
    told = [document for document in house.receiver.documents if document["kind"] == "drift"]
    assert [document["news"] for document in told] == ["opened", "recovered"]
    for document in told:
        assert document["sample"] == ["ord_1", "ord_2"]
        assert document["look"][0] == "stream quarantine show orders"
        assert document["repair"] == "stream replay orders"
