"""Captured tables as something people are told about: a connector that stopped, a slot that is gone or fills the source's disk."""

from __future__ import annotations

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

EXPECTED = f"changes flow, and the slot keeps less than {MAX_RETAINED_BYTES >> 20} MB of log"


def watch_captures(settings: Settings, contracts: Sequence[Contract]) -> Watch:
    """A watch over the captures of the datasets that are read from their log by these settings. Each look asks anew."""
    followed = {name: pair for name, pair in captured(contracts).items() if pair[0].server(settings.server) == pair[1]}

    def watch(_: Incidents) -> list[Condition]:
        return [c for pair in followed.values() for c in _look(settings, *pair)]

    return watch


def _look(settings: Settings, contract: Contract, server: Server) -> list[Condition]:
    wanted = capture(contract, server)
    try:
        return capture_conditions([(contract, look(settings, wanted))])
    except ServiceError as error:
        with suppress(ServiceError):
            if (slot := find_slot(settings, wanted)) and slot.retained_bytes > MAX_RETAINED_BYTES:
                found = f"{error} Meanwhile the slot keeps {megabytes(slot)} of log on the source's disk"
                return [_condition(contract, "critical", found, "stream services status")]
        return [_condition(contract, "error", str(error), "stream services status")]


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
