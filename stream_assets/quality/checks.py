"""The Dagster face of quality: check specs of each layer, and outcomes as asset check results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import dagster as dg

from stream_assets.contracts.model import Contract
from stream_assets.quality.gates import is_gate
from stream_assets.quality.outcomes import Outcome, reference_check
from stream_assets.quality.profile import profiled

BRONZE_CHECKS = {
    "completeness__delivery__landed": "Bronze holds every record of the files.",
    "validity__delivery__readable": "Every file could be read.",
    "freshness__delivery__arrived": "The newest file arrived within the freshness target.",
    "distribution__delivery__volume": "A delivery has as many records as its weekday and the last weeks let expect.",
}
SILVER_CHECKS = {
    "completeness__table__reconciled": "Rows in = accepted + quarantined + duplicates, on every day.",
    "completeness__table__rejected_share": "Few records lack a required field.",
    "validity__table__rejected_share": "Few records break a validity rule.",
    "validity__table__warnings": "No record breaks a rule of severity warning.",
    "validity__schema__drift": "Records carry the columns the contract promises.",
    "uniqueness__table__duplicate_share": "The source does not repeat itself much more than it used to.",
    "distribution__table__volume": "The volume of each day is what its weekday and the last weeks let expect.",
    "freshness__table__event_time": "The newest event is within the freshness target.",
}


def silver_checks(contract: Contract) -> dict[str, str]:
    """The checks of a dataset's Silver: those every dataset has, and one per column whose distribution is watched."""
    drift = {
        f"distribution__{c.name}__drift": f"{c.name} is distributed as in the weeks before." for c in profiled(contract)
    }
    promised = {"completeness__table__row_count": "Each day has as many records as the contract promises."}
    return SILVER_CHECKS | (promised if contract.row_counts else {}) | drift


def reference_checks(contract: Contract) -> dict[str, str]:
    """One check per column that points at another dataset."""
    columns = [(c.name, ".".join(c.references)) for c in contract.columns if c.references]
    return {reference_check(name): f"Every {name} is a {target}." for name, target in columns}


def check_specs(
    key: dg.AssetKey, contract: Contract, checks: dict[str, str], *, after: Iterable[dg.AssetKey] = ()
) -> list[dg.AssetCheckSpec]:
    """Specs of a layer's checks. The step that makes the asset yields them, unless they come `after` other assets too."""
    return [
        dg.AssetCheckSpec(
            name,
            asset=key,
            description=text,
            additional_deps=[*after],
            blocking=is_gate(contract, name),
            metadata={"family": name.split("__")[0], "strictness": "gate" if is_gate(contract, name) else "warn"},
        )
        for name, text in checks.items()
    ]


def check_results(
    key: dg.AssetKey, contract: Contract, outcomes: Iterable[Outcome], selected: Collection[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckResult]:
    """Outcomes of the checks that this step was asked to run."""
    for outcome in outcomes:
        if dg.AssetCheckKey(key, outcome.name) in selected:
            gate = is_gate(contract, outcome.name)
            yield dg.AssetCheckResult(
                asset_key=key,
                check_name=outcome.name,
                passed=outcome.passed,
                severity=dg.AssetCheckSeverity.ERROR if gate else dg.AssetCheckSeverity.WARN,
                description=outcome.summary,
                metadata={
                    name: dg.MetadataValue.json(value) if isinstance(value, dict | list) else value
                    for name, value in outcome.facts.items()
                },
            )
