"""The engine's classes, unpacked and checked once for all starts.

Two fifths of what a JVM does until it has answered a first query is to read, verify and link classes. Java can keep the result and
map it into memory instead. The archive lies in the environment of this Python, because it fits no other Spark; Java looks whether
it does, and starts as ever if not.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pyspark

from stream_assets.engine.jars import IVY_FILE


def class_flags(java: Path) -> tuple[str, ...]:
    """Let Java use the archive. None, or one that does not fit, is nothing to warn of."""
    return f"-XX:SharedArchiveFile={class_archive(java)}", "-Xlog:cds=error", "-Xlog:cds+dynamic=error"


def class_archive(java: Path) -> Path:
    """Where the archive for this Java, this Spark and our jars is, or would be: one that was made with other jars would be ignored."""
    home = java.resolve().parent.parent
    release = home / "release"
    version = release.read_bytes() if release.exists() else str(home).encode()
    name = hashlib.sha256(version + pyspark.__version__.encode() + IVY_FILE.read_bytes()).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "stream" / f"engine-{name}.jsa"
