"""The dbt project that makes Gold: where it is, and its manifest, parsed anew only when something changed."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from stream_assets.contracts.model import Contract
from stream_assets.errors import StreamError
from stream_assets.gold.sources import render_sources, sync_sources
from stream_assets.settings import PROJECT, Settings

MACROS = PROJECT / "dbt_project" / "macros" / "stream.sql"
_WATCHED = ("*.sql", "*.yml", "*.yaml", "*.csv")


def has_project(settings: Settings) -> bool:
    """Whether there is a dbt project at all: without one there is no Gold."""
    return (settings.dbt_project / "dbt_project.yml").is_file()


def profiles_folder(settings: Settings) -> Path:
    """The project's own profiles, or ours."""
    own = settings.dbt_project / "profiles.yml"
    return own.parent if own.is_file() else PROJECT / "dbt_project"


def dbt_environment(settings: Settings) -> dict[str, str]:
    """What every dbt process needs to know. Nothing is written into the project itself."""
    return {
        "STREAM_LAKE_GOLD": f"{settings.lake}/gold",
        "DBT_TARGET_PATH": str(target_folder(settings)),
        "DBT_LOG_PATH": str(settings.home / "dbt" / "logs"),
        "DBT_PROFILES_DIR": str(profiles_folder(settings)),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "DBT_VERSION_CHECK": "false",
        "DO_NOT_TRACK": "1",
    }


def target_folder(settings: Settings) -> Path:
    """Where dbt puts what it makes of the project."""
    return settings.home / "dbt" / "target"


def prepare_manifest(settings: Settings, contracts: Sequence[Contract]) -> Path | None:
    """Path of a current manifest, or None without a project. Opens no connection to Spark."""
    if not has_project(settings):
        return None
    folder = target_folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / "parse.lock"):
        _share_macros(settings)
        sync_sources(settings, contracts)
        manifest, stamp = folder / "manifest.json", folder / "stream_fingerprint"
        wanted = _fingerprint(settings, contracts)
        if not manifest.exists() or not stamp.exists() or stamp.read_text() != wanted:
            _parse(settings)
            stamp.write_text(wanted)
    return manifest


def _share_macros(settings: Settings) -> None:
    """Give another team's project the macros that daily models need."""
    target = settings.dbt_project / "macros" / MACROS.name
    if target != MACROS and (not target.exists() or target.read_bytes() != MACROS.read_bytes()):
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(MACROS.read_bytes())


def _fingerprint(settings: Settings, contracts: Sequence[Contract]) -> str:
    """Changes when a parse would give another manifest."""
    digest = hashlib.sha256(render_sources(contracts).encode())
    files = {file for pattern in _WATCHED for file in settings.dbt_project.rglob(pattern)}
    for file in sorted(file for file in files if not {"target", "logs", "dbt_packages"} & set(file.parts)):
        digest.update(str(file).encode() + file.read_bytes())
    digest.update(str(sorted(dbt_environment(settings).items())).encode())
    return digest.hexdigest()


def _parse(settings: Settings) -> None:
    command = [dbt_executable(), "--quiet", "parse", "--project-dir", str(settings.dbt_project)]
    done = subprocess.run(
        command, env=os.environ | dbt_environment(settings), capture_output=True, text=True, check=False
    )
    if done.returncode:
        detail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise StreamError(f"dbt cannot read the project {settings.dbt_project}:\n{detail}")


def dbt_executable() -> str:
    """The dbt of this environment, whatever PATH says."""
    return str(Path(sys.executable).with_name("dbt"))
