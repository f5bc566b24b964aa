"""Every Dagster resource, once. They are built from settings and open nothing until a step asks."""

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

from stream_assets.engine.server import Connection, connect
from stream_assets.engine.session import is_gone, open_session
from stream_assets.errors import EngineError, StreamError
from stream_assets.secrets import pii_salt
from stream_assets.settings import Settings


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

        A server that went away is worth a retry, on a new server; an error raised on purpose is not.
        """
        session = self.spark_session
        try:
            yield session
        except StreamError as error:
            raise dg.Failure(description=str(error), allow_retries=False) from error
        except (PySparkException, grpc.RpcError) as error:
            if not is_gone(str(error)):
                raise
            raise EngineError(
                "The Spark server went away in the middle of this step. Nothing is half-written: a table changes in one commit or not at "
                "all. The next attempt starts a new server."
            ) from error
        finally:
            self._sessions.pop(threading.get_ident(), None)
            with suppress(Exception):
                session.stop()

    def pii_salt(self) -> str:
        """The secret for hashed personal data."""
        return pii_salt(self.settings)
