"""Finds contracts by place: a file, a folder, or a commit of the git repository that holds the folder."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from stream_assets.contracts.load import SUFFIX, ContractSet, load_contract, load_contracts
from stream_assets.errors import StreamError


def load_place(place: str, *, beside: Path) -> ContractSet:
    """The contracts of a file or a folder or, if there is none of that name, of `beside` at that commit."""
    path = Path(place)
    if path.is_dir():
        return load_contracts(path)
    return ContractSet((load_contract(path),)) if path.is_file() else load_commit(place, beside)


def load_commit(reference: str, place: Path) -> ContractSet:
    """The contracts that a folder, or one contract file, held at a commit (a branch, a tag, `HEAD~1` …)."""
    folder = place.parent if place.is_file() else place
    if not folder.is_dir():
        raise StreamError(f"{folder} is no folder, so there is nothing to look up in git.")
    commit = _find_commit(reference, folder)
    with TemporaryDirectory(prefix="stream-contracts-") as made:
        for name, blob in _files(commit, folder).items():
            if name.endswith(SUFFIX):
                (Path(made) / name).write_bytes(_git(folder, "cat-file", "blob", blob))
        found = load_contracts(Path(made))
    if not place.is_file():
        return found
    return ContractSet(
        tuple(contract for contract in found.contracts if contract.file.name == place.name),
        tuple(error for error in found.broken if error.file == place.name),
    )


def _find_commit(reference: str, folder: Path) -> str:
    try:
        found = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        why = said or "In CI, fetch it first: a shallow checkout has only one commit."
        raise StreamError(
            f"{reference!r} is no file, no folder, and no commit of the git repository of {folder}. {why}"
        ) from error
    return found.decode().strip()


def _files(commit: str, folder: Path) -> dict[str, str]:
    """The plain files of a folder at a commit: name → blob. Links are left out."""
    listed = _git(folder, "ls-tree", "-z", commit).decode().split("\0")
    rows = [line.split("\t", 1) for line in listed if line]
    parts = {name: facts.split() for facts, name in rows}
    return {name: blob for name, (mode, kind, blob) in parts.items() if kind == "blob" and mode.startswith("100")}


def _git(folder: Path, *command: str) -> bytes:
    try:
        return subprocess.run(["git", "-C", str(folder), *command], check=True, capture_output=True).stdout
    except FileNotFoundError as error:
        raise StreamError("git was not found: install it, or compare two folders.") from error
