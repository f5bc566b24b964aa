"""Entries of a day that grows. Silver chooses its writer by the bytes in them, so what nobody counted must not look small."""

from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import Row

from stream_assets.bronze import follow, query, replay
from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.silver import refine
from stream_assets.sources.kafka import Slice
from stream_assets.sources.tables import Look
from tests.documents import contract, document

DAY = date(2025, 3, 1)
COUNTED, UNCOUNTED = {"rows_in": 2, "bytes_in": 30, "files": "a"}, {"rows_in": 2, "files": "a"}
GROUP = Row(_delivery_date=DAY, _source="t/0", records=1, bytes=12, arrived="2025-03-01T10:00:00.000+00:00")
FOUND = [("k", "ä" * 6)]


def from_topic(before: dict[str, Any]) -> dict[str, Any]:
    return follow._entry(before, [GROUP], Slice({0: 2}, {0: 3}))


def from_table(before: dict[str, Any]) -> dict[str, Any]:
    return query._entry(before, Look(1, datetime(2025, 3, 1, tzinfo=UTC), ()), FOUND)


def replayed(before: dict[str, Any]) -> dict[str, Any]:
    return replay._entries({str(DAY): before} if before else {}, [], [GROUP], "run")[str(DAY)]


@pytest.fixture
def law(tmp_path: Any) -> Contract:
    return contract(tmp_path, document(maxLateness=0))


@pytest.mark.parametrize("entry_of", [from_topic, from_table, replayed])
def test_bytes_add_up_and_unknown_ones_stay_unknown(entry_of: Any, law: Contract) -> None:
    """A day that was landed partly before bytes were counted is refined as a large one is."""
    assert [entry_of(before).get("bytes_in") for before in ({}, COUNTED, UNCOUNTED)] == [12, 42, None]
    few, many = (refine._bytes_in({str(DAY): entry_of(b)}, law, [DAY]) for b in (COUNTED, UNCOUNTED))
    assert few == 42
    assert many > delta.FEW_BYTES


@pytest.mark.parametrize("entry_of", [from_topic, from_table, replayed])
def test_a_day_that_grows_keeps_its_corrections(entry_of: Any) -> None:
    """Silver looks for corrections only where the ledger tells of some."""
    assert entry_of({**COUNTED, "corrections": "some"})["corrections"] == "some"


def test_a_replay_that_finds_less_leaves_less() -> None:
    held = Row(**{**GROUP.asDict(), "records": 2, "bytes": 30})
    assert replay._entries({str(DAY): COUNTED}, [held], [GROUP], "run")[str(DAY)]["bytes_in"] == 12
