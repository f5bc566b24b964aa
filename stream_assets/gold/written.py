"""What a run wrote into a Gold table, from the table's own log: the newest commit says it, no query needed."""

from __future__ import annotations

import json
from typing import Any

from pyarrow import fs

from stream_assets.engine.session import filesystem_of


def written_by(run_id: str, table: str) -> dict[str, Any]:
    """Rows and version of the commit this run made. Empty if the run left the table as it was."""
    filesystem, path = filesystem_of(f"{table}/_delta_log")
    files = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    commits = sorted(file.path for file in files if file.base_name.endswith(".json") and file.base_name[:-5].isdigit())
    if not commits:
        return {}
    with filesystem.open_input_stream(commits[-1]) as stream:
        actions = [json.loads(line) for line in stream.read().splitlines()]
    info = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    if json.loads(info.get("userMetadata") or "{}").get("run_id") != run_id:
        return {}
    is_range = "predicate" in info.get("operationParameters", {})
    rows = int(info.get("operationMetrics", {}).get("numOutputRows", 0))
    return {
        "dagster/partition_row_count" if is_range else "dagster/row_count": rows,
        "delta_version": int(commits[-1].rsplit("/", 1)[-1].removesuffix(".json")),
    }
