"""Which checks are gates: those whose failure stops publication and all that is downstream."""

from __future__ import annotations

from stream_assets.contracts.model import Contract

GATES = {"completeness__delivery__landed", "completeness__table__reconciled"}
"""Checks that are gates unless a contract says otherwise: when they fail, the data cannot be accounted for."""


def is_gate(contract: Contract, check: str) -> bool:
    """Whether a failure of this check stops what is downstream, dbt models included."""
    given = contract.setting(check).strictness
    is_frozen = contract.drift == "freeze" and check == "validity__schema__drift"
    return given == "gate" or (given is None and (check in GATES or is_frozen))
