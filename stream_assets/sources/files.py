"""Deliveries of files in the landing zone: which there are, which can be read, and their records as Spark rows.

A file is looked through once before Spark sees it: a corrupt one is set aside with its reason instead of failing its
neighbours, and its line count is what Bronze must hold afterwards.
"""

from __future__ import annotations

import csv
import hashlib
import re
import unicodedata
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import reduce

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_assets.contracts.model import CHANGES, Contract
from stream_assets.engine.session import filesystem_of
from stream_assets.errors import DeliveryError
from stream_assets.settings import Settings

MAX_LINE_BYTES = 64 << 20
"""A longer line is a broken file or a bomb: reading it whole would take the server down with it."""
CHUNK = 4 << 20
UNFINISHED = (".tmp", ".part", ".partial", ".inprogress", ".crc")
STARTED, FINISHED = "_STARTED", "_SUCCESS"
_COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
_LINE_NUMBER_BITS = 33
_AS_IT_IS = {"recursiveFileLookup": True}
"""Spark would make a column of a folder called `hour=01`, and fail when another file lies beside it."""


@dataclass(frozen=True)
class LandedFile:
    """One file of a delivery, looked through."""

    path: str
    """Full path or URI, as Spark reads it."""
    source: str
    """Path inside the landing zone: the `_source` of its records."""
    day: date
    size: int
    modified: datetime
    rows: int = 0
    bytes: int = 0
    """What it holds, unpacked."""
    header: str | None = None
    schema: str | None = None
    problem: str | None = None
    """Why the file cannot be read; None if it can."""

    @property
    def identity(self) -> str:
        """Changes when the file does."""
        return f"{self.source}:{self.size}:{self.modified.timestamp()}:{self.problem or ''}"


@dataclass(frozen=True)
class Delivery:
    """What arrived on one day."""

    day: date
    files: tuple[LandedFile, ...]
    is_complete: bool = True
    """False while the producer is still writing (`_STARTED` without `_SUCCESS`)."""

    @property
    def readable(self) -> tuple[LandedFile, ...]:
        """The files that will be landed."""
        return tuple(file for file in self.files if not file.problem)

    @property
    def rows(self) -> int:
        """Records the readable files hold."""
        return sum(file.rows for file in self.readable)

    @property
    def bytes(self) -> int:
        """How much the readable files hold, unpacked."""
        return sum(file.bytes for file in self.readable)

    @property
    def fingerprint(self) -> str:
        """Equal for two looks at an unchanged delivery."""
        return hashlib.sha256("\n".join(sorted(f.identity for f in self.files)).encode()).hexdigest()[:16]


def delivery_days(settings: Settings, contract: Contract) -> list[date]:
    """The days for which the landing zone has a folder."""
    filesystem, root = filesystem_of(f"{settings.landing}/{contract.landing_path}")
    folders = filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True))
    return sorted(day for f in folders if f.type == fs.FileType.Directory and (day := _as_day(f.base_name)))


def inspect_deliveries(settings: Settings, contract: Contract, days: Iterable[date]) -> list[Delivery]:
    """Look through the deliveries of these days. Days without any file are left out."""
    with ThreadPoolExecutor(4) as pool:
        return [
            d for d in pool.map(lambda day: _inspect(settings, contract, day), days) if d.files or not d.is_complete
        ]


def glance(settings: Settings, contract: Contract, day: date, problems: Mapping[str, str]) -> Delivery:
    """A delivery by the names, sizes and times of its files, none opened: those that had a problem still have it."""
    filesystem, root = filesystem_of(settings.landing)
    infos, is_complete = _list_files(filesystem, f"{root}/{contract.landing_path}/{day}")
    files = [
        LandedFile(info.path, source, day, info.size, _modified(info), problem=problems.get(source))
        for info in infos
        if (source := info.path.removeprefix(root).lstrip("/"))
    ]
    return Delivery(day, tuple(files), is_complete)


def _inspect(settings: Settings, contract: Contract, day: date) -> Delivery:
    filesystem, root = filesystem_of(settings.landing)
    infos, is_complete = _list_files(filesystem, f"{root}/{contract.landing_path}/{day}")
    if not is_complete:
        return Delivery(day, (), is_complete=False)
    scheme = settings.landing.split("://")[0] + "://" if "://" in settings.landing else "file://"
    files = [
        _look(filesystem, root, scheme, info, day, contract.format) for info in sorted(infos, key=lambda i: i.path)
    ]
    return Delivery(day, tuple(files))


