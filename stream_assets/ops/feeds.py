"""Brings what arrives by itself into Bronze while streams run, and tells Dagster: one feed per dataset with a topic.

What was landed is an observation of `bronze/<dataset>` twice a minute, so that it looks as alive as it is. Every few minutes a
materialization names the event days that were touched since the last: the `late_data` sensor then refreshes Silver and Gold
of these.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from uuid import uuid4

import dagster as dg
import grpc
from pyspark.errors import PySparkException
from sqlalchemy.exc import SQLAlchemyError

from stream_assets.bronze.assets import landing_metadata
from stream_assets.bronze.follow import Follower, follower, land_waiting
from stream_assets.bronze.land import Landing
from stream_assets.contracts.model import Contract
from stream_assets.engine.failures import is_gone
from stream_assets.engine.session import open_session
from stream_assets.keys import asset_key
from stream_assets.resources import open_instance
from stream_assets.settings import Settings
from stream_assets.streaming.control import Control
from stream_assets.streaming.queries import Streams


def build_feeds(settings: Settings, streams: Streams, names: Sequence[str]) -> dict[str, Callable[[], tuple[int, int]]]:
    """The feed of every dataset that these streams need and that is read from a topic, by the name of its Bronze table."""
    contracts = [streams.contracts[name] for name in streams.views.datasets if f"{name}_events" in names]
    live = [contract for contract in contracts if contract.server(settings.server).kind == "kafka"]
    return {f"bronze/{contract.name}": _Feed(settings, contract) for contract in live}


@dataclass
class _Feed:
    """Lands what a topic holds by now, each time it is called."""

    settings: Settings
    contract: Contract
    run_id: str = field(default_factory=lambda: f"stream-{uuid4().hex[:12]}")
    follower: Follower | None = None
    records: int = 0
    """Landed since Dagster was last told."""
    told_at: float = field(default_factory=time.monotonic)
    refreshed_at: float = -math.inf
    """When Silver was last asked to follow; the first landing asks at once."""

    def __call__(self) -> tuple[int, int]:
        if self.follower is None:
            spark = open_session(self.settings)
            # What came within seconds is small: planning it anew after every stage costs more than it saves.
            spark.conf.set("spark.sql.adaptive.enabled", "false")
            self.follower = follower(spark, self.settings, self.contract, run_id=self.run_id)
        try:
            landing = land_waiting(self.follower)
        except (PySparkException, grpc.RpcError) as error:
            self.follower = None if is_gone(str(error)) else self.follower
            raise
        self.records += landing.records
        self._tell(landing)
        return landing.records, sum(landing.lag.values())

    def _tell(self, landing: Landing) -> None:
        control, key = Control.of(self.settings), asset_key("bronze", self.contract.name)
        touched = control.touched(self.contract.name) | set(landing.touched)
        if landing.touched:
            control.keep_touched(self.contract.name, touched)
        passed = time.monotonic() - self.told_at
        is_due = touched and time.monotonic() - self.refreshed_at >= self.settings.refresh_seconds
        if passed < self.settings.report_seconds and not is_due:
            return
        facts = landing_metadata(replace(landing, touched=tuple(sorted(touched)))) | {
            "messages": dg.MetadataValue.int(self.records),
            "messages_per_second": dg.MetadataValue.float(round(self.records / passed, 1)),
        }
        # A busy Dagster is told the next time: landing goes on without it.
        with suppress(SQLAlchemyError), open_instance(self.settings) as instance:
            if is_due:
                today = _today(landing)
                instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=today, metadata=facts))
                control.keep_touched(self.contract.name, set())
                self.refreshed_at = time.monotonic()
            else:
                instance.report_runless_asset_event(dg.AssetObservation(key, metadata=facts))
            self.records, self.told_at = 0, time.monotonic()


def _today(landing: Landing) -> str:
    return max(landing.landed, default=datetime.now(UTC).date()).isoformat()
