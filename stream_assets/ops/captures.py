"""Captured tables as something people are told about: a connector that stopped, a slot that is gone or fills the source's disk."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from stream_assets.contracts.model import Contract, Server
from stream_assets.errors import ServiceError
from stream_assets.keys import owners
from stream_assets.ops.alerts.conditions import Watch
from stream_assets.ops.alerts.incidents import Condition, Incidents, Severity
from stream_assets.settings import Settings
from stream_assets.sources.capture import (
    MAX_RETAINED_BYTES,
    CaptureState,
    capture,
    captured,
    find_slot,
    look,
    megabytes,
)

PATIENCE_S = 5.0
"""What a server may take to say how it is. Dagster gives a sensor a minute, and alerts of all kinds wait for this look."""
STATUS = "stream services status"
EXPECTED = f"changes flow, and the slot keeps less than {MAX_RETAINED_BYTES >> 20} MB of log"


def watch_captures(settings: Settings, contracts: Sequence[Contract]) -> Watch:
    """A watch over the captures of the datasets that are read from their log by these settings. Each look asks anew."""
    followed = {name: pair for name, pair in captured(contracts).items() if pair[0].server(settings.server) == pair[1]}

    def watch(_: Incidents) -> list[Condition]:
        found, problem, until = list[Condition](), "", time.monotonic() + PATIENCE_S
        for contract, server in followed.values():
            # All are asked of the same servers: one that keeps silent is not waited for again for each of them.
            if problem and time.monotonic() > until:
                found.append(_condition(contract, "error", problem, STATUS))
            else:
                conditions, problem = _look(settings, contract, server)
                found += conditions
        return found

    return watch


def _look(settings: Settings, contract: Contract, server: Server) -> tuple[list[Condition], str]:
    """What is wrong with a capture, and why nobody could say, if so."""
    wanted = capture(contract, server)
    try:
        return capture_conditions([(contract, look(settings, wanted, PATIENCE_S))]), ""
    except ServiceError as error:
        condition = _condition(contract, "error", str(error), STATUS)
        with suppress(ServiceError):
            if (slot := find_slot(settings, wanted)) and slot.retained_bytes > MAX_RETAINED_BYTES:
                found = f"{error} Meanwhile the slot keeps {megabytes(slot)} of log on the source's disk"
                condition = _condition(contract, "critical", found, STATUS)
        return [condition], str(error)


def capture_conditions(found: Iterable[tuple[Contract, CaptureState]]) -> list[Condition]:
    """A condition for every capture whose changes do not flow. What loses changes, or the source's disk, is critical."""
    conditions = []
    for contract, state in found:
        if state.problem:
            slot = state.slot
            is_gone = slot is None and state.capture.reads_log
            is_dire = is_gone or (slot and (slot.is_lost or slot.retained_bytes > MAX_RETAINED_BYTES))
            conditions.append(_condition(contract, "critical" if is_dire else "error", *state.problem))
    return conditions


def _condition(contract: Contract, severity: Severity, found: str, remedy: str) -> Condition:
    return Condition(
        kind="capture",
        subject=f"bronze/{contract.name}",
        rule="changes_flow",
        severity=severity,
        expected=EXPECTED,
        found=found,
        owners=tuple(owners(contract)),
        remedy=remedy,
    )
