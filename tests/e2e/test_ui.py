"""What a person does in the Dagster UI, done in a real browser: look, materialize, backfill, read checks."""

from __future__ import annotations

import os
from collections.abc import Callable

import psutil
import pytest
from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support import expected_conditions as expect
from selenium.webdriver.support.ui import WebDriverWait

from stream_assets.contracts.load import load_contracts
from stream_assets.settings import Settings
from stream_assets.streaming.assets import dagster_report
from stream_assets.streaming.control import Facts
from stream_assets.streaming.load import load_views
from stream_assets.streaming.queries import Streams
from tests.e2e.conftest import Dagster
from tests.lakes import SALT

RUNS = "query($filter: RunsFilter) { runsOrError(filter: $filter) { ... on Runs { results { runId status tags { key value } } } } }"


def act(browser: webdriver.Chrome, xpath: str, action: Callable[[WebElement], None]) -> None:
    """Do something to an element once it can be done; pages re-render under our hands."""
    passing = (StaleElementReferenceException, ElementClickInterceptedException, ElementNotInteractableException)

    def done(page: webdriver.Chrome) -> bool:
        element = expect.element_to_be_clickable((By.XPATH, xpath))(page)
        if not element:
            return False
        action(element)
        return True

    WebDriverWait(browser, 120, ignored_exceptions=(NoSuchElementException, *passing)).until(done)


def click(browser: webdriver.Chrome, text: str) -> None:
    act(browser, f"//button[contains(., '{text}')]", lambda button: button.click())


def wait_for_text(browser: webdriver.Chrome, text: str) -> None:
    WebDriverWait(browser, 120).until(
        expect.presence_of_element_located((By.XPATH, f"//*[contains(text(), '{text}')]"))
    )


def wait_until_shown(browser: webdriver.Chrome, *texts: str) -> None:
    """Wait until a person would read all of these on the page."""
    passing = (StaleElementReferenceException, NoSuchElementException)
    WebDriverWait(browser, 60, ignored_exceptions=passing).until(
        lambda page: all(text in page.find_element(By.TAG_NAME, "body").text for text in texts)
    )


def launch(dagster: Dagster, browser: webdriver.Chrome, asset: str, partitions: str) -> str:
    """Materialize partitions of an asset from its page, as a person would; returns the status of the run."""
    before = {run["runId"] for run in dagster.query(RUNS)["runsOrError"]["results"]}
    browser.get(f"{dagster.url}/assets/{asset}?view=overview")
    click(browser, "Materialize")
    box = "//input[contains(@placeholder, 'partition')]"
    act(browser, box, lambda field: field.send_keys(Keys.CONTROL, "a"))
    act(browser, box, lambda field: field.send_keys(partitions, Keys.ENTER))
    click(browser, "Launch ")

    def finished() -> str | None:
        runs = dagster.query(RUNS)["runsOrError"]["results"]
        new = [run for run in runs if run["runId"] not in before]
        assert len(new) <= 1, "a range of days is one run"
        return new[0]["status"] if new and new[0]["status"] in ("SUCCESS", "FAILURE", "CANCELED") else None

    return dagster.wait_for(f"the run of {asset}", finished)


def materialized_partitions(dagster: Dagster, *path: str) -> int:
    text = "query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode { partitionStats { numMaterialized } } } }"
    return dagster.query(text, key={"path": list(path)})["assetNodeOrError"]["partitionStats"]["numMaterialized"]


def health(dagster: Dagster, *path: str) -> str:
    """What Dagster says of an asset's freshness: healthy, in warning or degraded."""
    text = "query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode { freshnessStatusInfo { freshnessStatus } } } }"
    found = dagster.query(text, key={"path": list(path)})["assetNodeOrError"]["freshnessStatusInfo"]
    return found["freshnessStatus"] if found else "UNKNOWN"


@pytest.fixture(scope="module")
def silent_stream(dagster: Dagster) -> str:
    """A stream whose supervisor has reported once, looked alive, and says no more."""
    settings = Settings.from_env({**os.environ, "STREAM_HOME": str(dagster.home)})
    contracts = load_contracts(settings.contracts)
    streams = Streams(settings, contracts, load_views(settings.views, contracts), SALT)
    with dagster_report(settings, streams) as report:
        report([Facts("orders_events", state="running", rows=12, served_rows=12, rate=0.4)])
    dagster.wait_for("the stream to look alive", lambda: health(dagster, "live", "orders_events") == "HEALTHY")
    return "live/orders_events"


def test_a_stream_that_reports_looks_alive(dagster: Dagster, browser: webdriver.Chrome, silent_stream: str) -> None:
    browser.get(f"{dagster.url}/assets/{silent_stream}?view=overview")
    wait_until_shown(browser, "Latest materialization", "Freshness policy", "Passing", "rows_per_second")


def test_code_location_loads_without_error(dagster: Dagster, browser: webdriver.Chrome) -> None:
    browser.get(f"{dagster.url}/locations")
    wait_for_text(browser, "Loaded")
    assert "Failed" not in browser.find_element(By.TAG_NAME, "body").text


def test_graph_shows_the_layers(dagster: Dagster, browser: webdriver.Chrome) -> None:
    browser.get(f"{dagster.url}/asset-groups")
    for group in ("bronze", "silver", "quarantine", "gold"):
        wait_for_text(browser, group)


def test_partition_is_materialized_from_the_ui(dagster: Dagster, browser: webdriver.Chrome) -> None:
    assert launch(dagster, browser, "bronze/orders", "2026-11-13") == "SUCCESS"
    assert materialized_partitions(dagster, "bronze", "orders") == 1


def test_two_days_are_backfilled_in_one_run(dagster: Dagster, browser: webdriver.Chrome) -> None:
    assert launch(dagster, browser, "bronze/stores", "[2026-11-13...2026-11-14]") == "SUCCESS"
    assert launch(dagster, browser, "silver/stores", "[2026-11-13...2026-11-14]") == "SUCCESS"
    assert materialized_partitions(dagster, "silver", "stores") == 2


def test_checks_are_shown_with_their_verdict(dagster: Dagster, browser: webdriver.Chrome) -> None:
    browser.get(f"{dagster.url}/assets/silver/stores?view=checks")
    wait_for_text(browser, "This is a")
    wait_for_text(browser, "quarantined")
    assert "blocking" in browser.find_element(By.TAG_NAME, "body").text


def test_a_stream_that_stopped_turns_stale(dagster: Dagster, browser: webdriver.Chrome, silent_stream: str) -> None:
    """By its policy, without anybody asking."""
    dagster.wait_for("the stream to turn stale", lambda: health(dagster, "live", "orders_events") == "DEGRADED")
    browser.get(f"{dagster.url}/assets/{silent_stream}?view=overview")
    wait_until_shown(browser, "Freshness policy", "Failed")


@pytest.mark.usefixtures("dagster")
def test_nothing_listens_beyond_loopback() -> None:
    """The UI has no login of its own and the engine runs code: neither may be reachable from elsewhere."""
    me = psutil.Process()
    family = [me, *me.children(recursive=True)]
    keepers = [
        p
        for p in psutil.process_iter(["cmdline"])
        if "stream_assets.engine.keeper" in " ".join(p.info["cmdline"] or ())
    ]
    family += [q for p in keepers for q in (p, *p.children(recursive=True))]
    listening = [
        c for p in family if p.is_running() for c in p.net_connections("tcp") if c.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {c.laddr.ip for c in listening} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
