"""Protobuf into text, against Google's own: any message, as JSON that its parser reads as the same message."""

import json
import random
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from pyspark import cloudpickle

from stream_assets.errors import ServiceError
from stream_assets.sources.framed import Schema, UnsupportedSchemaError
from stream_assets.sources.protobuf_reader import Reader
from stream_assets.sources.protobuf_schema import describe
from tests.protos import LATER, PLACE, READING, as_descriptor, compiled, framed, schema, type_of

MESSAGES = 400
EVERYTHING = """
syntax = "proto3";
package everything;
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
enum Colour { option allow_alias = true; NONE = 0; RED = 1; ROT = 1; BLUE = -7; }
message All {
  double f_double = 1; float f_float = 2; int32 f_int32 = 3; int64 f_int64 = 4; uint32 f_uint32 = 5; uint64 f_uint64 = 6;
  sint32 f_sint32 = 7; sint64 f_sint64 = 8; fixed32 f_fixed32 = 9; fixed64 f_fixed64 = 10; sfixed32 f_sfixed32 = 11;
  sfixed64 f_sfixed64 = 12; bool f_bool = 13; string fString = 14; bytes f_bytes = 15; Colour colour = 16;
  optional int32 maybe = 17; repeated sint64 packed = 18; repeated string texts = 19; repeated Colour colours = 20;
  map<string, All> by_name = 21; map<sint32, bytes> by_number = 22; map<bool, Colour> by_truth = 23;
  oneof choice { string a_text = 24; All a_message = 25; google.protobuf.Int64Value a_number = 26; }
  message Inner { All back = 1; repeated Inner more = 2; }
  Inner inner = 27; repeated Inner inners = 28;
  google.protobuf.Timestamp moment = 29; google.protobuf.Duration lasting = 30; google.protobuf.Struct free = 31;
  google.protobuf.FieldMask mask = 32; google.protobuf.DoubleValue maybe_double = 33; google.protobuf.BytesValue maybe_bytes = 34;
  repeated int32 loose = 35 [packed = false]; google.type.Date day = 36;
}
"""
OLD = """
syntax = "proto2";
package old;
message Old { required string id = 1; optional int32 pieces = 2 [default = 7]; repeated group Part = 3 { optional string name = 4; } optional string text = 5; }
"""
INTS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1), FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1), FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}  # fmt: skip


class Chance(random.Random):
    """Random messages of a type."""

    def fill(self, message: Any, depth: int = 3) -> Any:
        kind = message.DESCRIPTOR.full_name
        if kind == "google.protobuf.Timestamp":
            message.seconds, message.nanos = self.randint(-62_135_596_800, 253_402_300_799), self.randrange(10**9)
        elif kind == "google.protobuf.Duration":
            message.seconds, message.nanos = self.randint(0, 315_576_000_000), self.randrange(10**9)
        elif kind == "google.protobuf.FieldMask":
            message.paths.extend(self.sample(["a", "b.c", "long_name"], self.randint(0, 3)))
        elif kind == "google.protobuf.Struct":
            message.update({"text": "é", "number": 1.5, "nothing": None, "list": [True, {"deep": [1]}]})
        else:
            for field in message.DESCRIPTOR.fields:
                if self.random() < 0.5 and (depth or field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE):
                    self.set(message, field, depth - 1)
            # Present, though there may be nothing in it.
            message.SetInParent()
        return message

    def set(self, message: Any, field: FieldDescriptor, depth: int) -> None:
        inside = getattr(message, field.name)
        if field.message_type and field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            for _ in range(self.randint(0, 3)):
                if value.message_type:
                    self.fill(inside[self.value(key)], depth)
                else:
                    inside[self.value(key)] = self.value(value)
        elif field.is_repeated:
            for _ in range(self.randint(0, 3)):
                self.fill(inside.add(), depth) if field.message_type else inside.append(self.value(field))
        elif field.message_type:
            self.fill(inside, depth)
        else:
            setattr(message, field.name, self.value(field))

    def value(self, field: FieldDescriptor) -> Any:
        if field.cpp_type in INTS:
            low, high = INTS[field.cpp_type]
            return self.choice((0, low, high, self.randint(low, high)))
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
                return self.choice((0.0, -1.5, 0.1, 1e-30, float("inf"), self.uniform(-1e6, 1e6)))
            case FieldDescriptor.CPPTYPE_BOOL:
                return self.random() < 0.5
            case FieldDescriptor.CPPTYPE_ENUM:
                return self.choice((0, 1, -7, 99))
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self.randbytes(self.randint(0, 9))
        return self.choice(("", "plain", 'a "quoted": {text}', "é\n\t\u0001", "\ufffd", "𝄞", "null"))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> DescriptorPool:
    return compiled(tmp_path_factory.mktemp("protos"), everything=EVERYTHING)


