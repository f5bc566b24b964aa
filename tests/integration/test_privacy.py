"""Canaries: personal data of the sample is looked for, byte by byte, wherever the lake and the engine leave something.

It may be in `_raw` and `_raw_bytes` of Bronze and quarantine, which are the records as received, and nowhere else.
"""

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from stream_assets.engine import server
from stream_assets.secrets import pii_salt

AS_RECEIVED = {"_raw", "_raw_bytes"}


@pytest.fixture(scope="module")
def canaries(refined_sample) -> list[bytes]:
    """Return what must not be found, in the forms it could take in a log."""
    values = refined_sample.manifest.pii_canaries
    assert len(values) > 20
    return [value.encode() for value in values]


def tables(lake) -> Iterator[DeltaTable]:
    for log in sorted(Path(lake.lake).glob("*/*/_delta_log")):
        yield DeltaTable(str(log.parent))


def cells(table: DeltaTable) -> Iterator[tuple[str, bytes]]:
    """Every value of a table as bytes, except the records as received."""
    found: list[dict[str, Any]] = table.to_pyarrow_table().to_pylist()
    for row in found:
        for column, value in row.items():
            if column not in AS_RECEIVED and value is not None:
                yield column, str(value).encode()


def test_personal_data_is_only_in_records_as_received(refined_sample, canaries) -> None:
    """Silver holds hashes, masks and nothing; the other columns of Bronze and quarantine hold none either."""
    checked = 0
    for table in tables(refined_sample.lake):
        text = b"\n".join(value for _, value in cells(table))
        assert not [canary for canary in canaries if canary in text], table.table_uri
        checked += 1
    assert checked == 3 * len(refined_sample.contracts)


def test_the_canaries_did_go_through(refined_sample, canaries) -> None:
    """Finding none elsewhere means something only if they were there."""
    raw = b"\n".join(
        value.encode()
        for name in refined_sample.contracts
        for value in DeltaTable(refined_sample.lake.table_path("bronze", name))
        .to_pyarrow_table(columns=["_raw"])["_raw"]
        .to_pylist()
    )
    assert not [canary for canary in canaries if canary not in raw]


def test_the_delta_log_holds_no_personal_data(refined_sample, canaries) -> None:
    """Minimum and maximum of leading columns are written there unless told otherwise; so is the ledger."""
    logs = [file for file in Path(refined_sample.lake.lake).rglob("_delta_log/*") if file.is_file()]
    assert len(logs) > 3 * len(refined_sample.contracts)
    for file in logs:
        text = file.read_bytes()
        assert not [canary for canary in canaries if canary in text], file


def test_silver_files_hold_no_personal_data(refined_sample, canaries) -> None:
    """Parquet keeps statistics and dictionaries of its own: looked for in the decoded pages and in the footer."""
    import pyarrow.parquet as pq

    for file in Path(refined_sample.lake.lake, "silver").rglob("*.parquet"):
        footer = str(pq.read_metadata(file).to_dict()).encode()
        content = str(pq.read_table(file).to_pydict()).encode()
        assert not [canary for canary in canaries if canary in footer or canary in content], file


def test_the_engine_leaves_no_personal_data(refined_sample, canaries) -> None:
    """Its log, its state and its scratch files, looked through after everything was read and judged."""
    assert server.log_file(refined_sample.made_at).exists()
    for file in refined_sample.made_at.home.rglob("*"):
        with suppress(FileNotFoundError):  # what the engine of another worker needs no longer
            if file.is_file() and file.suffix != ".jar":
                text = file.read_bytes()
                assert not [canary for canary in canaries if canary in text], file


def test_secrets_are_nowhere_but_in_their_files(refined_sample) -> None:
    """The token of the engine and the salt of hashes are in no log and in no table's log."""
    lake = refined_sample.made_at
    token = (lake.home / "spark" / "token").read_bytes()
    assert stat.S_IMODE((lake.home / "spark" / "token").stat().st_mode) == 0o600
    salt = pii_salt(lake).encode()
    logs = [server.log_file(lake), lake.home / "spark" / "server.json", *Path(lake.lake).rglob("_delta_log/*.json")]
    for file in logs:
        text = file.read_bytes()
        assert token not in text, file
        assert salt not in text, file


def test_a_salt_made_by_stream_is_for_its_owner_alone(refined_sample, tmp_path) -> None:
    from dataclasses import replace

    own = replace(refined_sample.lake, home=tmp_path, pii_salt=None)
    pii_salt(own)
    assert stat.S_IMODE((tmp_path / "secrets" / "pii_salt").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
