"""A real Dagster UI on a fresh STREAM_HOME, and a real browser to use it with."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from stream_assets.engine import server
from stream_assets.ops.prepare import prepare_home
from stream_assets.sample import write_sample
from stream_assets.services import local
from stream_assets.settings import PROJECT, Settings
from tests.brokers import live_lake

LAST_DAY = date(2026, 11, 14)
BIN = Path(sys.executable).parent
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1600,1000"
)


@dataclass(frozen=True)
class Dagster:
    """A running Dagster UI."""

    url: str
    home: Path

    def query(self, text: str, **variables: Any) -> dict[str, Any]:
        """Ask the GraphQL API, which is what the pages are made of."""
        body = json.dumps({"query": text, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["data"]

    def wait_for(self, what: str, condition: Callable[[], Any], timeout_s: float = 240) -> Any:
        """Wait until a condition gives something, and return that."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if found := condition():
                return found
            time.sleep(1)
        raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")


@pytest.fixture(scope="session")
def stream_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("stream_home")
    write_sample(home / "landing", days=3, end=LAST_DAY, scale=0.05, seed=3)
    settings = Settings.from_env({**os.environ, "STREAM_HOME": str(home)})
    prepare_home(settings)
    yield home
    server.stop(settings)


@pytest.fixture(scope="session")
def dagster(stream_home: Path) -> Iterator[Dagster]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "STREAM_HOME": str(stream_home),
        "DAGSTER_HOME": str(stream_home / "dagster"),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "STREAM_SPARK_MEMORY": "2g",
        # Dagster looks often, and a stream that has said nothing for a minute and a half is stale.
        "STREAM_REPORT_SECONDS": "6",
        "FRESHNESS_DAEMON_INTERVAL_SECONDS": "5",
    }
    log = (stream_home / "dagster-dev.log").open("w")
    process = subprocess.Popen(
        [BIN / "dagster", "dev", "--workspace", "workspace.yaml", "--host", "127.0.0.1", "--port", str(port)],
        cwd=PROJECT,
        env=environment,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    running = Dagster(f"http://127.0.0.1:{port}", stream_home)
    try:
        running.wait_for("the Dagster UI", lambda: _answers(running.url), timeout_s=180)
        yield running
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/server_info", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.fixture(scope="session")
def servers_home() -> Iterator[Settings]:
    """A STREAM_HOME for servers. Not in pytest's own folder: as root, Postgres runs as a user who may not enter that."""
    with tempfile.TemporaryDirectory(prefix="stream-servers-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        settings = Settings.from_env({**os.environ, "STREAM_HOME": folder})
        try:
            yield settings
        finally:
            local.down(settings)


@pytest.fixture(scope="session")
def broker(servers_home: Settings) -> Settings:
    """A running Kafka broker: the settings of its home."""
    local.up(servers_home, ["kafka"])
    return servers_home


@pytest.fixture(scope="session")
def registry(broker: Settings) -> Settings:
    """A running schema registry beside the broker: the settings of their home."""
    local.up(broker, ["registry"])
    return broker


@pytest.fixture(scope="session")
def services(broker: Settings) -> Settings:
    """Kafka, Postgres and Kafka Connect, all running: the settings of their home."""
    local.up(broker)
    return broker


@pytest.fixture
def live(lake: Settings, broker: Settings) -> Settings:
    """An empty lake that is fed by the broker."""
    return live_lake(lake, broker)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium and driver, "run tests/e2e/install-browser first"
    options = Options()
    options.binary_location = chromium
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Keep a picture of what the browser showed when a test failed."""
    report = yield
    browser = getattr(item, "funcargs", {}).get("browser")
    if report.when == "call" and report.failed and browser:
        folder = PROJECT / ".stream" / "screenshots"
        folder.mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(str(folder / f"{item.name}.png"))
    return report
