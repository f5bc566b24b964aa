"""From drift to the next version of a contract, and into its file without harm to comments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from stream_assets.contracts.edit import edit_text, write_proposal
from stream_assets.contracts.load import load_contract
from stream_assets.contracts.model import Contract
from stream_assets.contracts.propose import Drift, Proposal, find_drift, propose, to_fragment, to_identifier
from stream_assets.contracts.versions import diff_datasets
from stream_assets.engine.ledger import Commit
from stream_assets.errors import ContractError
from tests.documents import bend, contract, document, write

STREAM = Path(sys.executable).with_name("stream")
SPECS = Path(__file__).parents[3] / "stream_assets" / "contracts" / "specs"


def entry(rows_in: int = 10, new: tuple[str, ...] = (), **violations: int) -> dict[str, Any]:
    return {"rows_in": rows_in, "new_columns": list(new), "violations": violations}


def proposed(made: Contract, *, new: tuple[str, ...] = (), missing: tuple[str, ...] = ()) -> Proposal:
    return propose(made, Drift(new, missing))


def test_drift_is_any_new_field_of_late_and_what_the_last_day_lacks() -> None:
    """A column that was absent once and came back is not missing; days without records say nothing."""
    entries = {
        "2026-04-01": entry(new=("old",)),
        "2026-04-02": entry(new=("a",), completeness__text__required=10),
        "2026-04-03": entry(new=("b",), completeness__ratio__required=10, completeness__pieces__required=3),
        "2026-04-04": entry(rows_in=0),
    }
    assert find_drift(entries, days=2) == Drift(("a", "b"), ("ratio",))
    assert find_drift({}, days=7) == Drift((), ())


def test_a_column_is_missing_from_the_records_that_could_be_read() -> None:
    """Lines that are no records lack nothing; a few late records of an older delivery may still have the column."""
    broken = {
        "validity__record__malformed": 50,
        "completeness__pieces__required": 48,
        "completeness__ratio__required": 40,
    }
    assert find_drift({"2026-04-01": entry(100, **broken)}, days=7).missing == ("pieces",)


def test_a_new_field_asks_for_a_minor_version(tmp_path: Path) -> None:
    found = proposed(contract(tmp_path), new=("giftWrap",))
    assert to_fragment(found) == {
        "version": "1.1.0",
        "schema": [
            {
                "name": "readings",
                "properties": [{"name": "gift_wrap", "physicalName": "giftWrap", "logicalType": "string"}],
            }
        ],
    }


def test_a_required_column_without_values_asks_for_a_major_version(tmp_path: Path) -> None:
    """Readers were promised a value."""
    made = contract(tmp_path, bend(document(), "schema.0.properties.3.required", True))
    found = proposed(made, missing=("pieces", "ratio"))
    assert (found.relaxed, found.version) == (("pieces",), "2.0.0")


def test_keys_and_times_stay_required(tmp_path: Path) -> None:
    found = proposed(contract(tmp_path), missing=("reading_id", "taken_at"))
    assert (found.relaxed, found.kept, found.changes) == ((), ("reading_id", "taken_at"), [])


def test_a_personal_field_is_proposed_hashed(tmp_path: Path) -> None:
    (column,) = proposed(contract(tmp_path), new=("phone",)).added
    assert column.pii == "hash"


def test_names_that_are_taken_get_a_number(tmp_path: Path) -> None:
    found = proposed(contract(tmp_path), new=("Text", "TEXT!", "valid_from", "text"))
    assert [column.name for column in found.added] == ["text_2", "text_3", "valid_from_2"]


@given(st.text(max_size=100))
def test_any_field_name_becomes_an_identifier(source: str) -> None:
    name = to_identifier(source)
    assert name.isidentifier() and name.islower() and name.isascii() and len(name) <= 63


FLOW = "schema: [{name: t, properties: [{name: a, required: true}, {name: b}]}] # flow\nversion: '1.0.0'\n"
BLOCK = """\
version: 1.0.0  # the version
schema:
  - name: t
    properties:
      # the key
      - name: a
        required: true  # always
      - name: b
        description: >
          Long
          words.
      # after the last
    quality: []
