"""The archive of classes: the right one is used, and no archive or a wrong one stops or worries nobody."""

import subprocess
from pathlib import Path

import pytest

from stream_assets.engine import archive
from stream_assets.engine.java import find_java


@pytest.mark.parametrize("content", [None, b"", b"not an archive" * 1000], ids=["missing", "empty", "broken"])
def test_java_starts_without_an_archive_that_fits(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive.sys, "prefix", str(tmp_path))
    java = find_java()
    place = archive.class_archive(java)
    if content is not None:
        place.parent.mkdir(parents=True)
        place.write_bytes(content)
    plain, told = (
        subprocess.run([java, *flags, "-version"], capture_output=True, text=True, check=True)
        for flags in ((), archive.class_flags(java))
    )
    assert (told.stdout, told.stderr.replace(", sharing", "")) == (plain.stdout, plain.stderr.replace(", sharing", ""))


def test_another_java_has_another_archive(tmp_path: Path) -> None:
    places = set()
    for version in ("17.0.1", "17.0.2"):
        home = tmp_path / version
        (home / "bin").mkdir(parents=True)
        (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
        places.add(archive.class_archive(home / "bin" / "java"))
    assert len(places) == 2
