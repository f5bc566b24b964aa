"""What a contract must say: each missing or wrong promise is refused with the file, the field and a remedy."""

import contextlib
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream_assets.contracts.durations import parse_duration, sla_duration
from stream_assets.contracts.load import load_contract
from stream_assets.contracts.validate import validate
from stream_assets.errors import ContractError
from tests.documents import ABSENT, bend, document, with_column

PROPERTIES = "schema.0.properties"


def refusal(made: dict[str, Any]) -> ContractError:
    with pytest.raises(ContractError) as caught:
        validate("readings.odcs.yaml", made)
    return caught.value


def test_a_complete_contract_is_accepted() -> None:
    """The document that every test below bends has nothing wrong with it."""
    validate("readings.odcs.yaml", document())


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("domain", ABSENT, "domain"),
        ("domain", "Sales & Marketing", "domain"),
        ("description", ABSENT, "description"),
        ("description", {"usage": "any"}, "description.purpose"),
        ("servers", ABSENT, "servers"),
        ("servers.0", {"server": "shop", "type": "duckdb", "database": "x", "schema": "y"}, "servers.shop.type"),
        ("servers.0.format", "delta", "servers.landing.format"),
        ("schema", ABSENT, "schema"),
        ("schema", [], "schema"),
        ("schema.0.name", "other", "schema[0].name"),
        ("schema.0.dataGranularityDescription", ABSENT, "schema[0].dataGranularityDescription"),
        (PROPERTIES, [], "schema[0].properties"),
        (f"{PROPERTIES}.0.primaryKey", False, "schema[0].properties"),
        (f"{PROPERTIES}.1.logicalType", ABSENT, "schema[0].properties[1] (taken_at)"),
        (f"{PROPERTIES}.2.physicalType", "decimal(2,5)", "schema[0].properties[2] (amount).physicalType"),
        (f"{PROPERTIES}.2.physicalType", "decimal(39,0)", "schema[0].properties[2] (amount).physicalType"),
        ("version", "1.0", "version"),
        ("slaProperties", ABSENT, "slaProperties"),
        ("slaProperties.0", ABSENT, "slaProperties.freshness"),
        ("slaProperties.1", ABSENT, "slaProperties.retention"),
        ("slaProperties.1.unit", ABSENT, "slaProperties.retention"),
        ("slaProperties.1.unit", "months", "slaProperties.retention"),
        ("slaProperties.1.value", 10**30, "slaProperties.retention"),
        ("slaProperties.0.value", 1, "slaProperties.freshness"),
        ("team", ABSENT, "team"),
        ("team.name", ABSENT, "team.name"),
        ("team.members", [], "team.members"),
        ("team.members.0.role", "reader", "team.members"),
        ("team.members.0.username", "jane", "team.members"),
        ("customProperties", [], "customProperties"),
    ],
)
def test_an_incomplete_contract_is_refused(path: str, value: Any, field: str) -> None:
    """Whatever lets a dataset run unattended has to be said, and the error names what is missing."""
    error = refusal(bend(document(), path, value))
    assert (error.file, error.field) == ("readings.odcs.yaml", field)
    assert error.remedy
    assert all(part in str(error) for part in (error.file, error.field, error.problem, error.remedy))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("datasetKind", ABSENT),
        ("datasetKind", "stream"),
        ("eventTime", ABSENT),
        ("eventTime", "somewhen"),
        ("eventTime", ["taken_at"]),
        ("eventTime", "text"),
        ("orderBy", ABSENT),
        ("orderBy", "nothing"),
        ("maxLateness", ABSENT),
        ("maxLateness", -1),
        ("maxLateness", 366),
        ("maxLateness", True),
        ("maxLateness", 2.5),
        ("slaTier", ABSENT),
        ("slaTier", "tier1"),
        ("cadence", ABSENT),
        ("cadence", "daily"),
        ("cadence", "999999999999999999999999d"),
        ("onInvalid", ABSENT),
        ("onInvalid", "drop"),
        ("schemaDrift", "ignore"),
        ("minKeep", 2),
        ("checks", {"check": "validity__table__warnings"}),
        ("checks", [{"strictness": "gate"}]),
        ("checks", [{"check": "validity__tabel__warnings", "strictness": "gate"}]),
        ("checks", [{"check": "validity__table__warnings", "strictness": "strict"}]),
        ("checks", [{"check": "validity__table__warnings", "limits": 1}]),
        ("checks", [{"check": "validity__table__warnings", "limit": -1}]),
        ("checks", [{"check": "validity__pieces__type", "strictness": "sample"}]),
        ("checks", [{"check": "validity__pieces__type", "strictness": "sample", "fraction": 0}]),
        ("checks", [{"check": "validity__table__warnings", "strictness": "sample", "fraction": 0.5}]),
        ("checks", [{"check": "validity__pieces__type", "strictness": "gate", "fraction": 0.5}]),
        ("minKeep", float("nan")),
        ("replay", ABSENT),
        ("replay", "bronze"),
        ("envelope", "no"),
    ],
)
def test_a_promise_out_of_its_vocabulary_is_refused(name: str, value: Any) -> None:
    """Custom properties have a closed vocabulary: no silent defaults for what runs unattended."""
    assert refusal(document(**{name: value})).field.startswith(f"customProperties.{name}")


