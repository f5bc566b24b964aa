"""Finds a Java that Spark 4 runs on, and says clearly what is missing when there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from stream_assets.errors import EngineError

SUPPORTED = (17, 21)
_REMEDY = "Install a Java 17 or 21 runtime (for example the package openjdk-17-jre-headless) or point JAVA_HOME at one."


def find_java() -> Path:
    """Path of a `java` of a supported version, from JAVA_HOME or PATH."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not Path(found).exists():
        raise EngineError(f"Java was not found{f' in JAVA_HOME={home}' if home else ''}. {_REMEDY}")
    version = java_version(Path(found))
    if version not in SUPPORTED:
        raise EngineError(f"{found} is Java {version or 'of unknown version'}; Spark needs 17 or 21. {_REMEDY}")
    return Path(found)


def java_version(java: Path) -> int | None:
    """Major version that a `java` reports."""
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except OSError:
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None
