"""Steps in threads: at the same time, each for itself, with Dagster's own rules about failures, retries and gates."""

import _thread
import threading
import time
from collections.abc import Callable
from uuid import uuid4

import dagster as dg

from stream_assets.ops.executor import execute_here, thread_executor


def run(*assets: dg.AssetsDefinition) -> tuple[dg.DagsterRunStatus, list[dg.DagsterEvent]]:
    """Run all these assets; returns how the run ended and its events."""
    defs = dg.Definitions(assets=list(assets), executor=thread_executor)
    with dg.instance_for_test() as instance:
        run_id = str(uuid4())
        keys = {key for asset in assets for key in asset.keys}
        job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection=frozenset(keys))
        execute_here(job, instance, run_id=run_id, assets=keys, tags={}, config={})
        events = [log.dagster_event for log in instance.all_logs(run_id) if log.dagster_event]
        found = instance.get_run_by_id(run_id)
        assert found
        return found.status, events


def steps(events: list[dg.DagsterEvent], kind: str) -> set[str]:
    return {str(event.step_key) for event in events if event.event_type_value == kind}


def make(
    name: str, body: Callable[[], object], *, after: tuple[str, ...] = (), retries: int = 0
) -> dg.AssetsDefinition:
    @dg.asset(name=name, deps=list(after), retry_policy=dg.RetryPolicy(max_retries=retries) if retries else None)
    def it() -> None:
        body()

    return it


def boom() -> None:
    raise ValueError("boom")


def test_steps_run_at_the_same_time() -> None:
    """Each waits for the other: one after the other they would wait for ever."""
    meeting = threading.Barrier(2, timeout=20)
    status, events = run(make("a", meeting.wait), make("b", meeting.wait), make("c", lambda: None, after=("a", "b")))
    assert status == dg.DagsterRunStatus.SUCCESS
    assert steps(events, "STEP_SUCCESS") == {"a", "b", "c"}


def test_one_failure_stops_what_needs_it_and_nothing_else() -> None:
    status, events = run(
        make("bad", boom),
        make("good", lambda: None),
        make("after_bad", lambda: None, after=("bad",)),
        make("after_good", lambda: None, after=("good",)),
    )
    assert status == dg.DagsterRunStatus.FAILURE
    assert steps(events, "STEP_FAILURE") == {"bad"}
    assert steps(events, "STEP_SUCCESS") == {"good", "after_good"}
    assert not steps(events, "STEP_START") & {"after_bad"}


def test_a_step_is_tried_again() -> None:
    """While another goes on."""
    attempts: list[int] = []

    def flaky() -> None:
        attempts.append(1)
        if len(attempts) < 3:
            boom()

    status, events = run(make("flaky", flaky, retries=2), make("slow", lambda: time.sleep(0.5)))
    assert (status, len(attempts)) == (dg.DagsterRunStatus.SUCCESS, 3)
    assert steps(events, "STEP_UP_FOR_RETRY") == {"flaky"}


def test_a_gate_that_fails_stops_what_is_downstream() -> None:
    @dg.asset(check_specs=[dg.AssetCheckSpec("gate", asset="held", blocking=True)])
    def held():
        yield dg.MaterializeResult()
        yield dg.AssetCheckResult(passed=False, check_name="gate")

    status, events = run(held, make("free", lambda: None), make("stopped", lambda: None, after=("held",)))
    assert status == dg.DagsterRunStatus.FAILURE
    assert "stopped" not in steps(events, "STEP_START")
    assert "free" in steps(events, "STEP_SUCCESS")


def test_an_interrupt_reaches_the_steps() -> None:
    """As Ctrl-C does: the run ends soon, long before the step would have."""
    started = threading.Event()

    def wait_long() -> None:
        started.set()
        for _ in range(600):
            time.sleep(0.1)

    def interrupt() -> None:
        assert started.wait(20)
        _thread.interrupt_main()

    began = time.monotonic()
    status, events = run(make("long", wait_long), make("interrupts", interrupt))
    assert status == dg.DagsterRunStatus.FAILURE
    assert "long" in steps(events, "STEP_FAILURE")
    assert time.monotonic() - began < 30