def test_history_start_is_a_date() -> None:
    error = refusal(document(replay={"historyStart": "yesterday", "source": "bronze"}))
    assert error.field == "customProperties.replay.historyStart"


@pytest.mark.parametrize("field", ["customProperties", "slaProperties"])
def test_a_property_given_twice_is_refused(field: str) -> None:
    """The last of two values must not win silently."""
    made = document()
    made[field].append(dict(made[field][0]))
    assert refusal(made).field == field


@pytest.mark.parametrize(
    "path",
    [
        "desciption",
        "schema.0.propreties",
        f"{PROPERTIES}.0.primarykey",
        f"{PROPERTIES}.1.requierd",
        "schema.0.quality.0.implementations",
        "slaProperties.0.uint",
        "team.members.0.rol",
    ],
)
def test_a_misspelt_key_is_refused(path: str) -> None:
    """The standard's own model would drop an unknown nested key without a word."""
    error = refusal(bend(document(), path, "x"))
    assert "Open Data Contract Standard" in error.problem


@pytest.mark.parametrize(
    "column",
    [
        {"logicalTypeOptions": {"maximum": 3}},
        {"logicalType": "boolean", "logicalTypeOptions": {"format": "yes/no"}},
        {"logicalTypeOptions": {"format": "hostname"}},
        {"logicalTypeOptions": {"pattern": "(unclosed"}},
        {"logicalType": "integer", "logicalTypeOptions": {"minimum": 10**30}},
        {"logicalType": "integer", "logicalTypeOptions": {"maximum": float("nan")}},
        {"relationships": [{"to": "nowhere"}]},
        {"customProperties": [{"property": "pij", "value": {"strategy": "hash"}}]},
    ],
)
def test_a_column_option_nobody_enforces_is_refused(column: dict[str, Any]) -> None:
    """A rule that cannot be run is worse than none: people would rely on it."""
    refusal(with_column(document(), **column))


@pytest.mark.parametrize(
    "rule",
    [
        {"metric": "invalidValues", "arguments": {"validValues": []}, "mustBe": 0},
        {"metric": "invalidValues", "arguments": {"validValues": ["a"]}, "mustBe": 3},
        {"metric": "nullValues", "mustBe": 0},
        {"metric": "invalidValues", "arguments": {"validValues": ["SE", False]}, "mustBe": 0},
        {"metric": "invalidValues", "arguments": {"validValues": [None]}, "mustBe": 0},
    ],
)
def test_a_quality_rule_nobody_enforces_is_refused(rule: dict[str, Any]) -> None:
    """An unquoted NO in a list of countries is false to YAML: it is refused before Norway is."""
    refusal(with_column(document(), quality=[{"id": "known", "severity": "error"} | rule]))


@pytest.mark.parametrize("missing", ["id", "severity", "engine", "dimension", "implementation"])
def test_a_rule_between_columns_is_complete(missing: str) -> None:
    assert refusal(bend(document(), f"schema.0.quality.0.{missing}", ABSENT))