def _list_files(filesystem: fs.FileSystem, folder: str) -> tuple[list[fs.FileInfo], bool]:
    """The files of a delivery that count, and whether its producer is done."""
    found = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=True))
    try:
        names = {info.base_name for info in found}
    except UnicodeDecodeError as error:
        raise DeliveryError(f"{folder} holds a file whose name is not UTF-8. Rename it.") from error
    infos = [
        i
        for i in found
        if i.type == fs.FileType.File
        and not i.base_name.startswith(("_", "."))
        and not i.base_name.endswith(UNFINISHED)
    ]
    return infos, FINISHED in names or STARTED not in names


def _modified(info: fs.FileInfo) -> datetime:
    return info.mtime if isinstance(info.mtime, datetime) else datetime.now(UTC)


def _look(filesystem: fs.FileSystem, root: str, scheme: str, info: fs.FileInfo, day: date, expected: str) -> LandedFile:
    """Look through one file: is it what the contract says, is it whole, how many records are in it."""
    seen = {
        "path": scheme + info.path,
        "source": info.path.removeprefix(root).lstrip("/"),
        "day": day,
        "size": info.size,
        "modified": _modified(info),
    }
    try:
        _refuse_escape(filesystem, root, info.path)
        if ":" in str(seen["source"]):
            return LandedFile(**seen, problem="has a colon in its name, which Spark cannot read. Rename it")
        stem, compression = _split_name(info.base_name)
        suffix = "jsonl" if expected == CHANGES else expected
        if not stem.endswith(f".{suffix}"):
            return LandedFile(**seen, problem=f"is not a .{suffix} file, which the contract promises")
        if expected == "parquet":
            with filesystem.open_input_file(info.path) as stream:
                return _look_at_table(pq.ParquetFile(stream), seen)
        with filesystem.open_input_stream(info.path, compression=compression) as stream:
            return _look_at_lines(stream, seen, has_header=expected == "csv")
    except (OSError, pa.ArrowException, csv.Error, DeliveryError) as error:
        return LandedFile(**seen, problem=f"cannot be read: {type(error).__name__}: {str(error).splitlines()[0][:200]}")


def _look_at_table(table: pq.ParquetFile, seen: dict) -> LandedFile:
    """Read every page once, and refuse the types that Spark would fail on, with all the files beside this one."""
    leaves = [table.schema.column(n) for n in range(len(table.schema))]
    for leaf in leaves:
        kind = leaf.logical_type
        exact = leaf.precision > 38 if kind.type == "DECIMAL" else "nanoseconds" in str(kind)
        if exact or kind.type in ("TIME", "FLOAT16"):
            return LandedFile(
                **seen, problem=f"column {leaf.path!r} is {kind}, which Spark cannot read. Write another type"
            )
    names = [name.lower() for name in table.schema_arrow.names]
    if len(set(names)) < len(names):
        return LandedFile(**seen, problem="two of its columns differ only in upper and lower case")
    sizes = [(batch.num_rows, batch.nbytes) for batch in table.iter_batches()]
    rows, size = (sum(part) for part in zip(*sizes, strict=True)) if sizes else (0, 0)
    return LandedFile(**seen, rows=rows, bytes=size, schema=str(table.schema_arrow.remove_metadata()))


def _look_at_lines(stream: pa.NativeFile, seen: dict, *, has_header: bool) -> LandedFile:
    """Count lines and refuse monstrous ones, in constant memory."""
    lines, size, open_line, head, ends_open = 0, 0, 0, b"", False
    while chunk := stream.read(CHUNK):
        size += len(chunk)
        head = head if b"\n" in head else head + chunk[: CHUNK if b"\n" not in chunk else chunk.find(b"\n") + 1]
        last = chunk.rfind(b"\n")
        lines += chunk.count(b"\n")
        open_line = len(chunk) - last - 1 if last >= 0 else open_line + len(chunk)
        ends_open = last != len(chunk) - 1
        if open_line > MAX_LINE_BYTES:
            return LandedFile(**seen, problem=f"has a line of more than {MAX_LINE_BYTES >> 20} MB")
    lines += ends_open
    if not has_header:
        return LandedFile(**seen, rows=lines, bytes=size)
    header = head.split(b"\n")[0].decode("utf-8-sig", errors="replace").rstrip("\r")
    names = header_names(header)
    if lines and not any(names):
        return LandedFile(**seen, problem="its first line is no header")
    if len(set(names)) < len(names):
        return LandedFile(**seen, problem="its header names a column twice")
    return LandedFile(**seen, rows=max(lines - 1, 0), bytes=size, header=header)


def header_names(header: str) -> list[str]:
    """Column names of a CSV header line."""
    return [name.strip() for name in next(csv.reader([header]), [])]


