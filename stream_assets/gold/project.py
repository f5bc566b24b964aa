"""The dbt project that makes Gold, made ready to run.

A project is never run where it lies: a private copy gets what Stream adds (sources from the contracts, the macros of daily
models, where tables go) and is parsed there, once per state of project and contracts. So a read-only project works, a
project written without Stream in mind works, and editing one does not disturb a run under way.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

from stream_assets.contracts.model import Contract
from stream_assets.errors import StreamError
from stream_assets.gold.models import Model, tables_of
from stream_assets.gold.sources import SOURCE, render_sources, sources_file
from stream_assets.settings import PROJECT, Settings

OURS = PROJECT / "dbt_project"
PROFILE = "stream"
KEPT_COPIES = 5
"""Copies of a project that are kept: a long run may still be using one of the last few."""

DEFAULTS = {"+file_format": "delta", "+location_root": "{{ env_var('STREAM_LAKE_GOLD') }}"}
_LEFT_OUT = shutil.ignore_patterns(
    "target", "logs", ".git", ".venv", "venv", "node_modules", "__pycache__", ".user.yml"
)
_SOURCE_CALL = re.compile(rf"""\bsource\(\s*['"]{SOURCE}['"]\s*,\s*['"](\w+)['"]\s*\)""")
_SCHEMA_MACRO = re.compile(r"\bmacro\s+generate_schema_name\b")


class DbtError(StreamError):
    """dbt refused the project, or a model or test of it failed."""


@dataclass(frozen=True)
class GoldProject:
    """A dbt project as it will be run: copied, completed and parsed."""

    folder: Path
    without_contract: tuple[str, ...]
    """Silver tables it reads that no contract declares: what is above them cannot be built."""
    own_profile: bool
    """Whether the project brings its own connection."""

    @property
    def manifest(self) -> Path:
        """What dbt knows of the project."""
        return self.folder / "target" / "manifest.json"

    @property
    def parsed(self) -> Path:
        """The same, as dbt itself reads it back."""
        return self.folder / "target" / "partial_parse.msgpack"

    @property
    def flags(self) -> list[str]:
        """Where dbt finds the project and its connection."""
        profile = [] if self.own_profile else ["--profile", PROFILE]
        return ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder), *profile]


def has_project(settings: Settings) -> bool:
    """Whether there is a dbt project at all: without one there is no Gold."""
    return (settings.dbt_project / "dbt_project.yml").is_file()


def prepare_manifest(settings: Settings, contracts: Iterable[Contract]) -> Path | None:
    """Path of a current manifest, or None without a project. Opens no connection to Spark."""
    project = prepare_project(settings, contracts)
    return project.manifest if project else None


def read_manifest(settings: Settings, contracts: Iterable[Contract]) -> dict[str, Any] | None:
    """What dbt knows of the project, None without one."""
    file = prepare_manifest(settings, contracts)
    return json.loads(file.read_bytes()) if file else None


def read_models(settings: Settings, contracts: Iterable[Contract]) -> dict[str, Model]:
    """The tables of the project by asset, parents first; none without a project."""
    manifest = read_manifest(settings, contracts)
    return tables_of(manifest) if manifest else {}


def prepare_project(settings: Settings, contracts: Iterable[Contract]) -> GoldProject | None:
    """The project, ready to run, or None without one. Copies and parses only when something changed."""
    if not has_project(settings):
        return None
    contracts = list(contracts)
    generated = sources_file(settings.dbt_project)
    read = _sources_read(settings.dbt_project) if generated else set()
    missing = tuple(sorted(read - {contract.name for contract in contracts}))
    additions = _additions(settings.dbt_project)
    if generated:
        additions[str(generated.relative_to(settings.dbt_project))] = render_sources(
            contracts, without_contract=missing
        )
    copies = settings.home / "dbt" / "projects"
    folder = copies / _fingerprint(settings, additions)
    project = GoldProject(folder, missing, (settings.dbt_project / "profiles.yml").is_file())
    ready = folder / "ready"
    if not ready.exists():
        copies.mkdir(parents=True, exist_ok=True)
        with FileLock(copies / "prepare.lock"):
            if not ready.exists():
                _copy(settings.dbt_project, folder, additions)
                _parse(settings, project)
                ready.touch()
                keep_newest(copies, KEPT_COPIES)
    return project


