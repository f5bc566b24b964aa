"""The engine itself: who may use it, and what its sessions share."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession as ConnectSession

from stream_assets.engine.archive import class_archive
from stream_assets.engine.java import find_java
from stream_assets.settings import Settings
from tests.engines import wait_for

ENDLESS = """
from stream_assets.engine.session import open_session
from stream_assets.settings import Settings
spark = open_session(Settings.from_env())
print("asking", flush=True)
spark.range(0, 10**14, 1, 2).selectExpr("sum(id % 7)").collect()
"""


def test_a_wrong_token_is_refused(lake: Settings, spark, monkeypatch: pytest.MonkeyPatch) -> None:
    port = json.loads((lake.home / "spark" / "server.json").read_text())["port"]
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "not the token")
    stranger = ConnectSession(f"sc://localhost:{port}")
    stranger.client.set_retry_policies([DefaultPolicy(max_retries=0)])
    with pytest.raises(PySparkException, match="Invalid authentication token"):
        stranger.range(3).count()


def test_classes_come_from_the_archive(lake: Settings, spark: SparkSession) -> None:
    """`stream prepare` made it; Java says nothing if it does not fit, so look at what it mapped."""
    pid = json.loads((lake.home / "spark" / "server.json").read_text())["pid"]
    mapped = {place.path for place in psutil.Process(pid).memory_maps()}
    assert str(class_archive(find_java())) in mapped


def test_a_file_takes_no_process_of_its_own(lake: Settings, spark: SparkSession) -> None:
    """Hadoop would run `chmod` for each file, folder and checksum: two hundred for these days. A commit's own few are left."""
    pid = json.loads((lake.home / "spark" / "server.json").read_text())["pid"]
    times_waited = {}
    for days in (1, 60):
        rows = spark.range(600).selectExpr("id", f"id % {days} as day").coalesce(1)
        before = faults_of_children(pid)
        rows.write.format("delta").partitionBy("day").save(f"{lake.lake}/of_{days}_days")
        times_waited[days] = faults_of_children(pid) - before
    assert 0 < times_waited[60] < 1.5 * times_waited[1]
    written = next(Path(f"{lake.lake}/of_60_days/day=7").glob("*.parquet"))
    assert written.stat().st_mode & 0o777 == 0o644


def faults_of_children(pid: int) -> int:
    """Pages that the processes it has waited for took from the system: each takes some, and none is forgotten."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[8])


def test_sessions_share_what_is_compiled(spark: SparkSession) -> None:
    """With classes of its own, every session would compile every query anew."""
    assert spark.conf.get("spark.sql.artifact.isolation.enabled") == "false"
    assert spark.conf.get("spark.sql.artifact.isolation.alwaysApplyClassloader") == "false"


def test_what_a_killed_client_asked_for_is_given_up(lake: Settings, spark: SparkSession) -> None:
    """It would keep every core for minutes, and the queries of the next run waiting."""
    environment = {**os.environ, **lake.to_env()}
    client = subprocess.Popen([sys.executable, "-c", ENDLESS], env=environment, stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    assert client.stdout.readline() == "asking\n"
    pid = json.loads((lake.home / "spark" / "server.json").read_text())["pid"]
    wait_for(lambda: psutil.Process(pid).cpu_percent(0.5) > 50)
    client.kill()
    client.wait()
    began = time.monotonic()
    assert spark.range(10).count() == 10
    assert time.monotonic() - began < 60
