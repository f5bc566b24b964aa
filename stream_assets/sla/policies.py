"""Freshness policies from contracts: fail at the target, warn when updates are overdue but the target still holds."""

from __future__ import annotations

import dagster as dg

from stream_assets.contracts.model import Contract
from stream_assets.sla.tiers import EARLY_WARNING


def freshness_policy(contract: Contract) -> dg.FreshnessPolicy:
    """The policy of every layer of a dataset."""
    return dg.FreshnessPolicy.time_window(fail_window=contract.freshness, warn_window=contract.cadence * EARLY_WARNING)
