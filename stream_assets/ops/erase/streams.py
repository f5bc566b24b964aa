"""What streams know of a person beside their tables: state in checkpoints, which is removed, and working files of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyarrow import fs

from stream_assets.contracts.model import Contract
from stream_assets.engine import server
from stream_assets.engine.session import filesystem_of
from stream_assets.errors import StreamError
from stream_assets.ops.erase.find import Subject
from stream_assets.settings import Settings
from stream_assets.sources.erasures import holders
from stream_assets.streaming.control import Control
from stream_assets.streaming.load import load_views


def refuse_streams(settings: Settings) -> None:
    """Raise while streams run: they would write their state again."""
    if Control.of(settings).status()["running"]:
        raise StreamError(
            "Streams are running, and their state holds people too. `stream streams stop`, erase, and start them again: they "
            "compute what they need anew, from records without this person."
        )


def forget_state(settings: Settings, contracts: Mapping[str, Contract], subject: Subject) -> list[str]:
    """Remove the checkpoints of every stream that reads this person's records. Returns the streams.

    A stream that has rows and no checkpoint is rebuilt when it next starts; until then readers have its rows.
    """
    views = load_views(settings.views, contracts)
    known = {name for name, contract in contracts.items() if holders(contract, subject.column)}
    logs = [f"{name}_events" for name in views.datasets if name in known]
    names = [*logs, *(view.name for view in views.views if known & {*view.sources})]
    return [name for name in names if _remove(f"{settings.checkpoints}/{name}")]


def _remove(place: str) -> bool:
    filesystem, path = filesystem_of(place)
    is_there = filesystem.get_file_info(path).type == fs.FileType.Directory
    if is_there:
        filesystem.delete_dir(path)
    return is_there


def working_files(settings: Settings, streams: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What remains in files of the engine that nobody can look into."""
    if streams and server.running(settings):
        scratch = str(settings.home / "spark" / "scratch")
        reason = "encrypted or packed working files of the engine, until it stops: `stream engine stop`"
        yield {"files": [scratch], "reason": reason}
