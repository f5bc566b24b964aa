"""What every test may ask for: one Spark server per worker for the whole run, and a fresh lake per test on it.

The server starts when the first test asks for it, so unit tests start none. It has a STREAM_HOME of its own and is
stopped when the run ends, whatever the tests did; a run that is killed leaves it to its own idle limit.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stream_assets.engine import server
from stream_assets.engine.session import open_session
from stream_assets.settings import Settings
from tests.lakes import SALT, forget_tables, lake_at

# Commands that tests start stand for themselves; tests/unit/standby has its own.
os.environ["STREAM_STANDBY"] = "off"


@pytest.fixture(scope="session")
def engine_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings whose STREAM_HOME holds the server of this run."""
    environment = {
        "STREAM_HOME": str(tmp_path_factory.mktemp("home")),
        "STREAM_SPARK_MEMORY": "2g",
        "STREAM_SPARK_IDLE_MINUTES": "3",
        "STREAM_STANDBY": "off",
        "STREAM_PII_SALT": SALT,
    }
    kept = {name: os.environ[name] for name in ("STREAM_JARS", "JAVA_HOME") if name in os.environ}
    settings = Settings.from_env(kept | environment)
    try:
        yield settings
    finally:
        server.stop(settings)


@pytest.fixture(scope="session")
def spark(engine_settings: Settings) -> Iterator[SparkSession]:
    """A session on the one server."""
    session = open_session(engine_settings)
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture
def lake(engine_settings: Settings, spark: SparkSession, tmp_path: Path) -> Iterator[Settings]:
    """An empty lake and landing zone on the shared server."""
    forget_tables(spark)
    yield lake_at(engine_settings, tmp_path)
    forget_tables(spark)
