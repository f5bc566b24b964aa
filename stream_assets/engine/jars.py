"""Brings the JVM libraries of `ivy.xml` onto this machine, once, with the Ivy that pyspark ships."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from stream_assets.engine.java import find_java
from stream_assets.errors import EngineError

IVY_FILE = Path(__file__).with_name("ivy.xml")


def spark_home() -> Path:
    """Folder of pip's pyspark, which is a whole Spark distribution."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EngineError("pyspark is not installed in this environment. Run `make setup`.")
    return Path(spec.origin).parent


def resolve_jars(cache: Path, conf: str, *, report: Callable[[str], None] = lambda _: None) -> list[Path]:
    """Paths of the jars of one configuration, downloaded on first use.

    The folder is named by the content of `ivy.xml`: a changed list is a new folder, and an interrupted download leaves
    no folder at all, because it is made under another name and renamed when complete.
    """
    folder = cache / hashlib.sha256(IVY_FILE.read_bytes()).hexdigest()[:12] / conf
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / ".lock"):
            if not folder.exists():
                report(f"Downloading the JVM libraries of {conf} (once) …")
                _retrieve(cache, conf, folder)
                report(f"JVM libraries are in {folder}")
    return sorted(folder.glob("*.jar"))


def _retrieve(cache: Path, conf: str, folder: Path) -> None:
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        pattern = f"{work}/jars/[artifact]-[revision].[ext]"
        command = [
            find_java(),
            "-jar",
            ivy,
            "-settings",
            IVY_FILE.with_name("ivysettings.xml"),
            "-ivy",
            IVY_FILE,
            "-confs",
            conf,
            "-types",
            "jar",
            "bundle",
            "tar.gz",
            "-cache",
            f"{work}/ivy",
            "-retrieve",
            pattern,
            "-warn",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        jars = Path(work) / "jars"
        if done.returncode or not jars.is_dir():
            detail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
            raise EngineError(f"The JVM libraries could not be downloaded. Check the network and try again.\n{detail}")
        _unpack(jars)
        jars.rename(folder)


def _unpack(jars: Path) -> None:
    """What comes as an archive lies as if it had come as files."""
    for archive in jars.glob("*.tar.gz"):
        with tarfile.open(archive) as packed:
            if hasattr(tarfile, "data_filter"):
                packed.extractall(jars, filter="data")
            else:  # early versions of Python 3.11
                packed.extractall(jars)  # noqa: S202 of the locked list, from where all jars come
        archive.unlink()
