"""Bad input, each kind once: a record is quarantined with the rule it breaks, or kept unchanged on purpose. Nothing fails.

All cases are lines of one file, landed and refined in one run. The rules of a contract have a good and a bad case each.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from stream_assets.bronze.land import Landing
from tests.documents import contract, document, with_column
from tests.lakes import deliver, forget_tables, lake_at, land_days, ledger, refine_days, rows, table

DAY = date(2025, 3, 2)
UUID = "00000000-0000-4000-8000-000000000000"
HEAD = f'"event_id":"{UUID}","event_type":"created","timestamp":"2025-03-02T10:00:00Z","version":1,"source":"lab"'
TIME = '"taken_at":"2025-03-02T10:00:00Z"'
MALFORMED, EMPTY, ENCODING, REPEATED = (
    f"validity__record__{name}" for name in ("malformed", "empty", "encoding", "repeated_key")
)


@dataclass(frozen=True)
class Case:
    """A line and what has to become of it: the rules it breaks, or the values it is kept with."""

    line: bytes
    broken: tuple[str, ...] = ()
    kept: dict[str, Any] = field(default_factory=dict)


def wrap(data: str, head: str = HEAD) -> str:
    return f'{{{head},"data":{{{data}}}}}'


CASES: dict[str, Case] = {}


def line(name: str, content: str | bytes, /, *broken: str, **kept: Any) -> None:
    """A whole line as it is in the file."""
    CASES[name] = Case(content if isinstance(content, bytes) else content.encode(), broken, kept)


def record(name: str, data: str, /, *broken: str, **kept: Any) -> None:
    """A sound record with these fields in its data as well."""
    line(name, wrap(f'"reading_id":"{name}",{TIME}{"," if data else ""}{data}'), *broken, **kept)


def moment(name: str, when: str, /, *broken: str, **kept: Any) -> None:
    """A record with this event time."""
    line(name, wrap(f'"reading_id":"{name}","taken_at":{when}'), *broken, **kept)


SOUND = wrap(f'"reading_id":"sound",{TIME}')

# What is not one JSON object on one line.
line("trailing_text", SOUND + " and more", MALFORMED)
line("trailing_member", SOUND + ',"x":1', MALFORMED)
line("trailing_comma", SOUND + ",", MALFORMED)
line("trailing_brace", SOUND + "}", MALFORMED)
line("trailing_comment", SOUND + " // more", MALFORMED)
line("two_documents", f"{SOUND} {SOUND}", MALFORMED)
line("two_documents_adjacent", SOUND + SOUND, MALFORMED)
line("two_documents_listed", f"{SOUND},{SOUND}", MALFORMED)
line("faked_end", SOUND + ',{"_end of record":""}] and more', MALFORMED)
line("truncated", SOUND[:80], MALFORMED)
line("top_level_array", f"[{SOUND}]", MALFORMED)
for scalar in ("5", '"text"', "null", "true", "{}", "[]"):
    line(f"only_{scalar}", scalar, MALFORMED)
line("null_bytes", b"\x00" * 40, MALFORMED)
line("null_byte_inside", wrap(f'"reading_id":"n",{TIME},"text":"a\x00b"'), MALFORMED)
line("single_quotes", SOUND.replace('"', "'"), MALFORMED)
line("unquoted_names", wrap('reading_id:"u",taken_at:"2025-03-02T10:00:00Z"'), MALFORMED)
line("empty_line", "", EMPTY)
line("blank_line", "  \t ", EMPTY)
line("empty_windows_line", "\r", EMPTY)
line("invalid_utf8", SOUND.encode().replace(b"sound", b"\xc3\x28"), ENCODING)
line("utf_16", SOUND.encode("utf-16-le").replace(b"\n", b""), MALFORMED)
record("half_a_character", r'"text":"\ud83d"', ENCODING)
line("byte_order_mark", b"\xef\xbb\xbf" + wrap(f'"reading_id":"byte_order_mark",{TIME}').encode(), text=None)
line("windows_line_end", wrap(f'"reading_id":"windows_line_end",{TIME}') + "\r", text=None)
record("whole_characters", r'"text":"\ud83d\ude00 \\ud83d \u00e9"', text="\U0001f600 \\ud83d é")
record("end_mark_as_text", '"text":"_end"', text="_end")

# Monsters.
record("long_string", '"text":"' + "s" * 21_000_000 + '"', MALFORMED)
record("deep_nesting", '"detail":' + "[" * 100_000 + "]" * 100_000, MALFORMED)
record("long_key", '"' + "k" * 60_000 + '":1', MALFORMED)
record("long_integer", '"pieces":' + "9" * 2000, MALFORMED)
for name, text in {"number": "9" * 1_000_000, "no_number": "9" * 1_000_000 + "x"}.items():
    record(f"long_{name}", f'"ratio":"{text}","pieces":"{text}"', "validity__ratio__type", "validity__pieces__type")
record("long_zeros", f'"amount":"5.{"0" * 1_000_000}"', "validity__amount__type")
record("long_address", '"contact":"a@b' + ".a" * 500_000 + '"', contact="a@b" + ".a" * 500_000)
record("long_odd_address", '"contact":"a@b' + ".a" * 500_000 + '@"', "validity__contact__format")
record("long_for_a_pattern", '"path":"' + "/a" * 500_000 + '"', "validity__path__pattern")
record("longest_for_a_pattern", '"path":"' + "/a" * 250 + '"', path="/a" * 250)
record("long_for_a_possessive_pattern", '"route":"' + "/a" * 500_000 + '"', route="/a" * 500_000)
record("long_for_an_expression", '"given":"' + "/a" * 500_000 + '"', "consistency__record__given_path")
record("escapes", '"text":"' + r"\\" * 500_000 + r'\u00e9"', text="\\" * 500_000 + "é")
record("half_a_character_after_escapes", '"text":"' + r"\\" * 500_000 + r'\ud83d"', ENCODING)
record("many_columns", ",".join(f'"extra_{n}":{n}' for n in range(10_000)), text=None)

# Repeated keys, outside, inside, in disguise. Inside a column of JSON text nothing is taken out, so nothing is lost.
line("repeated_outside", wrap(f'"reading_id":"r",{TIME}', HEAD + ',"source":"again"'), REPEATED)
line("repeated_data", wrap(f'"reading_id":"r",{TIME}', HEAD + ',"data":{}'), REPEATED)
record("repeated_inside", '"text":"a","text":"b"', REPEATED)
record("repeated_escaped", r'"text":"a","\u0074ext":"b"', REPEATED)
record("repeated_deeper", '"detail":{"a":1,"a":2}', detail='{"a":1,"a":2}')
record("same_but_for_case", '"Text":"a","text":"b"', text="b")

# The envelope.
for name, data in (("null", "null"), ("text", '"x"'), ("array", "[{}]")):
    line(f"data_is_{name}", f'{{{HEAD},"data":{data}}}', MALFORMED)
line("data_is_absent", f"{{{HEAD}}}", MALFORMED)
line(
    "unknown_kind", wrap(f'"reading_id":"k",{TIME}', HEAD.replace("created", "moved")), "validity__event_type__allowed"
)
line("bad_event_id", wrap(f'"reading_id":"e",{TIME}', HEAD.replace(UUID, "12")), "validity__event_id__format")

# Numbers: exact, or not at all.
record("too_many_decimals", '"amount":12.345', "validity__amount__type")
record("too_many_digits", '"amount":1234567890.12000000001', "validity__amount__type")
record("too_many_digits_as_text", '"amount":"1234567890.12000000001"', "validity__amount__type")
record("too_many_digits_with_exponent", '"amount":123456789012000000001e-11', "validity__amount__type")
record("too_large", '"amount":12345678901.12', "validity__amount__type")
for name, colon in {"": ":", "_after_space": " :", "_after_spaces": "  : "}.items():
    data = f'"amount"{colon}12.34000000000000000001,"detail":{{"amount":12.34}}'
    record(f"too_many_digits_beside_fewer{name}", data, "validity__amount__type")
record("too_many_digits_of_an_escaped_name", r'"\u0061mount":12.34000000000000000001', "validity__amount__type")
record("the_same_digits_twice", '"amount":12.34,"detail":{"amount":12.34}', amount=Decimal("12.34"))
record("trailing_zeros", '"amount":12.3400', amount=Decimal("12.34"))
record("exponents", '"amount":1.5e2,"pieces":1e3', amount=Decimal("150.00"), pieces=1000)
for name, text in {"tiny": "1.5e-13", "beside_one": "1.0000000000001e0", "long": "1.00000000000000000001e0"}.items():
    record(f"exponent_{name}", f'"amount":"{text}"', "validity__amount__type")
record("exponent_as_text", '"amount":"-1.25E+1","pieces":"7e0"', amount=Decimal("-12.50"), pieces=7)
record("number_as_text", '"amount":" 1.5 ","pieces":"7"', amount=Decimal("1.50"), pieces=7)
for name, text in {"empty": "", "comma": "1,5", "words": "abc", "arabic": "١٢", "hex": "0x1F"}.items():
    record(f"amount_{name}", f'"amount":"{text}"', "validity__amount__type")
record("fractional_integer", '"pieces":1.5', "validity__pieces__type")
record("integer_overflow", '"pieces":9223372036854775808', "validity__pieces__type")
record("largest_integer", '"pieces":9223372036854775807', pieces=2**63 - 1)
record("integer_through_double", '"pieces":9007199254740993.0', "validity__pieces__type")
record("forty_digits", '"pieces":' + "9" * 40, "validity__pieces__type")
record("integral_fraction", '"pieces":3.0', pieces=3)
for name, text in {"nan": "NaN", "infinity": "Infinity", "leading_zero": "007", "plus": "+7"}.items():
    record(name, f'"ratio":{text}', MALFORMED)
record("nan_as_text", '"ratio":"NaN"', "validity__ratio__type")
record("too_large_a_double", '"ratio":1e999', "validity__ratio__type")
for name, text in {
    "positive": "1e999",
    "negative": "-1e999",
    "of_digits": "9" * 310,
    "just": "1.7976931348623159e308",
}.items():
    record(f"too_large_a_double_{name}", f'"ratio":"{text}"', "validity__ratio__type")
record("largest_double", '"ratio":1.7976931348623157e308', ratio=1.7976931348623157e308)
record("all_digits_of_a_double", '"ratio":0.30000000000000004', ratio=0.1 + 0.2)
record("boolean_words", '"is_final":"yes"', is_final=True)
record("boolean_maybe", '"is_final":"maybe"', "validity__is_final__type")
record("boolean_two", '"is_final":2', "validity__is_final__type")
record("text_from_integer", '"text":12345678901234567890', text="12345678901234567890")
record("text_from_boolean", '"text":true', text="true")
record("text_from_fraction", '"text":1.10', text="1.10")

# Time: to the microsecond, of a real calendar, within reach of the delivery.
TEN = datetime(2025, 3, 2, 10, tzinfo=UTC)
moment("nanoseconds", '"2025-03-02T10:00:00.123456789Z"', "validity__taken_at__type")
moment("tenths_of_microseconds", '"2025-03-02T10:00:00.1234567"', "validity__taken_at__type")
moment("nanoseconds_short", '"2025-3-2T1:0:0.123456789"', "validity__taken_at__type")
moment("microseconds", '"2025-03-02T10:00:00.123456Z"', taken_at=TEN.replace(microsecond=123456))
moment("nanoseconds_of_zeros", '"2025-03-02T10:00:00.123456000Z"', taken_at=TEN.replace(microsecond=123456))
moment("offset", '"2025-03-02T23:30:00-05:00"', taken_at=datetime(2025, 3, 3, 4, 30, tzinfo=UTC))
moment("single_digits", '"2025-3-2T10:0:0.000000"', taken_at=TEN)
moment("no_zone_is_utc", '"2025-03-02T10:00:00"', taken_at=TEN)
moment("date_only", '"2025-03-02"', taken_at=TEN.replace(hour=0))
for name, text in {
    "year": '"2025"',
    "clock": '"10:00:00"',
    "clock_to_the_millisecond": '"10:00:00.000"',
    "clock_with_offset": '"10:00:00+00:00"',
    "clock_after_t": '"T10:00:00Z"',
    "clock_of_single_digits": '"1:2:3-08:00"',
    "clock_after_tab": r'"\t10:00:00.000"',
    "month_before_tabs": r'"2025-03\t\t\t"',
    "epoch": "1740909600",
    "february_30": '"2025-02-30T10:00:00Z"',
}.items():
    moment(name, text, "validity__taken_at__type")
moment("hour_24", '"2025-03-02T24:00:00Z"', "validity__taken_at__type")
moment("words_after", '"2025-03-02T10:00:00Z tomorrow"', "validity__taken_at__type")
moment("just_in_time", '"2025-02-28T00:00:00Z"', taken_at=datetime(2025, 2, 28, tzinfo=UTC))
moment("too_late", '"2025-02-27T23:59:59.999999Z"', "validity__taken_at__window")
moment("tomorrow", '"2025-03-03T23:59:59Z"', taken_at=datetime(2025, 3, 3, 23, 59, 59, tzinfo=UTC))
moment("after_tomorrow", '"2025-03-04T00:00:00Z"', "validity__taken_at__window")
moment("year_12025", '"+12025-03-02T10:00:00Z"', "validity__taken_at__window")
moment("no_time", "null", "completeness__taken_at__required")
record("date_with_time", '"due_date":"2025-04-01T00:00:00Z"', "validity__due_date__type")
record("february_30_date", '"due_date":"2025-02-30"', "validity__due_date__type")
record("good_date", '"due_date":"2024-02-29"', due_date=date(2024, 2, 29))
record("formatted_date", '"booked_on":"31.12.2025"', booked_on=date(2025, 12, 31))
record("wrongly_formatted_date", '"booked_on":"2025-12-31"', "validity__booked_on__type")
record("impossible_formatted_date", '"booked_on":"31.02.2025"', "validity__booked_on__type")

# The rules of the contract.
line("key_null", wrap(f'"reading_id":null,{TIME}'), "completeness__reading_id__required")
line("key_absent", wrap(TIME), "completeness__reading_id__required")
record("allowed", '"unit":"cm"', unit="cm")
record("not_allowed", '"unit":"ell"', "validity__unit__allowed")
record("in_range", '"level":1', level=1)
record("below_range", '"level":0', "validity__level__range")
record("at_exclusive_end", '"level":10', "validity__level__range")
record("long_enough", '"code":"ABC"', code="ABC")
record("too_short", '"code":"A"', "validity__code__length")
record("too_long", '"code":"ABCDEF"', "validity__code__length")
record("not_the_pattern", '"code":"abc"', "validity__code__pattern")
record("characters_not_bytes", '"code":"ÄÖÜÉÈ"', code="ÄÖÜÉÈ")
record("path", '"path":"/a/b"', path="/a/b")
record("no_path", '"path":"/a//b"', "validity__path__pattern")
record("address", '"contact":"jane.doe@mail.example.com"', contact="jane.doe@mail.example.com")
for name, text in {
    "no_host": "jane@",
    "no_dot": "jane@example",
    "two_dots": "jane@example..com",
    "two_at": "a@b@c.d",
}.items():
    record(f"address_{name}", f'"contact":"{text}"', "validity__contact__format")
record("good_uuid", f'"ticket":"{UUID}"', ticket=UUID)
record("bad_uuid", f'"ticket":"{UUID}0"', "validity__ticket__format")
record("expression_fails", '"pieces":-1', "consistency__record__pieces_positive")
record("expression_on_null_holds", '"pieces":null', pieces=None)
record("computed", '"part":1,"whole":2', part=1, whole=2)
record("not_computed_of_null", '"part":1,"whole":null', part=1, whole=None)
record("divided_by_zero", '"part":1,"whole":0', "consistency__record__share", "consistency__record__share_of_two")
record("overflowing", f'"part":{2**62},"whole":{2**62}', "consistency__record__product")
record("computed_from_text", '"given":"2025-03-02"', given="2025-03-02")
record("no_date_in_a_rule", '"given":"Jane Doe"', "consistency__record__given_lately")
record(
    "everything_at_once",
    '"amount":"x","pieces":-1,"unit":"ell","code":"a"',
    "validity__amount__type", "validity__unit__allowed", "validity__code__length", "validity__code__pattern",
    "consistency__record__pieces_positive",
)  # fmt: skip

ALLOWED = {
    "id": "u",
    "metric": "invalidValues",
    "arguments": {"validValues": ["cm", "mm"]},
    "mustBe": 0,
    "severity": "error",
}
COLUMNS: list[dict[str, Any]] = [
    {"name": "unit", "quality": [ALLOWED]},
    {"name": "level", "logicalType": "integer", "logicalTypeOptions": {"minimum": 1, "exclusiveMaximum": 10}},
    {"name": "code", "logicalTypeOptions": {"minLength": 2, "maxLength": 5, "pattern": "^[A-ZÄÖÜÉÈ]+$"}},
    {"name": "ticket", "logicalTypeOptions": {"format": "uuid"}},
    {"name": "booked_on", "logicalType": "date", "logicalTypeOptions": {"format": "dd.MM.yyyy"}},
    {"name": "part", "logicalType": "integer"},
    {"name": "whole", "logicalType": "integer"},
    {"name": "given"},
    {"name": "path", "logicalTypeOptions": {"pattern": "^(/[a-z]+)+$"}},
    {"name": "route", "logicalTypeOptions": {"pattern": "^(/[a-z]+)++$"}},
    {"name": "contact", "logicalTypeOptions": {"format": "email"}},
]

EXPRESSIONS = {
    "share": "part / whole <= 1",
    "share_of_two": "part / whole >= 0",
    "product": "part * whole >= 0",
    "given_lately": "given like '/%' or to_date(given) > date'2020-01-01'",
    "given_path": "given not like '/%' or given rlike '^(/[a-z]+)+$'",
}

KNOWN_GAPS = {"text_from_fraction": "Spark writes a JSON fraction through a double before we see its text"}


@dataclass(frozen=True)
class Judged:
    """What became of each line: rules by position, Silver rows by position."""

    landing: Landing
    broken: dict[int, list[str]]
    kept: dict[int, dict[str, Any]]
    ledger: dict[str, dict[str, Any]]
    bronze: dict[int, dict[str, Any]]
    log_bytes: int


@pytest.fixture(scope="module")
def judged(engine_settings, spark, tmp_path_factory) -> Judged:
    """Return the one run over all cases."""
    folder = tmp_path_factory.mktemp("bad_input")
    lake = lake_at(engine_settings, folder)
    made = document(envelope=True)
    for column in COLUMNS:
        with_column(made, **column)
    rules = made["schema"][0]["quality"]
    rules += [{**rules[0], "id": name, "implementation": {"expression": sql}} for name, sql in EXPRESSIONS.items()]
    law = contract(folder, made)
    deliver(lake, f"readings/{DAY}/part-0.jsonl", b"\n".join(case.line for case in CASES.values()) + b"\n")
    forget_tables(spark)
    landing = land_days(spark, lake, law, DAY)
    refine_days(spark, lake, law, *landing.touched)
    forget_tables(spark)

    def by_position(layer: str) -> dict[int, dict[str, Any]]:
        return {row["_position"]: row for row in rows(lake, layer, "readings")}

    return Judged(
        landing,
        {position: row["_violations"] for position, row in by_position("quarantine").items()},
        by_position("silver"),
        ledger(lake, "silver", "readings"),
        by_position("bronze"),
        max(len(json.dumps(commit)) for commit in table(lake, "silver", "readings").history()),
    )


def cases() -> list[Any]:
    gaps = {name: [pytest.mark.xfail(reason=reason, strict=True)] for name, reason in KNOWN_GAPS.items()}
    return [pytest.param(name, id=name, marks=gaps.get(name, [])) for name in CASES]


@pytest.mark.parametrize("name", cases())
def test_a_record_is_kept_unchanged_or_quarantined_with_its_reason(name: str, judged: Judged) -> None:
    """Every line is in exactly one place, with exactly the rules it breaks or exactly the values it came with."""
    case, position = CASES[name], list(CASES).index(name) + 1
    assert sorted(judged.broken.get(position, [])) == sorted(case.broken)
    assert (position in judged.kept) == (not case.broken)
    if not case.broken:
        assert {column: judged.kept[position][column] for column in case.kept} == case.kept


def test_every_line_is_accounted_for(judged: Judged) -> None:
    """Lines in the file = records in Bronze = accepted + quarantined + duplicates, and no two lines are mixed up."""
    assert judged.landing.rows == judged.landing.expected == {DAY: len(CASES)}
    assert not judged.landing.problems
    totals = {
        name: sum(day[name] for day in judged.ledger.values())
        for name in ("rows_in", "accepted", "quarantined", "duplicates")
    }
    assert totals == {
        "rows_in": len(CASES),
        "accepted": len(judged.kept),
        "quarantined": len(judged.broken),
        "duplicates": 0,
    }


def test_bronze_keeps_every_line_as_received(judged: Judged) -> None:
    """Byte for byte; what is not UTF-8 has its bytes beside it. A byte-order mark is only ever cut at the start of a file."""
    for position, case in enumerate(CASES.values(), start=1):
        row = judged.bronze[position]
        assert (row["_raw_bytes"] or row["_raw"].encode()) == case.line


def test_a_record_of_ten_thousand_columns_does_not_fill_the_ledger(judged: Judged) -> None:
    """Unknown columns are told, but not all of them: their names come from outside."""
    told = judged.ledger[DAY.isoformat()]["new_columns"]
    assert "extra_0" in told
    assert len(told) <= 20
    assert judged.log_bytes < 20_000
