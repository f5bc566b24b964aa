"""Makes STREAM_HOME ready: folders and the Dagster instance's own settings. Doing it again changes nothing."""

from __future__ import annotations

from stream_assets.settings import PROJECT, Settings


def prepare_home(settings: Settings) -> None:
    """Create the folders of STREAM_HOME and give Dagster its `dagster.yaml`."""
    for name in ("dagster", "reports"):
        (settings.home / name).mkdir(parents=True, exist_ok=True)
    wanted = (PROJECT / "dagster.yaml").read_text()
    target = settings.home / "dagster" / "dagster.yaml"
    if not target.exists() or target.read_text() != wanted:
        target.write_text(wanted)