def _refuse_escape(filesystem: fs.FileSystem, root: str, path: str) -> None:
    """A link in the landing zone must not lead out of it."""
    if isinstance(filesystem, fs.LocalFileSystem):
        from pathlib import Path

        if not Path(path).resolve().is_relative_to(Path(root).resolve()):
            raise DeliveryError("is a link that leaves the landing zone")


def _split_name(name: str) -> tuple[str, str | None]:
    for suffix, compression in _COMPRESSION.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix), compression
    return name, None


def _as_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        return None


def read_files(spark: SparkSession, files: Sequence[LandedFile]) -> DataFrame:
    """The records of these files as received: `_raw`, `_raw_bytes`, `_header`, `_source`, `_position`, `_delivery_date`, `_ingested_at`.

    Must run inside `one_task_per_file`: the line number of a record is its number within the task that reads its file.
    """
    lines = [file for file in files if file.schema is None and file.rows]
    tables = [file for file in files if file.schema is not None and file.rows]
    frames = [_read_lines(spark, lines)] if lines else []
    frames += [
        _read_parquet(spark, [f for f in tables if f.schema == schema])
        for schema in sorted({str(f.schema) for f in tables})
    ]
    return reduce(DataFrame.unionByName, frames) if frames else spark.createDataFrame([], _RECEIVED)


_RECEIVED = "_raw string, _raw_bytes binary, _header string, _source string, _position bigint, _delivery_date date, _ingested_at timestamp"


def _read_lines(spark: SparkSession, files: Sequence[LandedFile]) -> DataFrame:
    text = spark.read.text([_literally(f.path) for f in files], lineSep="\n", **_AS_IT_IS).select(
        F.col("value"),
        F.col("_metadata.file_path").alias("path"),
        (F.monotonically_increasing_id().bitwiseAND((1 << _LINE_NUMBER_BITS) - 1) + 1).alias("_position"),
    )
    valid = F.expr("is_valid_utf8(value)")
    rows = text.join(F.broadcast(_file_facts(spark, files)), "path").where("_header is null or _position > 1")
    return rows.select(
        F.when(valid, F.col("value")).otherwise(F.expr("make_valid_utf8(value)")).alias("_raw"),
        F.when(~valid, F.col("value").cast("binary")).alias("_raw_bytes"),
        *_facts(),
    )


def _read_parquet(spark: SparkSession, files: Sequence[LandedFile]) -> DataFrame:
    """Typed rows as JSON text, every scalar as its exact text: a JSON number would pass through a double."""
    table = spark.read.parquet(*[_literally(f.path) for f in files], **_AS_IT_IS)
    nested = ("struct", "array", "map")
    columns = [(F.col("`" + f.name.replace("`", "``") + "`"), f) for f in table.schema.fields]
    fields = [
        column if f.dataType.simpleString().startswith(nested) else column.cast("string").alias(f.name)
        for column, f in columns
    ]
    rows = table.select(
        F.to_json(F.struct(*fields), {"ignoreNullFields": "false"}).alias("_raw"),
        F.col("_metadata.file_path").alias("path"),
        (F.col("_metadata.row_index") + 1).alias("_position"),
    ).join(F.broadcast(_file_facts(spark, files)), "path")
    return rows.select("_raw", F.lit(None).cast("binary").alias("_raw_bytes"), *_facts())


def _facts() -> list[Column]:
    return [F.col(name) for name in ("_header", "_source", "_position", "_delivery_date", "_ingested_at")]


def _file_facts(spark: SparkSession, files: Sequence[LandedFile]) -> DataFrame:
    """What is known of each file, keyed by the path as Spark reports it (percent-encoded)."""
    rows = [(_spark_path(f.path), f.header, f.source, f.day, f.modified) for f in files]
    return spark.createDataFrame(
        rows, "path string, _header string, _source string, _delivery_date date, _ingested_at timestamp"
    )


def _literally(path: str) -> str:
    """The path as Spark is to read it: Spark would take brackets, braces and stars for a pattern."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", path)


def _spark_path(path: str) -> str:
    """The path as Spark reports it. Java leaves letters of other scripts alone and encodes only their spaces."""
    scheme, _, rest = path.partition("://")
    encoded = "".join(
        c
        if ord(c) > 127 and unicodedata.category(c) not in ("Zs", "Zl", "Zp", "Cc")
        else urllib.parse.quote(c, safe="/!$&'()*+,;=:@-._~")
        for c in rest
    )
    return f"file:{encoded}" if scheme == "file" else f"{scheme}://{encoded}"
