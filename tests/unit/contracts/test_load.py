"""Reading a folder of contracts: a bad file is set aside with its reason, the good ones load."""

from datetime import date, timedelta
from pathlib import Path

import pytest

from stream_assets.contracts.load import load_contract, load_contracts
from stream_assets.contracts.model import Contract
from stream_assets.errors import ContractError
from tests.documents import bend, contract, document, with_column, write


def renamed(name: str) -> dict:
    return bend(bend(document(), "schema.0.name", name), "name", name)


def test_a_bad_file_leaves_its_neighbours_alone(tmp_path: Path) -> None:
    """The other datasets keep running, and the refused one says why."""
    write(tmp_path, document())
    write(tmp_path, {"name": "nothing else"}, "broken")
    (tmp_path / "notes.txt").write_text("not a contract")
    found = load_contracts(tmp_path)
    assert list(found) == ["readings"]
    assert [error.file for error in found.broken] == ["broken.odcs.yaml"]


def test_an_empty_or_missing_folder_has_no_contracts(tmp_path: Path) -> None:
    assert len(load_contracts(tmp_path)) == len(load_contracts(tmp_path / "missing")) == 0


def test_one_name_in_two_files_refuses_both(tmp_path: Path) -> None:
    """Neither can be known to be the right one."""
    for name in ("one", "two"):
        write(tmp_path, document(), name)
    write(tmp_path, renamed("other"), "other")
    found = load_contracts(tmp_path)
    assert list(found) == ["other"]
    assert {(error.file, error.field) for error in found.broken} == {
        ("one.odcs.yaml", "name"),
        ("two.odcs.yaml", "name"),
    }


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    """A contract is what the folder holds, not what a link points at; one inside the folder is fine."""
    outside = write(tmp_path / "elsewhere", document())
    folder = tmp_path / "contracts"
    folder.mkdir()
    (folder / "readings.odcs.yaml").symlink_to(outside)
    with pytest.raises(ContractError, match="leaves the contracts folder"):
        load_contract(folder / "readings.odcs.yaml")
    inside = folder / "linked.odcs.yaml"
    inside.symlink_to(write(folder, renamed("kept"), "kept"))
    assert load_contract(inside).name == "kept"


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(8)
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: !!python/object/apply:os.system ['true']", "cannot be read as YAML"),
        ("name: !include other.yaml", "cannot be read as YAML"),
        ("name: a\nname: b", "'name' appears twice"),
        ("team:\n  name: a\n  name: b", "'name' appears twice"),
        ("name: [unclosed", "cannot be read as YAML"),
        ("? [a, b]\n: c", "cannot be read as YAML"),
        ("- a\n- b", "holds no mapping"),
        ("", "holds no mapping"),
        ("just text", "holds no mapping"),
        (b"name: \xff\xfe", "cannot be read as YAML"),
        ("[" * 5000, "cannot be read as YAML"),
        (BOMB, "expands to more than"),
        ("a: &a\n  b: *a", "expands to more than"),
    ],
    ids=[
        "tag",
        "include",
        "repeat",
        "repeat_inside",
        "unclosed",
        "list_key",
        "list",
        "empty",
        "text",
        "bytes",
        "deep",
        "bomb",
        "loop",
    ],
)
def test_hostile_yaml_is_refused(text: str | bytes, problem: str, tmp_path: Path) -> None:
    """No tags, no repeated keys, no bombs; the error names the file and what to do."""
    file = tmp_path / "bad.odcs.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ContractError, match=problem) as caught:
        load_contract(file)
    assert caught.value.file == file.name
    assert caught.value.remedy