def test_any_message_is_read_exactly(everything: DescriptorPool) -> None:
    """Also after the way to a worker, by a schema as text or as a descriptor; a byte less or more is another message, or none."""
    chance, kind = Chance(20), type_of(everything, "everything.All")
    messages = [chance.fill(kind()) for _ in range(MESSAGES)]
    known = {
        1: describe(schema(EVERYTHING)),
        2: describe(Schema(as_descriptor(everything, "everything.proto"), (), "PROTOBUF")),
    }
    reader = cloudpickle.loads(cloudpickle.dumps(Reader(known)))
    for number, message in enumerate(messages):
        text, decoding = reader.read(framed(1 + number % 2, message))
        assert (decoding, json_format.Parse(text, kind())) == ("protobuf", message)
        written = message.SerializeToString()
        cut, longer = written[: chance.randrange(len(written) + 1)], written + chance.randbytes(3)
        for payload in (cut, longer, chance.randbytes(40)):
            text, decoding = reader.read(framed(1, payload))
            # Some are messages all the same: then they are read whole.
            assert decoding == "undecodable" or is_same(json_format.Parse(text, kind()), kind.FromString(payload))


def is_same(one: Any, other: Any) -> bool:
    return one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


READ = {"reading_id": "r1", "taken_at": "2026-11-16T08:00:00.123Z", "amount": "", "pieces": "9007199254740993"}


def reading() -> dict[str, Any]:
    return {"reading_id": "r1", "taken_at": datetime(2026, 11, 16, 8, 0, 0, 123_000, UTC), "pieces": 2**53 + 1}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> DescriptorPool:
    return compiled(tmp_path_factory.mktemp("protos"), lab__place=PLACE, lab__reading=READING)


def test_what_json_says(lab: DescriptorPool) -> None:
    """Names as declared, whole numbers of 64 bits as text, fields that are never absent always, those that may be only if they are there."""
    reader = Reader({7: describe(schema(READING, lab__place=PLACE)), 8: describe(schema(LATER, lab__place=PLACE))})
    message = type_of(lab, "lab.Reading")(**reading(), place={"street": {"value": "é"}})
    place = {"place": {"city": "", "street": "é"}}
    later = {"is_final": False, "text": "LOW", "detail": {}}
    for id_, expected in ((7, READ | place), (8, READ | place | later)):
        text, decoding = reader.read(framed(id_, message, (1,)))
        assert (json.loads(text or ""), decoding) == (expected, "protobuf")
    text, _ = reader.read(framed(7, type_of(lab, "lab.Unit.Scale")(factor=2), (0, 0)))
    assert text == '{"factor":2.0}'


