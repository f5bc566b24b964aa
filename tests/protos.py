"""Protobuf schemas for tests: compiled as a producer would, and framed as registries want it."""

import base64
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import google.type
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from stream_assets.sources.framed import Schema

PLACE = """
syntax = "proto3";
package lab.places;
import "google/protobuf/wrappers.proto";
message Place { string city = 1; google.protobuf.StringValue street = 2; }
"""
READING = """
syntax = "proto3";
package lab;
import "google/protobuf/timestamp.proto";
import "lab/place.proto";
message Unit { string name = 1; message Scale { double factor = 1; } }
message Reading {
  string reading_id = 1;
  google.protobuf.Timestamp taken_at = 2;
  string amount = 3;
  optional int64 pieces = 4;
  lab.places.Place place = 5;
}
"""
LATER = READING.replace(
    "lab.places.Place place = 5;",
    "lab.places.Place place = 5; bool is_final = 6; enum Word { LOW = 0; HIGH = 1; } Word text = 7; map<string, int64> detail = 8;",
)
"""A newer version of it, with more fields."""


def schema(text: str, **imports: str) -> Schema:
    """As a registry tells it that was given text; imports by name, `lab/place.proto` as `lab__place`."""
    return Schema(text, tuple((f"{name.replace('__', '/')}.proto", one) for name, one in imports.items()), "PROTOBUF")


def compiled(folder: Path, **files: str) -> DescriptorPool:
    """The types of these files, in a pool of their own, by Google's compiler and in its own way."""
    names = [f"{name.replace('__', '/')}.proto" for name in files]
    for name, text in zip(names, files.values(), strict=True):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    site = Path(next(iter(google.type.__path__))).parents[1]
    options = [f"-I{folder}", f"-I{site}", "--include_imports", f"--descriptor_set_out={folder / 'set'}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options, *names], check=True)
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString((folder / "set").read_bytes()).file:
        pool.Add(file)  # pyright: ignore[reportAttributeAccessIssue] made at run time
    return pool


def type_of(pool: DescriptorPool, name: str) -> Any:
    """The class of a type."""
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def as_descriptor(pool: DescriptorPool, name: str) -> str:
    """A file as some producers give it to the registry."""
    return base64.b64encode(pool.FindFileByName(name).serialized_pb).decode()


def framed(id_: int, message: Any, place: Sequence[int] = (0,)) -> bytes:
    """A message behind the id of its schema and the place of its type."""
    numbers = [0] if tuple(place) == (0,) else [2 * len(place), *(2 * number for number in place)]
    return (
        b"\x00"
        + id_.to_bytes(4, "big")
        + bytes(numbers)
        + (message if isinstance(message, bytes) else message.SerializeToString())
    )