def test_the_model_says_what_the_document_says(tmp_path: Path) -> None:
    """Names, types, sources and durations come through as declared."""
    made = with_column(
        document(),
        name="note",
        physicalName="Note (free text)",
        logicalTypeOptions={"maxLength": 5},
        quality=[
            {
                "id": "n",
                "metric": "invalidValues",
                "arguments": {"validValues": ["a", 1]},
                "mustBe": 0,
                "severity": "error",
            }
        ],
        relationships=[{"to": "people.person_id"}],
    )
    made = bend(made, "schema.0.properties.1.logicalTypeOptions", {"format": "dd.MM.yyyy HH:mm"})
    found = contract(tmp_path, made)
    assert (found.name, found.kind, found.key, found.event_time) == ("readings", "event", ("reading_id",), "taken_at")
    assert (found.freshness, found.cadence) == (timedelta(days=2), timedelta(days=1))
    types = [column.type for column in found.columns]
    assert types[:6] == ["string", "timestamp", "decimal(12,2)", "bigint", "double", "boolean"]
    assert found.column("taken_at").timestamp_format == "dd.MM.yyyy HH:mm"
    assert found.column("reading_id").required
    note = found.column("note")
    assert (note.source, note.allowed, note.references) == ("Note (free text)", ("a", "1"), ("people", "person_id"))


def test_an_unquoted_date_is_a_date(tmp_path: Path) -> None:
    """People write historyStart without quotes; YAML would make it another type."""
    file = write(tmp_path, document())
    file.write_text(file.read_text().replace("historyStart: '2025-01-01'", "historyStart: 2025-02-03"))
    assert load_contract(file).history_start == date(2025, 2, 3)


def test_a_composite_key_keeps_its_declared_order(tmp_path: Path) -> None:
    made = with_column(document(), name="part", primaryKey=True, primaryKeyPosition=1)
    assert contract(tmp_path, bend(made, "schema.0.properties.0.primaryKeyPosition", 2)).key == ("part", "reading_id")


def test_the_envelope_comes_first_and_dropped_columns_not_at_all(tmp_path: Path) -> None:
    pii = [{"property": "pii", "value": {"strategy": "drop"}}]
    found = contract(tmp_path, with_column(document(envelope=True), name="phone", customProperties=pii))
    assert [column.name for column in found.record][:3] == ["event_id", "event_type", "event_timestamp"]
    assert "phone" in {column.name for column in found.record} - {column.name for column in found.silver}


def test_a_fingerprint_changes_with_the_meaning(tmp_path: Path) -> None:
    """Equal meaning, equal fingerprint, whatever the layout of the file; any promise changed is another fingerprint."""

    def fingerprint(name: str, made: dict) -> str:
        return contract(tmp_path / name, made).fingerprint

    plain = fingerprint("plain", document())
    shuffled = dict(reversed(document().items()))
    assert fingerprint("shuffled", shuffled) == plain
    file = tmp_path / "commented" / "readings.odcs.yaml"
    write(file.parent, document())
    file.write_text("# a comment\n" + file.read_text())
    assert load_contract(file).fingerprint == plain
    changed = {
        "lateness": document(maxLateness=3),
        "type": bend(document(), "schema.0.properties.2.physicalType", "decimal(12,3)"),
        "column": with_column(document()),
        "rule": bend(document(), "schema.0.quality.0.implementation.expression", "pieces > 0"),
        "required": bend(document(), "schema.0.properties.3.required", True),
    }
    fingerprints = {fingerprint(name, made) for name, made in changed.items()}
    assert len(fingerprints | {plain}) == len(changed) + 1


def pointing(to: str, **more: object) -> dict:
    return bend(
        document(),
        "schema.0.properties.7",
        {"name": "text", "logicalType": "string", "relationships": [{"to": to}], **more},
    )


