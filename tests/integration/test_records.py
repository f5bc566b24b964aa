"""Which keys a record has is told from its text in most cases: it must be what a JSON parser says in all of them."""

import json
import random
from typing import Any

from stream_assets.sources.records import with_record
from tests.documents import contract, document

ENVELOPE = ("event_id", "event_type", "timestamp", "version", "source", "correlation_id")
OTHERS = ("extra", "null", ":", '":', "a:b", 'x"reading_id', "data", "reading id", "é", "\\")
VALUES = (
    None,
    None,
    1,
    -2.5,
    True,
    "",
    "x",
    ":",
    ":null",
    '":',
    '"a":null',
    "a\\",
    "é\n",
    [":", None],
    {"extra": None},
)
RECORDS = 4_000


def test_unknown_and_repeated_keys_are_what_a_parser_finds(spark, tmp_path) -> None:
    """Any keys, values, spaces and escapes, nested and repeated, with the contract's own names among them."""
    chance = random.Random(5)
    law = contract(tmp_path, document(envelope=True))
    known = [column.source for column in law.columns]
    lines = [_record(chance, known) for _ in range(RECORDS)]
    rows = spark.createDataFrame([(line, n) for n, line in enumerate(lines)], "_raw string, _position bigint")
    read = with_record(rows.selectExpr("*", "cast(null as binary) as _raw_bytes"), law)
    found = {row["_position"]: (row["_problem"], row["_unknown"]) for row in read.collect()}
    expected = {n: _expected(line, known) for n, line in enumerate(lines)}
    wrong = {lines[n]: (found[n], expected[n]) for n in expected if found[n] != expected[n]}
    assert not wrong, list(wrong.items())[:3]
    assert len({problem for problem, _ in expected.values()}) == 2
    assert 0.1 < sum(unknown is None for _, unknown in expected.values()) / RECORDS < 0.9


def test_space_before_a_colon_hides_no_other_key(spark, tmp_path) -> None:
    """Each kind of space that JSON allows, before the colon of one key: the unknown key beside it is seen. Messages may have line breaks."""
    law = contract(tmp_path)
    spaces = ["", " ", "  ", "\t", "\r", "\n", "\r\n", "\n\n"]
    lines = [f'{{"reading_id"{space}:"x","extra":1}}' for space in spaces]
    rows = spark.createDataFrame([(line,) for line in lines], "_raw string")
    read = with_record(rows.selectExpr("*", "cast(null as binary) as _raw_bytes"), law).collect()
    assert {row["_raw"]: row["_unknown"] for row in read} == {line: ["extra"] for line in lines}


def _record(chance: random.Random, known: list[str]) -> str:
    colon = chance.choice((":", ":", ": ", " :", "\t: "))
    names = [name for name in known if chance.random() < 0.9]
    names += chance.sample([*OTHERS, *ENVELOPE, *known], chance.choice((0, 0, 0, 1, 2)))
    chance.shuffle(names)
    outer = [name for name in ENVELOPE if chance.random() < 0.95]
    outer += chance.sample([*ENVELOPE, *known, "extra"], chance.choice((0, 0, 0, 1)))
    data = _object(chance, [(name, _value(chance)) for name in names], colon)
    fields = [(name, _value(chance)) for name in outer]
    fields.insert(chance.randrange(len(fields) + 1), ("data", data))
    return _object(chance, fields, colon)


def _value(chance: random.Random) -> str:
    separators = chance.choice(((",", ":"), (", ", ": ")))
    return json.dumps(chance.choice(VALUES), ensure_ascii=chance.random() < 0.5, separators=separators)


def _object(chance: random.Random, fields: list[tuple[str, str]], colon: str) -> str:
    mixed = chance.random() < 0.1
    colons = [chance.choice((":", " : ", "  :", "\r:", "\n:")) if mixed else colon for _ in fields]
    return "{" + ",".join(json.dumps(n) + c + v for (n, v), c in zip(fields, colons, strict=True)) + "}"


def _expected(line: str, known: list[str]) -> tuple[str | None, list[str] | None]:
    """The problem of a record and its unknown fields, by Python's own parser."""
    outer: list[tuple[str, Any]] = json.loads(line, object_pairs_hook=list)
    inner: list[tuple[str, Any]] = dict(outer)["data"]
    repeats = any(len({name for name, _ in part}) < len(part) for part in (outer, inner))
    unknown = list(dict.fromkeys(name for name, _ in inner if name not in known))
    return ("validity__record__repeated_key" if repeats else None, unknown or None)