"""
LAST = "version: 1.0.0\nschema:\n- name: t\n  properties:\n  - {name: a, required: true}\n  - {name: b}"


@pytest.mark.parametrize("text", [FLOW, BLOCK, LAST], ids=["flow", "block", "end of file"])
def test_every_layout_is_edited_in_place(text: str, tmp_path: Path) -> None:
    """Only the version, what is required and the new column differ; comments stay."""
    made = proposed(contract(tmp_path), new=("extra: [1]",))
    edited = edit_text(text, Proposal(made.contract, made.added, relaxed=("a",), kept=()))
    expected = yaml.safe_load(text)
    expected["version"] = "1.1.0"
    expected["schema"][0]["properties"][0]["required"] = False
    expected["schema"][0]["properties"].append(
        {"name": "extra_1", "physicalName": "extra: [1]", "logicalType": "string"}
    )
    assert yaml.safe_load(edited) == expected
    assert [line.split("#")[1] for line in edited.splitlines() if "#" in line] == [
        line.split("#")[1] for line in text.splitlines() if "#" in line
    ]


@pytest.mark.parametrize("spec", sorted(SPECS.glob("*.yaml")), ids=lambda file: file.name)
def test_what_is_written_is_what_was_proposed(spec: Path, tmp_path: Path) -> None:
    """The file loads again, differs by exactly the proposal, and its version is large enough."""
    file = tmp_path / spec.name
    file.write_text(spec.read_text(encoding="utf-8"), encoding="utf-8")
    old = load_contract(file)
    missing = tuple(column.name for column in old.columns if column.required)
    made = proposed(old, new=("loyaltyTier", "mobile"), missing=missing)
    write_proposal(made)
    (found,) = diff_datasets({old.name: old}, {old.name: load_contract(file)})
    assert list(found.changes) == made.changes
    assert found.verdict == "ok"
    assert [path.name for path in tmp_path.iterdir()] == [spec.name]


def test_a_result_that_would_be_refused_is_not_written(tmp_path: Path) -> None:
    made = contract(tmp_path)
    before = made.file.read_text()
    spoiled = Proposal(made, (propose(made, Drift(("x",), ())).added[0],) * 2, (), ())
    with pytest.raises(ContractError, match="appears twice"):
        write_proposal(spoiled)
    assert made.file.read_text() == before


def stream(*args: str, home: Path) -> subprocess.CompletedProcess[str]:
    env = {"STREAM_HOME": str(home), "STREAM_CONTRACTS": str(home / "contracts")}
    command = [STREAM, "contracts", "propose", *args]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=120)


def test_the_command_proposes_and_writes(tmp_path: Path) -> None:
    file = write(tmp_path / "contracts", document())
    table = tmp_path / "lake" / "silver" / "readings"
    write_deltalake(table, pa.table({"a": [1]}))
    page = Commit("run", "readings", "silver", "1.0.0", {"2026-04-01": entry(new=("tier",))}).to_json()
    info = {"timestamp": 1, "operation": "WRITE", "operationParameters": {}, "userMetadata": page}
    (table / "_delta_log" / f"{1:020}.json").write_text(json.dumps({"commitInfo": info}) + "\n")
    shown = stream("readings", home=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert yaml.safe_load(shown.stdout)["schema"][0]["properties"] == [{"name": "tier", "logicalType": "string"}]
    assert load_contract(file).version == "1.0.0"
    assert stream("readings", "--write", home=tmp_path).returncode == 0
    assert (load_contract(file).version, load_contract(file).column("tier").required) == ("1.1.0", False)
    assert "Nothing to propose" in stream("readings", home=tmp_path).stdout


def test_an_unknown_dataset_is_explained(tmp_path: Path) -> None:
    done = stream("nothing", home=tmp_path)
    assert done.returncode == 1
    assert "no sound contract called nothing" in done.stderr