def test_a_relationship_leads_to_a_column_of_another_contract(tmp_path: Path) -> None:
    write(tmp_path, pointing("places.reading_id"))
    write(tmp_path, renamed("places"), "places")
    assert sorted(load_contracts(tmp_path)) == ["places", "readings"]


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (pointing("nowhere.place_id"), "there is no dataset 'nowhere'"),
        (pointing("places.place_id"), "Silver of places has no column 'place_id'"),
        (pointing("places.pieces"), "places.pieces is bigint, this is string"),
        (
            pointing("places.reading_id", customProperties=[{"property": "pii", "value": {"strategy": "hash"}}]),
            "places.reading_id is string, this is string, hash",
        ),
    ],
    ids=["no dataset", "no column", "another type", "another protection"],
)
def test_a_relationship_that_leads_nowhere_is_refused(made: dict, problem: str, tmp_path: Path) -> None:
    """With file and field; the dataset it points at stays."""
    write(tmp_path, made)
    write(tmp_path, renamed("places"), "places")
    found = load_contracts(tmp_path)
    assert list(found) == ["places"]
    (error,) = found.broken
    where = (error.file, "schema[0].properties[7] (text).relationships")
    assert (where, problem in str(error)) == (("readings.odcs.yaml", error.field), True)


def test_what_points_at_a_refused_contract_still_loads(tmp_path: Path) -> None:
    write(tmp_path, pointing("places.reading_id"))
    write(tmp_path, {"name": "nothing else"}, "places")
    found = load_contracts(tmp_path)
    assert (list(found), [error.file for error in found.broken]) == (["readings"], ["places.odcs.yaml"])


PROFILED = [{"property": "profile", "value": True}]
JUDGING = {
    "limit": document(checks=[{"check": "validity__table__rejected_share", "limit": 0.01}]),
    "strictness": document(checks=[{"check": "distribution__table__volume", "strictness": "gate"}]),
    "freeze": document(schemaDrift="freeze"),
    "tier": document(slaTier=1),
    "cadence": document(cadence="2h"),
    "purpose": bend(document(), "description.purpose", "Something else."),
    "owner": bend(document(), "team.members.0.username", "other@example.com"),
    "version": bend(document(), "version", "7.0.0"),
    "description": bend(document(), "schema.0.properties.2.description", "Other words."),
    "profile": bend(document(), "schema.0.properties.3.customProperties", PROFILED),
}
SHAPING = {
    "lateness": document(maxLateness=3),
    "type": bend(document(), "schema.0.properties.2.physicalType", "decimal(12,3)"),
    "column": with_column(document()),
    "protection": with_column(
        document(), name="phone", customProperties=[{"property": "pii", "value": {"strategy": "hash"}}]
    ),
    "rule": bend(document(), "schema.0.quality.0.implementation.expression", "pieces > 0"),
    "severity of a rule": bend(document(), "schema.0.quality.0.severity", "warning"),
    "sampled rule": document(
        checks=[{"check": "validity__amount__type", "strictness": "sample", "fraction": 0.1}],
    ),
    "required": bend(document(), "schema.0.properties.3.required", True),
    "missing values": document(nullValues=["NA"]),
    "unknown columns": document(schemaDrift="quarantine_row"),
    "order": document(orderBy="due_date"),
}


@pytest.mark.parametrize("change", JUDGING)
def test_what_only_judges_leaves_the_shape(change: str, tmp_path: Path) -> None:
    """Rows would come out the same: no day is to be made again for it, though the contract is another."""
    plain, changed = contract(tmp_path / "plain", document()), contract(tmp_path / "changed", JUDGING[change])
    assert changed.fingerprint != plain.fingerprint
    assert changed.shape == plain.shape


def test_what_decides_about_rows_changes_the_shape(tmp_path: Path) -> None:
    made = {name: contract(tmp_path / name, changed) for name, changed in SHAPING.items()}
    shapes = {found.shape for found in made.values()}
    assert len(shapes | {contract(tmp_path / "plain", document()).shape}) == len(SHAPING) + 1


def test_the_sample_contracts_load(tmp_path: Path) -> None:
    """What ships with the product is sound by its own rules."""
    from stream_assets.settings import Settings

    found = load_contracts(Settings.from_env({"STREAM_HOME": str(tmp_path)}).contracts)
    assert (len(found), found.broken) == (7, ())
    assert all(isinstance(value, Contract) for value in found.values())
