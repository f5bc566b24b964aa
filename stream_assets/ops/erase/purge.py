"""Removes a table's past that holds a value: data files that are no longer part of it, statistics and samples in Delta's log.

Commits and their ledger pages stay, and so does every older file without the value: only versions that held the person
can no longer be had.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from deltalake import DeltaTable

from stream_assets.ops.erase.scan import holds
from stream_assets.ops.quarantine.records import MASK


def purge(path: str, values: Sequence[str]) -> int:
    """Remove what holds one of the values and is not part of the table any more. Returns the number of files."""
    table, root = DeltaTable(path), Path(path)
    current = {Path(uri.removeprefix("file://")).resolve() for uri in table.file_uris()}
    old = [f for f in root.rglob("*.parquet") if f.resolve() not in current and "_delta_log" not in f.parts]
    tainted = [file for file in old if any(holds(file, values))]
    for file in tainted:
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return len(tainted) + _purge_log(table, root / "_delta_log", values)


def _purge_log(table: DeltaTable, log: Path, values: Sequence[str]) -> int:
    tainted = [file for file in sorted(log.glob("*")) if file.is_file() and any(holds(file, values))]
    if any(file.suffix == ".parquet" for file in tainted):
        table.create_checkpoint()
    for file in tainted:
        if file.suffix == ".json" and file.stem.isdigit():
            _without(file, values)
        elif any(holds(file, values)):  # the newest checkpoint may have been written anew
            file.unlink()
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return len(tainted)


def _without(commit: Path, values: Sequence[str]) -> None:
    """Minimum and maximum of a file, and keys of a few rejected records, are all that a log says of rows; readers do without."""
    lines = []
    for line in commit.read_text("utf-8").splitlines():
        action = json.loads(line)
        if any(value in line for value in values):
            for kind in ("add", "remove"):
                action.get(kind, {}).pop("stats", None)
            info = action.get("commitInfo", {})
            if "userMetadata" in info:
                info["userMetadata"] = reduce(
                    lambda text, value: text.replace(value, MASK), values, info["userMetadata"]
                )
        lines.append(json.dumps(action, separators=(",", ":"), ensure_ascii=False))
    draft = commit.with_suffix(".tmp")
    draft.write_text("\n".join(lines) + "\n", "utf-8")
    commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the file as it was
    draft.replace(commit)
