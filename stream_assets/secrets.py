"""Secrets Stream makes for itself when none is given, each in its own file readable by its owner alone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from stream_assets.settings import Settings


def pii_salt(settings: Settings) -> str:
    """The secret mixed into hashed personal data. It must never change: equal values must stay equal."""
    return settings.pii_salt or secret_file(settings.home / "secrets" / "pii_salt")


def secret_file(file: Path) -> str:
    """The content of a secret file, made on first use, once, whoever comes first."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = file.with_suffix(f".{secrets.token_hex(8)}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
            handle.write(secrets.token_urlsafe(32))
        try:
            os.link(draft, file)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return file.read_text().strip()
