"""Rejected records are shown without personal data, and an edited one gets back what its masks hide."""

from pathlib import Path

from stream_assets.ops.quarantine.records import MASK, mask, parse, render, unmask
from stream_assets.sources.corrections import correction_source
from tests.documents import contract, document


def personal(folder: Path):
    made = document()
    text = next(c for c in made["schema"][0]["properties"] if c["name"] == "text")
    text |= {"classification": "restricted", "customProperties": [{"property": "pii", "value": {"strategy": "mask"}}]}
    return contract(folder, made)


def test_only_what_the_contract_knows_as_harmless_is_shown(tmp_path: Path) -> None:
    law = personal(tmp_path)
    record = {"reading_id": "a", "text": "Ada", "pieces": -1, "unknown": "Ada", "detail": None}
    assert mask(record, law) == {"reading_id": "a", "text": MASK, "pieces": -1, "unknown": MASK, "detail": None}


def test_a_mask_stands_for_the_value_as_received() -> None:
    original = {"a": 1, "data": {"name": "Ada", "age": 3}}
    edited = {"a": 2, "data": {"name": MASK, "age": 4}}
    assert unmask(edited, original) == {"a": 2, "data": {"name": "Ada", "age": 4}}


def test_lines_of_csv_and_json_are_read_and_written_alike() -> None:
    assert parse('x,"a,b"', "id,text") == {"id": "x", "text": "a,b"}
    assert render({"id": "x", "text": "a,b"}, "id,text") == 'x,"a,b"'
    assert parse("x", "id,text") is None
    assert parse('{"a": 1}') == {"a": 1}
    assert parse("[1]") is None
    assert parse("not json") is None


def test_what_corrects_a_correction_stands_in_for_the_same_original() -> None:
    first = correction_source("e1", "orders/2025-03-02/a.jsonl", "raw")
    second = correction_source("e2", first, "other")
    assert first.split("/", 2)[2] == second.split("/", 2)[2]
    assert second.startswith("correction/e2/")
