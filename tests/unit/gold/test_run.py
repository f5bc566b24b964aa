"""How a dbt run that failed is told."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from stream_assets.gold.project import DbtError
from stream_assets.gold.run import _raise_failures

TRACE = "\n\nJVM stacktrace:\norg.apache.spark.Something"


def ended(*results: tuple[str, str, str], exception: Exception | None = None) -> Future[Any]:
    """A dbt run with these nodes: name, status, message."""
    nodes = [SimpleNamespace(node=SimpleNamespace(name=n), status=s, message=m) for n, s, m in results]
    bad = exception or any(node.status in ("error", "fail") for node in nodes)
    done: Future[Any] = Future()
    done.set_result(SimpleNamespace(success=not bad, exception=exception, result=nodes))
    return done


def test_warnings_are_no_failure(tmp_path):
    """Orphans do not stop a day."""
    _raise_failures(ended(("rel", "warn", "Got 3 results"), ("fct", "success", "OK")), tmp_path)


def test_a_failure_names_its_nodes_and_spares_the_stack(tmp_path):
    """A person needs the model, the reason, and where to read on."""
    run = ended(
        ("fct", "error", f"[UNRESOLVED_COLUMN] x{TRACE}"), ("unique", "fail", "Got 2 results"), ("ok", "pass", "")
    )
    with pytest.raises(DbtError) as caught:
        _raise_failures(run, tmp_path)
    text = str(caught.value)
    assert text.startswith("2 dbt nodes failed:")
    assert "- fct: [UNRESOLVED_COLUMN] x" in text
    assert "- unique: Got 2 results" in text
    assert "org.apache" not in text
    assert str(tmp_path / "dbt.log") in text


@pytest.mark.parametrize("sign", ["[DELTA_CONCURRENT_APPEND]", "StatusCode.UNAVAILABLE", "Connection refused"])
def test_a_lost_race_or_a_lost_server_is_worth_a_retry(tmp_path, sign):
    """The engine resource retries Spark's own errors, and nothing else."""
    with pytest.raises(PySparkException, match="fct"):
        _raise_failures(ended(("fct", "error", f"{sign} at version 3{TRACE}")), tmp_path)


def test_dbt_not_running_at_all_is_told(tmp_path):
    """With its own words."""
    with pytest.raises(DbtError, match="No such option"):
        _raise_failures(ended(exception=ValueError("No such option '--x'.")), tmp_path)
