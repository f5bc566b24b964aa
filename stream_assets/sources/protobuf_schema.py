"""Protobuf schemas as descriptors. Registries hold them as .proto text, or, from some producers, as a descriptor in base64.

Text is compiled by Google's compiler, in a process of its own. Google's common types need not be in the registry.
"""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
import sys
import tempfile
from functools import cache
from importlib import import_module
from pathlib import Path, PurePosixPath

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from stream_assets.errors import ServiceError
from stream_assets.sources.framed import Schema, UnsupportedSchemaError

OWN = "stream_assets_own_schema.proto"
"""What we call a schema itself: only those that others import have a name."""
TIMEOUT_S = 30
_COMMON = {
    "protobuf": "any api descriptor duration empty field_mask source_context struct timestamp type wrappers",
    "type": "calendar_period color date datetime dayofweek expr fraction interval latlng localized_text money month phone_number "
    "postal_address quaternion timeofday",
}
_NAME = re.compile(r"[\w./-]+", re.ASCII)


@cache
def describe(schema: Schema) -> bytes:
    """The files that a reader of a schema needs, each after those that it imports, as a descriptor set."""
    if schema.kind != "PROTOBUF":
        raise UnsupportedSchemaError(f"A schema is {schema.kind}, not Protobuf.")
    known = dict(_common_files())
    for name, text in (*schema.references, (OWN, schema.text)):
        known[name] = _described(text, name) or _compiled(text, name, known)
    needed: dict[str, FileDescriptorProto] = {}
    _collect(OWN, known, needed, ())
    files = FileDescriptorSet(file=needed.values())
    _require_sound(files)
    return files.SerializeToString()


@cache
def _common_files() -> tuple[tuple[str, FileDescriptorProto], ...]:
    names = [(f"google/{folder}/{name}", f"google.{folder}.{name}_pb2") for folder, names in _COMMON.items() for name in names.split()]  # fmt: skip
    return tuple(
        (f"{name}.proto", FileDescriptorProto.FromString(import_module(module).DESCRIPTOR.serialized_pb))
        for name, module in names
    )


def _described(text: str, name: str) -> FileDescriptorProto | None:
    """A file that is a descriptor already; None if it is text."""
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    file.name = name
    return file


def _compiled(text: str, name: str, known: dict[str, FileDescriptorProto]) -> FileDescriptorProto:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not _NAME.fullmatch(name):
        raise UnsupportedSchemaError(f"A schema imports {name!r}, which cannot name a file.")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "known").write_bytes(FileDescriptorSet(file=known.values()).SerializeToString())
        file = place / "given" / name
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
        options = (
            f"-I{place / 'given'}",
            f"--descriptor_set_in={place / 'known'}",
            f"--descriptor_set_out={place / 'made'}",
        )
        _run_compiler([*options, name])
        (made,) = FileDescriptorSet.FromString((place / "made").read_bytes()).file
        return made


def _run_compiler(arguments: list[str]) -> None:
    """Raise what is wrong with the schema. Trouble of the compiler itself is another matter: it must not send a day to quarantine."""
    command = [sys.executable, "-m", "grpc_tools.protoc", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise ServiceError(f"A Protobuf schema was not compiled within {TIMEOUT_S} s. Try again.") from error
    if done.returncode and arguments[-1] in done.stderr:
        raise UnsupportedSchemaError(f"A schema cannot be compiled: {done.stderr.strip()[-500:]}")
    if done.returncode:
        raise ServiceError(
            f"The Protobuf compiler failed ({done.returncode}: {done.stderr.strip()[-300:]}). Install grpcio-tools as requirements.lock has it."
        )


def _collect(
    name: str, known: dict[str, FileDescriptorProto], needed: dict[str, FileDescriptorProto], path: tuple[str, ...]
) -> None:
    """Add a file after those that it imports."""
    if name in needed:
        return
    if name not in known or name in path:
        raise UnsupportedSchemaError(
            f"A schema imports {name!r}, which is not among its references, or imports itself."
        )
    for other in known[name].dependency:
        _collect(other, known, needed, (*path, name))
    needed[name] = known[name]


def _require_sound(files: FileDescriptorSet) -> None:
    """Refuse what no reader can use, before workers are asked to."""
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files.file:
            pool.Add(file)  # pyright: ignore[reportAttributeAccessIssue] made at run time
        pool.FindFileByName(OWN)
    except (TypeError, KeyError, ValueError) as error:
        raise UnsupportedSchemaError(f"A schema makes no sense: {error}.") from error
