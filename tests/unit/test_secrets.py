"""Secrets that Stream makes for itself: once, for its owner alone, the same for everybody who asks."""

import os
import stat
from pathlib import Path

import pytest

from stream_assets.secrets import pii_salt, secret_file
from stream_assets.settings import Settings


def test_a_secret_is_made_once_and_kept(tmp_path: Path) -> None:
    """Equal values must hash equally next year."""
    file = tmp_path / "secrets" / "pii_salt"
    first = secret_file(file)
    assert (len(first) >= 32, secret_file(file)) == (True, first)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["pii_salt"]


def test_a_killed_maker_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    """In a container every start has the same process numbers: a draft left by the last one must not stop this one."""
    (tmp_path / f"salt.{os.getpid()}").touch()
    assert len(secret_file(tmp_path / "salt")) >= 32


def test_the_environment_comes_first(tmp_path: Path) -> None:
    given = Settings.from_env({"STREAM_HOME": str(tmp_path), "STREAM_PII_SALT": "given"})
    assert pii_salt(given) == "given"
    assert not (tmp_path / "secrets").exists()


@pytest.mark.parametrize(
    "secret", ["STREAM_PII_SALT", "STREAM_ALERT_WEBHOOK_SECRET", "STREAM_SCHEMA_REGISTRY_PASSWORD"]
)
def test_secrets_are_left_out_of_what_is_passed_on(secret: str, tmp_path: Path) -> None:
    """The settings that travel with a run hold no secret."""
    settings = Settings.from_env({"STREAM_HOME": str(tmp_path), secret: "canary-secret"})
    assert "canary-secret" not in str(settings.to_env())
