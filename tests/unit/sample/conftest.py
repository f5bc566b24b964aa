"""One small sample, written once for all tests of the generator."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from stream_assets.sample import Manifest, write_sample

ARGUMENTS = {"days": 7, "end": date(2025, 3, 9), "scale": 0.05, "seed": 11}


@dataclass(frozen=True)
class Sample:
    """A landing zone and its answer key."""

    landing: Path
    manifest: Manifest


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Return an imperfect week."""
    landing = tmp_path_factory.mktemp("landing")
    return Sample(landing, write_sample(landing, **ARGUMENTS))


@pytest.fixture(scope="session")
def clean_sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Return the same week without faults."""
    landing = tmp_path_factory.mktemp("clean_landing")
    return Sample(landing, write_sample(landing, **ARGUMENTS, faults=False))


@pytest.fixture(scope="session")
def arguments() -> dict:
    """Return the arguments the samples were written with."""
    return dict(ARGUMENTS)
