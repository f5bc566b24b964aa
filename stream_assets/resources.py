"""Every Dagster resource, once, and the instance. They are built from settings and open nothing until a step asks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import dagster as dg
import grpc
from dagster_pyspark import LazyPySparkResource
from pydantic import Field, PrivateAttr
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stream_assets.engine.failures import classify, is_gone
from stream_assets.engine.server import Connection, connect
from stream_assets.engine.session import open_session
from stream_assets.errors import EngineError, StreamError
from stream_assets.secrets import pii_salt
from stream_assets.settings import Settings

ERROR_CLASS = "error_class"
"""Metadata of a failed step: data or code."""


class EngineResource(LazyPySparkResource):
    """The PySpark resource of Bronze, Silver and Gold: a session on the one warm Spark Connect engine."""

    _sessions: dict[int, Any] = PrivateAttr(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    """The settings of this code location, as environment variables, secrets left out."""

    @classmethod
    def from_settings(cls, settings: Settings) -> EngineResource:
        """A resource that will use these settings whatever process it wakes up in."""
        return cls(spark_config={}, environment=settings.to_env())

    @property
    def settings(self) -> Settings:
        """The settings, with secrets from the process's own environment."""
        return Settings.from_env({**os.environ, **self.environment})

    def connection(self) -> Connection:
        """Where Spark is, the engine started if need be."""
        return connect(self.settings)

    @property
    def spark_session(self) -> SparkSession:
        """This thread's session on the engine: what one step sets on its session must not touch another's.

        A session that died with its server is replaced.
        """
        session = self._sessions.get(threading.get_ident())
        if session is None or getattr(session, "is_stopped", False):
            session = self._sessions[threading.get_ident()] = open_session(self.settings)
        return session

    @contextmanager
    def guarded(self) -> Iterator[SparkSession]:
        """A session for the body of a step, whose failures tell a person what happened.

        Only a transient failure is worth another attempt; data and code stay as they are until somebody mends them.
        """
        session = self.spark_session
        try:
            yield session
        except dg.Failure:
            raise
        except Exception as error:
            kind = classify(error)
            if kind != "transient":
                text = str(error) if isinstance(error, StreamError) else f"{type(error).__name__}: {error}"
                raise dg.Failure(text, metadata={ERROR_CLASS: kind}, allow_retries=False) from error
            if isinstance(error, PySparkException | grpc.RpcError) and is_gone(str(error)):
                raise EngineError(
                    "The Spark server went away in the middle of this step. Nothing is half-written: a table changes in one commit or "
                    "not at all. The next attempt starts a new server."
                ) from error
            raise
        finally:
            self._sessions.pop(threading.get_ident(), None)
            with suppress(Exception):
                session.stop()

    def pii_salt(self) -> str:
        """The secret for hashed personal data."""
        return pii_salt(self.settings)


def open_instance(settings: Settings) -> dg.DagsterInstance:
    """The Dagster instance of this STREAM_HOME. Its `dagster.yaml` names the folder by DAGSTER_HOME."""
    os.environ["DAGSTER_HOME"] = str(settings.home / "dagster")
    return dg.DagsterInstance.get()