@pytest.mark.parametrize(
    "name", ["Readings", "1st", "a-b", "a b", "x" * 64, "données", "a;drop", "", None, "../up", "a`b"]
)
def test_only_plain_identifiers_are_names(name: Any) -> None:
    """Names end up in paths, SQL and asset keys, so nothing but letters, digits and _ gets there."""
    made = bend(document(), "schema.0.name", name)
    assert refusal(bend(made, "name", name)).field in ("name", "schema[0].name")
    assert "[9]" in refusal(with_column(document(), name=name)).field


@pytest.mark.parametrize("path", ["../other", "/etc", "a/../../b", "", ".", "a b", "~/x", "a\nb", "file:///etc", "*"])
def test_a_landing_path_stays_in_the_landing_zone(path: str) -> None:
    assert refusal(bend(document(), "servers.0.path", path)).field == "servers.landing.path"


@pytest.mark.parametrize("name", ["_raw", "_source", "_violations", "_key"])
def test_reserved_columns_are_refused(name: str) -> None:
    refusal(with_column(document(), name=name))


@pytest.mark.parametrize(
    ("custom", "name"),
    [({}, "reading_id"), ({"envelope": True}, "event_id"), ({"datasetKind": "entity"}, "valid_from")],
)
def test_a_column_name_is_used_once(custom: dict[str, Any], name: str) -> None:
    """Twice in the schema, once more in the envelope, or once more in an entity's history: all the same."""
    assert refusal(with_column(document(**custom), name=name)).field == "schema[0].properties"


def test_the_validity_of_a_version_is_a_free_name_elsewhere() -> None:
    validate("readings.odcs.yaml", with_column(document(), name="valid_from", logicalType="timestamp"))


def test_an_entity_is_ordered_by_time() -> None:
    """A version's validity is a pair of moments: a counter cannot give them."""
    made = document(datasetKind="entity", orderBy="pieces")
    assert refusal(made).field == "customProperties.orderBy"


def test_ten_thousand_columns_are_refused_at_once() -> None:
    made = document()
    made["schema"][0]["properties"] += [{"name": f"c{n}", "logicalType": "string"} for n in range(10_000)]
    assert "1000 columns" in refusal(made).problem


@pytest.mark.parametrize(
    "column",
    [
        {"name": "email"},
        {"name": "home_phone"},
        {"name": "nickname", "tags": ["pii"]},
        {"name": "nickname", "classification": "restricted"},
        {"name": "nickname", "customProperties": [{"property": "pii", "value": {"strategy": "rot13"}}]},
        {"name": "nickname", "customProperties": [{"property": "pii", "value": "hash"}]},
        {"name": "email", "customProperties": [{"property": "pii", "value": {"strategy": "keep"}}]},
        {"primaryKey": True, "customProperties": [{"property": "pii", "value": {"strategy": "drop"}}]},
        {"primaryKey": True, "customProperties": [{"property": "pii", "value": {"strategy": "mask"}}]},
    ],
)
def test_personal_data_needs_a_strategy_that_works(column: dict[str, Any]) -> None:
    """A column that looks personal says how it is protected; a key stays distinct, and keeping has a reason."""
    assert "pii" in refusal(with_column(document(), **column)).field


@pytest.mark.parametrize("strategy", ["hash", "tokenize", "mask", "drop"])
def test_every_strategy_is_accepted(strategy: str) -> None:
    pii = [{"property": "pii", "value": {"strategy": strategy}}]
    validate("readings.odcs.yaml", with_column(document(), name="email", customProperties=pii))


def test_what_orders_records_is_not_hidden() -> None:
    """A hashed moment has no order, a dropped one no value."""
    pii = [{"property": "pii", "value": {"strategy": "hash"}}]
    assert "taken_at" in refusal(bend(document(), f"{PROPERTIES}.1.customProperties", pii)).field


EXPRESSION = "schema.0.quality.0.implementation.expression"


