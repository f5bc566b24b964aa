"""What kind of failure an error is, in one place: whether trying again can help depends on nothing else.

transient   the server went away, another commit came first, a connection broke: try again, a few times, ever later
data        what was delivered or lies in the lake cannot be used: people mend it, trying again changes nothing
code        a contract, a model, a setting or a bug: people mend it
"""

from __future__ import annotations

from typing import Literal

import grpc
from deltalake.exceptions import DeltaError
from pyspark.errors import AnalysisException, ParseException, PySparkException

from stream_assets.errors import (
    AwayError,
    ContractError,
    DeliveryError,
    EngineError,
    LakeError,
    SettingsError,
    StreamError,
)

Failure = Literal["transient", "data", "code"]

_SERVER_GONE = (
    "UNAVAILABLE",
    "failed to connect",
    "Connection refused",
    "Connection reset",
    "Socket closed",
    "INVALID_HANDLE",
    "stopped SparkContext",
    "RETRIES_EXCEEDED",
)
_LOST_RACE = (
    *("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"),  # of Delta on Spark
    *("oncurrent transaction", "changed since last commit", "Failed to commit transaction: 0"),  # of delta-rs
)
"""Signs of a write that came second; the next attempt may come first."""
_BY_CLASS: tuple[tuple[type[Exception], Failure], ...] = (
    (EngineError, "transient"),
    (AwayError, "transient"),
    (DeliveryError, "data"),
    (LakeError, "data"),
    (ContractError, "code"),
    (SettingsError, "code"),
    (StreamError, "code"),
    (ConnectionError, "transient"),
    (TimeoutError, "transient"),
    (AnalysisException, "code"),
    (ParseException, "code"),
    (PySparkException, "data"),
    (DeltaError, "data"),
)


def classify(error: BaseException) -> Failure:
    """What kind of failure this is. What nobody foresaw is a bug, and a bug is not cured by repetition."""
    if isinstance(error, PySparkException | grpc.RpcError | DeltaError) and is_transient(str(error)):
        return "transient"
    for known, kind in _BY_CLASS:
        if isinstance(error, known):
            return kind
    return "code"


def is_transient(text: str) -> bool:
    """Whether the text of an error of Spark means that another attempt may succeed."""
    return is_gone(text) or is_lost_race(text)


def is_lost_race(text: str) -> bool:
    """Whether the text of an error means that another commit came first."""
    return any(sign in text for sign in _LOST_RACE)


def is_gone(error: object) -> bool:
    """Whether an error, or its text, means that the server failed and not the query. What we say ourselves is of other servers."""
    return not isinstance(error, StreamError) and any(sign in str(error) for sign in _SERVER_GONE)
