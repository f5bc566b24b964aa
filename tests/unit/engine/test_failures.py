"""Each kind of failure is told from the others: only what may succeed next time is tried again."""

import pytest
from pyspark.errors import AnalysisException, PySparkException

from stream_assets.engine.failures import classify, is_gone
from stream_assets.errors import (
    AwayError,
    ContractError,
    DeliveryError,
    EngineError,
    LakeError,
    ServiceError,
    SettingsError,
)
from stream_assets.gold.project import DbtError


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (EngineError("it did not start"), "transient"),
        (PySparkException("StatusCode.UNAVAILABLE: failed to connect to all addresses"), "transient"),
        (PySparkException("[DELTA_CONCURRENT_APPEND] Files were added"), "transient"),
        (AwayError("Kafka does not answer"), "transient"),
        (ServiceError("a topic that cannot be made"), "code"),
        (ConnectionResetError(), "transient"),
        (TimeoutError(), "transient"),
        (DeliveryError("a name that is not UTF-8"), "data"),
        (LakeError("other types than the contract"), "data"),
        (PySparkException("[CAST_INVALID_INPUT] 'x' cannot be cast"), "data"),
        (AnalysisException("[UNRESOLVED_COLUMN] a"), "code"),
        (ContractError("f", "field", "problem", "remedy"), "code"),
        (SettingsError("not a number"), "code"),
        (DbtError("a model failed"), "code"),
        (KeyError("x"), "code"),
    ],
)
def test_kind_of_failure(error: Exception, kind: str) -> None:
    assert classify(error) == kind


def test_another_server_that_is_away_is_not_the_engine() -> None:
    """The words are the same; who says them is not."""
    assert is_gone(PySparkException("Connection refused"))
    assert not is_gone(AwayError("The schema registry does not answer (Connection refused)"))
