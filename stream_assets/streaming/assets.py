"""Live views as Dagster assets: fed by the supervisor's reports, fresh or stale by a policy, proved by a check."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta

import dagster as dg
from sqlalchemy.exc import SQLAlchemyError

from stream_assets.contracts.model import Contract
from stream_assets.keys import asset_key, owners, tags
from stream_assets.resources import EngineResource, open_instance
from stream_assets.settings import Settings
from stream_assets.streaming.control import Facts
from stream_assets.streaming.load import ViewSet
from stream_assets.streaming.model import View
from stream_assets.streaming.prove import is_provable, prove
from stream_assets.streaming.queries import Streams

MISSED_REPORTS, FEW_MISSED = 10, 4
"""A running stream reports again and again, whether or not anything came: silence means that it stopped."""
PROVED = "consistency__table__equals_batch"


def build_live(settings: Settings, contracts: dict[str, Contract], views: ViewSet) -> dg.Definitions:
    """The event logs and views of the hot path."""
    specs = [_events_spec(contracts[name]) for name in views.datasets]
    specs += [_view_spec(view, contracts[view.source]) for view in views.views]
    policy = _policy(settings.report_seconds)
    checks = [_proof(view, contracts, views) for view in views.views if is_provable(view)]
    return dg.Definitions(
        assets=[spec.replace_attributes(freshness_policy=policy) for spec in specs], asset_checks=checks
    )


def _policy(report_seconds: float) -> dg.FreshnessPolicy:
    """Stale once some reports did not come. Dagster knows no window of less than a minute."""
    warn, fail = (max(60.0, missed * report_seconds) for missed in (FEW_MISSED, MISSED_REPORTS))
    return dg.FreshnessPolicy.time_window(
        fail_window=timedelta(seconds=max(fail, warn + 30)), warn_window=timedelta(seconds=warn)
    )


def _events_spec(contract: Contract) -> dg.AssetSpec:
    name = f"{contract.name}_events"
    text = f"{contract.purpose} As a log of events.\n\n**Grain:** one row per event that keeps the contract, repeats removed, in order of arrival."
    return _spec(name, text, contract, deps=[asset_key("bronze", contract.name)])


def _view_spec(view: View, contract: Contract) -> dg.AssetSpec:
    looked_up = [asset_key(*view.lookup.table.split("."))] if view.lookup and view.lookup.table else []
    grain = {"transform": "event", "join": "pair of events"}.get(view.kind) or ", ".join(
        ("window", *view.group_by, *(["rule"] if view.rules else []))
    )
    deps = [*(asset_key("live", f"{source}_events") for source in view.sources), *looked_up]
    return _spec(
        view.name, f"{view.description}\n\n**Grain:** one row per {grain}. Kind: {view.kind}.", contract, deps=deps
    )


def _spec(name: str, description: str, contract: Contract, *, deps: list[dg.AssetKey]) -> dg.AssetSpec:
    return dg.AssetSpec(
        asset_key("live", name),
        deps=deps,
        description=description,
        group_name="live",
        kinds={"spark", "deltalake", "streaming"},
        owners=owners(contract),
        tags=tags(contract),
        metadata={"dagster/table_name": f"live.{name}"},
    )


def _proof(view: View, contracts: dict[str, Contract], views: ViewSet) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        name=PROVED,
        asset=asset_key("live", view.name),
        description="Closed windows, computed again in batch from Bronze, are the served ones.",
        metadata={"family": "consistency"},
    )
    def equals_batch(engine: EngineResource) -> dg.AssetCheckResult:
        streams = Streams(engine.settings, contracts, views, engine.pii_salt())
        with engine.guarded() as spark:
            proof = prove(spark, streams, view)
        return dg.AssetCheckResult(
            passed=not proof.wrong,
            description=proof.summary,
            metadata={
                "windows_compared": proof.compared, "windows_open": proof.open_windows, "late_events": proof.late_events,
                "windows_that_differ": proof.wrong, "first_differences": dg.MetadataValue.json([{k: str(v) for k, v in d.items()} for d in proof.differences]),
            },
        )  # fmt: skip

    return equals_batch


@contextmanager
def dagster_report(settings: Settings, streams: Streams) -> Iterator[Callable[[Sequence[Facts]], None]]:
    """A report that makes every running stream look alive in Dagster: one materialization each, with its figures.

    A busy Dagster is told the next time: streams go on without it.
    """
    with open_instance(settings) as instance:

        def report(facts: Sequence[Facts]) -> None:
            with suppress(SQLAlchemyError):
                for one in facts:
                    if one.state == "running" and one.name in streams.names:
                        instance.report_runless_asset_event(
                            dg.AssetMaterialization(asset_key("live", one.name), metadata=_metadata(one))
                        )

        yield report


def _metadata(facts: Facts) -> dict[str, dg.MetadataValue]:
    return {
        "dagster/row_count": dg.MetadataValue.int(facts.served_rows),
        "rows_in": dg.MetadataValue.int(facts.rows),
        "rows_per_second": dg.MetadataValue.float(float(facts.rate)),
        "lag_seconds": dg.MetadataValue.float(float(facts.lag_seconds)),
        "lag_commits": dg.MetadataValue.int(facts.lag_versions),
        "state_rows": dg.MetadataValue.int(facts.state_rows),
        "state_bytes": dg.MetadataValue.int(facts.state_bytes),
        "late_rows": dg.MetadataValue.int(facts.late_rows),
        "restarts": dg.MetadataValue.int(facts.restarts),
        **({"watermark": dg.MetadataValue.text(facts.watermark)} if facts.watermark else {}),
    }