def dbt_environment(settings: Settings) -> dict[str, str]:
    """What every dbt invocation needs to know."""
    return {"STREAM_LAKE_GOLD": f"{settings.lake}/gold", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DO_NOT_TRACK": "1"}


def _additions(project: Path) -> dict[str, str]:
    """Files of the copy that are not the project's own: relative path → content."""
    added = {"dbt_project.yml": _with_defaults(project), "macros/stream.sql": _text(OURS / "macros" / "stream.sql")}
    if not any(_SCHEMA_MACRO.search(_text(file)) for file in project.glob("macros/**/*.sql")):
        added["macros/stream_schema.sql"] = _text(OURS / "macros" / "stream_schema.sql")
    if not (project / "profiles.yml").is_file():
        added["profiles.yml"] = _text(OURS / "profiles.yml")
    return added


def _with_defaults(project: Path) -> str:
    """The project file, with tables as Delta in the lake wherever the project does not say otherwise."""
    text = _text(project / "dbt_project.yml")
    document: dict[str, Any] = yaml.safe_load(text) or {}
    for kind in (kind for kind in ("models", "seeds", "snapshots") if (project / kind).is_dir()):
        document[kind] = DEFAULTS | (document.get(kind) or {})
    return text if document == yaml.safe_load(text) else yaml.safe_dump(document, sort_keys=False)


def _sources_read(project: Path) -> set[str]:
    return {name for file in project.glob("models/**/*.sql") for name in _SOURCE_CALL.findall(_text(file))}


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _fingerprint(settings: Settings, additions: Mapping[str, str]) -> str:
    """Changes when a parse could give another manifest."""
    digest = hashlib.sha256()
    for package in ("dbt-core", "dbt-spark"):
        digest.update(version(package).encode())
    digest.update(str(sorted(dbt_environment(settings).items())).encode())
    for name, content in sorted(additions.items()):
        digest.update(f"{name}\0{content}\0".encode())
    for file in _files(settings.dbt_project):
        digest.update(str(file.relative_to(settings.dbt_project)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _files(project: Path) -> list[Path]:
    found: list[Path] = []
    for folder, folders, names in os.walk(project):
        left_out = _LEFT_OUT(folder, [*folders, *names])
        folders[:] = [name for name in folders if name not in left_out]
        found += [Path(folder) / name for name in names if name not in left_out]
    return sorted(found)


def _copy(project: Path, folder: Path, additions: Mapping[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # an earlier attempt that died half-way
    shutil.copytree(project, folder, ignore=_LEFT_OUT)
    for name, content in additions.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)  # the original may be read-only
        file.write_text(content, encoding="utf-8")


def _parse(settings: Settings, project: GoldProject) -> None:
    """Let dbt read the copy, in a process of its own: its global state stays out of the code server."""
    places = ["--target-path", str(project.folder / "target"), "--log-path", str(project.folder / "logs")]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from dbt.cli.main import cli; cli()",
            "--quiet",
            "--no-use-colors",
            "parse",
            *project.flags,
            *places,
        ],
        env=os.environ | dbt_environment(settings),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        detail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise DbtError(f"dbt cannot read the project {settings.dbt_project}:\n{detail}")


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but the newest folders in a folder."""
    found = sorted((f for f in folder.glob("*") if f.is_dir()), key=lambda f: f.stat().st_mtime, reverse=True)
    for old in found[count:]:
        shutil.rmtree(old, ignore_errors=True)
