"""Which Java is taken, and what a person is told when there is none that fits."""

from pathlib import Path

import pytest

from stream_assets.engine.java import find_java, java_version
from stream_assets.errors import EngineError


def fake_java(folder: Path, banner: str) -> Path:
    """A `java` that only tells its version, as the real one does: on standard error."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{banner}\nEND\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.12" 2024-07-16', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2" 2019', 11),
        ("command not understood", None),
    ],
)
def test_the_version_is_read(banner: str, version: int | None, tmp_path: Path) -> None:
    assert java_version(fake_java(tmp_path, banner)) == version


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sets JAVA_HOME means it."""
    chosen = fake_java(tmp_path / "chosen", 'openjdk version "17.0.1"')
    other = fake_java(tmp_path / "other", 'openjdk version "21.0.1"')
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "chosen"))
    assert find_java() == chosen
    monkeypatch.delenv("JAVA_HOME")
    assert find_java() == other


@pytest.mark.parametrize(
    ("banner", "said"),
    [('java version "1.8.0_392"', "is Java 8"), ('openjdk version "24"', "is Java 24"), ("?", "unknown version")],
)
def test_an_unfit_java_is_named(banner: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which Java was found, which would do, and how to get one."""
    fake_java(tmp_path, banner)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError, match=said) as caught:
        find_java()
    assert str(tmp_path) in str(caught.value)
    assert "Install a Java 17 or 21" in str(caught.value)


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EngineError, match=r"Java was not found\. Install"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(EngineError, match="not found in JAVA_HOME=/nowhere"):
        find_java()


def test_a_file_that_is_no_program_is_no_java(tmp_path: Path) -> None:
    broken = tmp_path / "java"
    broken.write_bytes(b"\x00\x01")
    broken.chmod(0o755)
    assert java_version(broken) is None