def test_what_cannot_be_read_breaks_one_rule(lab: DescriptorPool) -> None:
    """Each its own."""
    known = describe(schema(READING, lab__place=PLACE))
    reader = Reader({7: known, 8: "unknown_schema", 9: "unsupported_schema", 10: describe(schema(OLD))})
    sound = type_of(lab, "lab.Reading")(**reading()).SerializeToString()
    judged = {
        "no value": (None, None),
        "nothing in it": (b"", "unframed"),
        "JSON": (b'{"reading_id": "r1"}', "unframed"),
        "another magic byte": (b"\x01" + framed(7, sound, (1,))[1:], "unframed"),
        "a schema nobody knows": (framed(8, sound, (1,)), "unknown_schema"),
        "a schema that was not asked for": (framed(77, sound, (1,)), "unknown_schema"),
        "a schema that cannot be read": (framed(9, sound, (1,)), "unsupported_schema"),
        "only a header": (framed(7, b"")[:5], "undecodable"),
        "a type that is not there": (framed(7, sound, (2,)), "undecodable"),
        "a type inside that is not there": (framed(7, sound, (1, 0)), "undecodable"),
        "a negative place": (b"\x00\x00\x00\x00\x07\x02\x01" + sound, "undecodable"),
        "a place without end": (b"\x00\x00\x00\x00\x07" + b"\xff" * 50, "undecodable"),
        "cut": (framed(7, sound[:-1], (1,)), "undecodable"),
        "another type": (framed(7, type_of(lab, "lab.Unit.Scale")(factor=2), (1,)), "undecodable"),
        "a field that the schema lacks": (framed(7, sound + b"\x98\x06\x01", (1,)), "undecodable"),
        "not UTF-8": (framed(7, b"\x0a\x02\xff\xfe", (1,)), "undecodable"),
        "not UTF-8, in old messages": (framed(10, b"\x0a\x02\xff\xfe"), "encoding"),
        "without what is required": (framed(10, b"\x10\x01"), "undecodable"),
        "a moment that no calendar has": (framed(7, b"\x12\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", (1,)), "undecodable"),
    }  # fmt: skip
    for name, (value, rule) in judged.items():
        assert reader.read(value) == (None, rule), name
    # Nothing at all is a message, in which everything is as by default.
    assert reader.read(framed(7, b"", (1,))) == ('{"reading_id":"","amount":""}', "protobuf")
    assert reader.read(framed(10, b"\x0a\x01a\x1b\x22\x01x\x1c")) == ('{"id":"a","part":[{"name":"x"}]}', "protobuf")


def test_files_of_both_kinds_may_import_each_other(lab: DescriptorPool) -> None:
    """A descriptor that imports text, and text that imports a descriptor."""
    mixed = [
        Schema(as_descriptor(lab, "lab/reading.proto"), (("lab/place.proto", PLACE),), "PROTOBUF"),
        Schema(READING, (("lab/place.proto", as_descriptor(lab, "lab/place.proto")),), "PROTOBUF"),
    ]
    for one in mixed:
        text, _ = Reader({7: describe(one)}).read(framed(7, type_of(lab, "lab.Reading")(**reading()), (1,)))
        assert json.loads(text or "") == READ


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (schema(READING), "cannot be compiled"),
        (schema("message {"), "cannot be compiled"),
        (Schema('"string"'), "AVRO, not Protobuf"),
        (Schema(READING, (("../place.proto", PLACE),), "PROTOBUF"), "cannot name a file"),
        (Schema(READING, (("/place.proto", PLACE),), "PROTOBUF"), "cannot name a file"),
        (Schema("CgR0ZXN0GgVvdGhlcg==", (), "PROTOBUF"), "not among its references"),
    ],
)
def test_schemas_that_make_no_sense_are_told(given: Schema, problem: str) -> None:
    """Nothing is written outside of the compiler's own folder."""
    with pytest.raises(UnsupportedSchemaError, match=problem):
        describe(given)


def test_a_compiler_that_fails_is_not_the_schemas_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else everything would go to quarantine."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ServiceError, match="compiler failed") as caught:
        describe(schema(READING + "// not compiled before", lab__place=PLACE))
    assert not isinstance(caught.value, UnsupportedSchemaError)
