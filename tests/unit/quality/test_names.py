"""Every check and rule there is can be named in a contract's settings: nothing is out of reach, nothing else is accepted."""

import pytest

from stream_assets.contracts.load import load_contract, load_contracts
from stream_assets.errors import ContractError
from stream_assets.quality.checks import BRONZE_CHECKS, silver_checks
from stream_assets.quality.rules import build_rules
from stream_assets.settings import PROJECT
from tests.documents import document, write

SPECS = PROJECT / "stream_assets" / "contracts" / "specs"


@pytest.mark.parametrize("name", list(load_contracts(SPECS)))
def test_every_check_and_rule_of_the_sample_can_be_set(name, tmp_path) -> None:
    law = load_contracts(SPECS)[name]
    names = [*BRONZE_CHECKS, *silver_checks(law), *[rule.id for rule in build_rules(law)]]
    text = law.file.read_text()
    settings = "".join(f"\n      - {{check: {check}, strictness: gate}}" for check in names)
    file = tmp_path / law.file.name
    file.write_text(f"{text.rstrip()}\n  - property: checks\n    value:{settings}\n")
    assert len(load_contract(file).check_settings) == len(names)


def test_a_row_rule_that_is_no_rule_is_refused(tmp_path) -> None:
    with pytest.raises(ContractError, match="no row rule"):
        load_contract(
            write(tmp_path, document(checks=[{"check": "validity__a__type", "strictness": "sample", "fraction": 0.5}]))
        )
