"""Reads Protobuf messages in a worker of Spark, which may be elsewhere: it is sent there as it is, and needs Google's library there.

Behind the schema's id a message says which of its types it is: the place of the type in its file, of each type around it
first, as numbers of variable length; a single zero stands for the first type.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import descriptor_pool, json_format, message, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark import cloudpickle

cloudpickle.register_pickle_by_value(sys.modules[__name__])

Readable = bytes | str
"""The files of a schema, its own last; or the rule that messages of it break."""
Told = tuple[str | None, str | None]
"""A message as JSON, and `protobuf`; or nothing, and the rule that it breaks."""
_UNREADABLE = (
    message.Error, json_format.Error, ValueError, TypeError, LookupError, ArithmeticError, RecursionError,
)  # fmt: skip
"""Whatever Google's library raises for bytes that are no such message, or that have no JSON."""


@dataclass
class Reader:
    """Reads messages of the schemas it has."""

    schemas: Mapping[int, Readable]
    types: dict[tuple[int, tuple[int, ...]], Type] = field(default_factory=dict)
    """By schema and place, made when they are first asked for."""

    def read(self, received: bytes | None) -> Told:
        """A message as JSON, or the rule it breaks; neither if there is none."""
        if received is None:
            return None, None
        if len(received) < 5 or received[0] != 0:
            return None, "unframed"
        id_ = int.from_bytes(received[1:5], "big")
        known = self.schemas.get(id_, "unknown_schema")
        if isinstance(known, str):
            return None, known
        try:
            place, payload = split(received[5:])
            return self._type(id_, known, place).as_json(payload)
        except _UNREADABLE:
            return None, "undecodable"

    def _type(self, id_: int, files: bytes, place: tuple[int, ...]) -> Type:
        if (id_, place) not in self.types:
            self.types[id_, place] = find_type(files, place)
        return self.types[id_, place]


@dataclass(frozen=True)
class Type:
    """A type of message."""

    make: Any
    is_text_checked: bool
    """Whether the parser refuses text that is no UTF-8: it does since version 3 of the language."""

    def as_json(self, payload: bytes) -> Told:
        """A message in the JSON of Protobuf's specification. Raises one of `_UNREADABLE` if it cannot be."""
        made = self.make.FromString(payload)
        size = made.ByteSize()
        made.DiscardUnknownFields()
        # By the schema it was written with a message has no other fields: then it is another one, and we would lose them.
        if made.ByteSize() != size or not made.IsInitialized():
            raise ValueError("not a message of this type")
        pool = made.DESCRIPTOR.file.pool
        told = json_format.MessageToDict(
            made, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, descriptor_pool=pool
        )
        if not self.is_text_checked and not _is_same(
            json_format.ParseDict(told, self.make(), descriptor_pool=pool), made
        ):
            return None, "encoding"
        return json.dumps(told, ensure_ascii=False, separators=(",", ":")), "protobuf"


def _is_same(one: Any, other: Any) -> bool:
    """By their bytes: a number that is none equals nothing, itself included."""
    return one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


def find_type(files: bytes, place: tuple[int, ...]) -> Type:
    """The type that has this place in the last of the files."""
    found = FileDescriptorSet.FromString(files)
    pool = descriptor_pool.DescriptorPool()
    for file in found.file:
        pool.Add(file)  # pyright: ignore[reportAttributeAccessIssue] made at run time
    own = found.file[-1]
    first, *inner = place
    around = own.message_type[first]
    names = [*([own.package] if own.package else []), around.name]
    for number in inner:
        around = around.nested_type[number]
        names.append(around.name)
    make = message_factory.GetMessageClass(pool.FindMessageTypeByName(".".join(names)))
    return Type(make, all(file.syntax == "proto3" for file in found.file))


def split(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """What is behind the header: the place of the type, and the message."""
    count, at = _number(body, 0)
    place = []
    for _ in range(count):
        number, at = _number(body, at)
        place.append(number)
    return tuple(place) or (0,), body[at:]


def _number(body: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where the next begins. It counts something, so it is not negative."""
    zigzag = shift = 0
    while True:
        byte = body[at]
        zigzag |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    if zigzag & 1 or shift > 35:
        raise ValueError("not a place")
    return zigzag >> 1, at
