"""The contracts of the examples are sound, as those of the sample must be."""

from pathlib import Path

import pytest

from stream_assets.contracts.load import load_contracts
from stream_assets.settings import PROJECT

EXAMPLES = sorted((PROJECT / "examples").glob("*/contracts"))


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.parent.name)
def test_every_contract_of_an_example_is_sound(folder: Path) -> None:
    contracts = load_contracts(folder)
    assert not contracts.broken
    assert len(list(contracts)) == len(list(folder.glob("*.odcs.yaml")))
