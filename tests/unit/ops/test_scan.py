"""Every way a value can lie in a file is looked into."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from stream_assets.ops.erase.purge import purge
from stream_assets.ops.erase.scan import scan

VALUE = "person-0042"


def plain(file: Path) -> None:
    file.write_text(f"x{VALUE}y")


def packed(file: Path) -> None:
    file.with_suffix(".gz").write_bytes(gzip.compress(VALUE.encode()))


def table(file: Path, column: pa.Array) -> None:
    pq.write_table(pa.table({"a": column}), file.with_suffix(".parquet"), compression="zstd")


WAYS = {
    "plain": plain,
    "packed": packed,
    "text": lambda f: table(f, pa.array(["other", VALUE])),
    "dictionary": lambda f: table(f, pa.array([VALUE]).dictionary_encode()),
    "nested": lambda f: table(f, pa.array([[{"b": {"c": VALUE}}]])),
    "bytes": lambda f: table(f, pa.array([VALUE.encode()])),
    "map": lambda f: table(f, pa.array([[("k", VALUE)]], pa.map_(pa.string(), pa.string()))),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_value_is_found_however_it_is_written(way: str, tmp_path: Path) -> None:
    WAYS[way](tmp_path / "file")
    assert list(scan([tmp_path], [VALUE]).values()) == [1]
    assert scan([tmp_path], ["somebody else"]) == {}


def test_the_past_of_a_table_is_purged_and_the_rest_of_it_kept(tmp_path: Path) -> None:
    """Old files and statistics with the value go; commits stay, and so does every row that is left."""
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [VALUE, "zz"]}))
    DeltaTable(path).create_checkpoint()
    write_deltalake(path, pa.table({"id": ["zz"]}), mode="overwrite")
    assert scan([tmp_path], [VALUE])
    assert purge(path, [VALUE]) > 0
    assert scan([tmp_path], [VALUE]) == {}
    left = DeltaTable(path)
    assert left.to_pyarrow_table().to_pylist() == [{"id": "zz"}]
    assert [commit["version"] for commit in left.history()] == [1, 0]
    assert all(
        json.loads(line) for f in (tmp_path / "t/_delta_log").glob("*.json") for line in f.read_text().splitlines()
    )
