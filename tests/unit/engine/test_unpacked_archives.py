"""Programs that come as an archive lie among the jars as if they had come as files, whatever version of Python unpacks them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from stream_assets.engine import jars


@pytest.mark.parametrize("is_early", [False, True], ids=["today", "early Python 3.11"])
def test_an_archive_becomes_its_files(is_early: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_early:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    program = tmp_path / "program.jar"
    program.write_text("bytes")
    with tarfile.open(tmp_path / "program.tar.gz", "w:gz") as archive:
        archive.add(program, "lib/program.jar")
    program.unlink()
    jars._unpack(tmp_path)
    assert [file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.*")] == ["lib/program.jar"]
