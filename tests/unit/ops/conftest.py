"""A lake of six days that ledgers alone make, for tests of what is read from them."""

from datetime import date
from pathlib import Path

import pytest

from tests.documents import contract, document
from tests.ledgers import MadeLake

DAYS = [date(2025, 3, n) for n in range(1, 7)]


@pytest.fixture
def made(tmp_path: Path) -> MadeLake:
    """Six days, each with a record of its own, made up to Gold."""
    lake = MadeLake(tmp_path / "home", contract(tmp_path, document(maxLateness=2)))
    for day in DAYS:
        lake.land(day, day)
    lake.refine(*DAYS)
    lake.build(*DAYS)
    return lake
