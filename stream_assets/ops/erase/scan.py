"""Looks for values in files as they lie on disk: Parquet decoded, compressed files unpacked, everything else as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
_CHUNK = 8 << 20


def scan(roots: Iterable[Path], values: Sequence[str]) -> dict[str, int]:
    """Files under these folders that hold one of the values, with how many of them."""
    return {str(file): n for file in _files(roots) if (n := sum(holds(file, values)))}


def holds(file: Path, values: Sequence[str]) -> list[bool]:
    """Whether a file holds each of these values."""
    if file.name.endswith(".parquet"):
        try:
            return _in_parquet(file, values)
        except pa.ArrowInvalid:
            pass  # not Parquet after all: its bytes will tell
    return _in_bytes(file, values)


def _files(roots: Iterable[Path]) -> Iterator[Path]:
    seen: set[Path] = set()
    for root in roots:
        for file in sorted(root.rglob("*")) if root.is_dir() else [root] if root.is_file() else []:
            if file.is_file() and not file.is_symlink() and file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def _in_parquet(file: Path, values: Sequence[str]) -> list[bool]:
    found = [False] * len(values)
    with pq.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches():
            for column in _texts(batch.to_struct_array()):
                for i, value in enumerate(values):
                    found[i] = found[i] or _has(column, value)
    return found


def _has(column: pa.Array, value: str) -> bool:
    hits = pc.call_function("match_substring", [column], pc.MatchSubstringOptions(value))
    return bool(pc.call_function("any", [hits]).as_py())


def _texts(array: pa.Array) -> Iterator[pa.Array]:
    """Every piece of text in an array, however deep."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from _texts(array.dictionary_decode())
    elif pa.types.is_struct(kind):
        for part in array.flatten():
            yield from _texts(part)
    elif pa.types.is_map(kind):
        yield from _texts(array.keys)
        yield from _texts(array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _texts(array.flatten())
    elif pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield array
    elif pa.types.is_integer(kind):
        yield array.cast(pa.string())


def _in_bytes(file: Path, values: Sequence[str]) -> list[bool]:
    wanted = [value.encode() for value in values]
    found, tail, overlap = [False] * len(wanted), b"", max(map(len, wanted), default=1)
    try:
        with pa.input_stream(str(file), compression=_COMPRESSION.get(file.suffix)) as stream:
            while chunk := stream.read(_CHUNK):
                window = tail + chunk
                found = [hit or value in window for hit, value in zip(found, wanted, strict=True)]
                tail = window[-overlap:]
    except OSError:
        return found  # torn, or gone while looking: temporary files of a running server
    return found
