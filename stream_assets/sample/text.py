"""Columns of text made without a Python loop per row: timestamps, UUIDs, joined lines.

Arrow concatenates strings and numpy fills fixed-width ones: that makes a year of deliveries a matter of a minute.
"""

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MS_PER_DAY = 86_400_000

Part = str | pa.Array

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_UUID_HYPHENS = (8, 13, 18, 23)


def timestamps(milliseconds: np.ndarray) -> pa.Array:
    """Return milliseconds since 1970 as a column of UTC timestamps."""
    return pa.array(milliseconds.astype(np.int64)).cast(pa.timestamp("ms", tz="UTC"))


def iso_timestamps(column: pa.Array) -> pa.Array:
    """Format timestamps like 2025-01-31T09:30:00.125Z; a tenth of the time `strftime` takes."""
    milliseconds = column.cast(pa.int64()).to_numpy()
    days, day_index = np.unique(milliseconds // MS_PER_DAY, return_inverse=True)
    in_day = milliseconds % MS_PER_DAY
    prefixes = np.array([f"{day}T" for day in days.astype("datetime64[D]")], dtype="S11")
    text = np.empty((len(milliseconds), 24), dtype=np.uint8)
    text[:, :11] = prefixes.view(np.uint8).reshape(-1, 11)[day_index]
    text[:, 11:19] = _clock_times()[in_day // 1000]
    text[:, 19:] = _fractions()[in_day % 1000]
    return _fixed_width(text)


def decimals(cents: np.ndarray) -> pa.Array:
    """Return amounts in cents as a column of decimals with two places."""
    words = np.zeros((len(cents), 2), dtype=np.int64)
    words[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(words)])


def pick(choices: Sequence[str], positions: np.ndarray) -> pa.Array:
    """Return the choices at the given positions."""
    return pa.array(choices).take(pa.array(positions))


def uuids(rng: np.random.Generator, count: int) -> pa.Array:
    """Draw random (version 4) UUIDs."""
    text = _HEX[rng.integers(0, 16, (count, 36), dtype=np.uint8)]
    text[:, _UUID_HYPHENS] = ord("-")
    text[:, 14] = ord("4")
    text[:, 19] = ord("a")
    return _fixed_width(text)


def numbered(prefix: str, numbers: np.ndarray) -> pa.Array:
    """Return identifiers made of a prefix and a number."""
    return join_lines([prefix, pa.array(numbers).cast(pa.string())])


def join_lines(parts: Iterable[Part]) -> pa.Array:
    """Concatenate texts and columns row by row."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return pc.call_function("binary_join_element_wise", [*merged, ""])


def _fixed_width(text: np.ndarray) -> pa.Array:
    count, width = text.shape
    offsets = np.arange(count + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text)))


@cache
def _clock_times() -> np.ndarray:
    seconds = np.arange(86_400)
    clock = [f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}" for s in seconds.tolist()]
    return np.array(clock, dtype="S8").view(np.uint8).reshape(-1, 8)


@cache
def _fractions() -> np.ndarray:
    return np.array([f".{ms:03d}Z" for ms in range(1000)], dtype="S5").view(np.uint8).reshape(-1, 5)