@pytest.mark.parametrize(
    "hostile",
    [
        "pieces > 0; drop table silver.orders",
        "pieces > 0 -- and more",
        "pieces /* x */ > 0",
        "`pieces` > 0",
        'text = "a"',
        "reflect('java.lang.System', 'exit', '1') is null",
        "java_method('java.lang.Runtime', 'getRuntime') is null",
        "try_reflect('a', 'b') is null",
        "pieces in (select pieces from silver.orders)",
        "exists (select 1)",
        "pieces in (table orders)",
        "read_files('/etc/passwd') is null",
        "input_file_name() = 'x'",
        "text = 'a\\' or true or \\''",
        "text = 'unclosed",
        "secret('a') = 'b'",
        "${spark.env} = 1",
        "@x = 1",
        "unknown_column > 0",
        "",
        "   ",
        5,
        None,
    ],
)
def test_a_hostile_expression_is_refused(hostile: Any) -> None:
    """Columns, literals, operators and a short list of functions: nothing that calls into the JVM or runs a query."""
    assert "quality[0]" in refusal(bend(document(), EXPRESSION, hostile)).field


@pytest.mark.parametrize(
    ("columns", "hostile"),
    [
        (["reflect"], "reflect('java.lang.System', 'exit', '1') is null"),
        (["reflect"], "reflect  ('java.lang.System', 'exit', '1') is null"),
        (["select", "from", "orders"], "pieces in (select pieces from orders)"),
        (["from", "select", "orders"], "pieces in (from orders select pieces)"),
    ],
)
def test_a_column_named_like_a_function_opens_no_door(columns: list[str], hostile: str) -> None:
    """Declaring a column called reflect must not make the function of that name acceptable."""
    made = document()
    for name in columns:
        with_column(made, name=name)
    assert "neither a column nor an allowed function" in refusal(bend(made, EXPRESSION, hostile)).problem


@pytest.mark.parametrize(
    "harmless",
    [
        "pieces >= 0 and amount < 100.5",
        "text = 'it''s; -- fine' or text is null",
        "coalesce(length(trim(text)), 0) <= 10",
        "case when is_final then amount > 0 else true end",
        "taken_at >= timestamp '2025-01-01 00:00:00'",
        "due_date between date '2025-01-01' and date '2030-01-01'",
        "lower(text) in ('a', 'b')",
    ],
)
def test_a_harmless_expression_is_accepted(harmless: str) -> None:
    validate("readings.odcs.yaml", bend(document(), EXPRESSION, harmless))


DAMAGE = (ABSENT, None, "", "a\nb", 1.5, True, [None], {"x": 1}, 10**30)


def paths(value: Any, path: str = "") -> Iterator[str]:
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from paths(child, f"{path}.{key}".lstrip("."))


def small(kind: str) -> dict[str, Any]:
    """A document with one column of a kind: to the validator the others differ in little."""
    made = document(datasetKind=kind)
    made["schema"][0]["properties"] = made["schema"][0]["properties"][:4]
    return made


@pytest.mark.parametrize("kind", ["event", "entity", "reference"])
def test_any_damage_is_refused_or_harmless(kind: str, tmp_path: Path) -> None:
    """Any value of a contract, replaced by anything, gives a contract or a `ContractError`: one bad file takes nothing down."""
    file = tmp_path / "readings.odcs.yaml"
    every = [(path, other) for path in paths(small(kind)) for other in DAMAGE]
    for path, other in random.Random(kind).sample(every, 120):
        made = bend(small(kind), path, other)
        file.write_text(yaml.safe_dump(made), encoding="utf-8")
        with contextlib.suppress(ContractError):
            load_contract(file)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", timedelta(minutes=30)),
        ("2 h", timedelta(hours=2)),
        ("7d", timedelta(days=7)),
        ("3y", timedelta(days=3 * 365)),
        *[(text, None) for text in ("", "d", "1w", "-1d", "1.5h", "1d ", "1 month", "١d", None, 5, "9999999999d")],
    ],
)
def test_durations(text: object, expected: timedelta | None) -> None:
    """A number and one of m, h, d, y; anything else is no duration, never a wrong one."""
    assert parse_duration(text) == expected


def test_a_service_level_has_a_unit_of_fixed_length() -> None:
    """The first letter of months is that of minutes."""
    assert sla_duration({"value": 3, "unit": "years"}) == timedelta(days=3 * 365)
    assert sla_duration({"value": 3, "unit": "months"}) is None
