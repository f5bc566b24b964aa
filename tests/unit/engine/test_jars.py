"""JVM libraries are brought once; a failed or interrupted download leaves nothing that looks complete."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from stream_assets.engine import jars
from stream_assets.engine.jars import resolve_jars
from stream_assets.errors import EngineError


class FakeIvy:
    """Stands for the downloader: writes jars where it is told to, or fails."""

    def __init__(self, *, fails: bool = False) -> None:
        self.calls, self.fails = 0, fails

    def __call__(self, command: list[Any], **_: Any) -> subprocess.CompletedProcess[str]:
        self.calls += 1
        folder = Path(command[command.index("-retrieve") + 1]).parent
        folder.mkdir(parents=True)
        (folder / "b-2.jar").touch()
        if self.fails:
            return subprocess.CompletedProcess(command, 1, "", "UNRESOLVED DEPENDENCIES")
        (folder / "a-1.jar").touch()
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def ivy(monkeypatch: pytest.MonkeyPatch) -> FakeIvy:
    fake = FakeIvy()
    monkeypatch.setattr(jars, "find_java", lambda: Path("java"))
    monkeypatch.setattr(jars.subprocess, "run", fake)
    return fake


def test_jars_are_downloaded_once(ivy: FakeIvy, tmp_path: Path) -> None:
    said: list[str] = []
    first = resolve_jars(tmp_path, "spark", report=said.append)
    again = resolve_jars(tmp_path, "spark", report=said.append)
    assert [jar.name for jar in first] == ["a-1.jar", "b-2.jar"]
    assert (again, ivy.calls, len(said)) == (first, 1, 2)


def test_a_failed_download_leaves_nothing(ivy: FakeIvy, tmp_path: Path) -> None:
    """Half a set of jars must not be taken for the set; the next try starts over."""
    ivy.fails = True
    with pytest.raises(EngineError, match="UNRESOLVED DEPENDENCIES"):
        resolve_jars(tmp_path, "spark")
    assert not list(tmp_path.rglob("*.jar"))
    ivy.fails = False
    assert len(resolve_jars(tmp_path, "spark")) == 2


def test_another_list_is_another_folder(ivy: FakeIvy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer Stream with other libraries does not start with those of the older one."""
    before = resolve_jars(tmp_path / "cache", "spark")
    changed = tmp_path / "ivy.xml"
    changed.write_text("<other/>")
    monkeypatch.setattr(jars, "IVY_FILE", changed)
    assert resolve_jars(tmp_path / "cache", "spark")[0].parent != before[0].parent
    assert ivy.calls == 2


def test_each_configuration_has_its_folder(ivy: FakeIvy, tmp_path: Path) -> None:
    assert resolve_jars(tmp_path, "spark")[0].parent != resolve_jars(tmp_path, "kafka")[0].parent
