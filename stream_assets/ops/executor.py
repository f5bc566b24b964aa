"""Runs the steps of a Dagster run in threads of one process.

A step mostly waits for Spark: for a plan, a commit, an answer. One process per step would cost seconds of imports each, and
one step after the other leaves cores unused that a second dataset could have. Dagster has no executor in between, and no
public way to write one: this is the only module that knows its private ones, for one exact version of it.
"""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.errors import raise_execution_interrupts
from dagster._core.execution.api import ExecuteRunWithPlanIterable
from dagster._core.execution.compute_logs import create_compute_log_file_key
from dagster._core.execution.context.system import PlanExecutionContext, StepExecutionContext
from dagster._core.execution.context_creation_job import PlanExecutionContextManager
from dagster._core.execution.execute_in_process import core_execute_in_process
from dagster._core.execution.plan.execute_plan import dagster_event_sequence_for_step
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.retries import RetryMode
from dagster._core.execution.step_dependency_config import StepDependencyConfig

WAIT_S = 0.5
"""How often the main thread looks for steps whose pause before a retry is over."""
_ENDED = object()
INTERRUPTS = (dg.DagsterExecutionInterruptedError.__name__, KeyboardInterrupt.__name__)


def execute_here(
    job: dg.JobDefinition,
    instance: dg.DagsterInstance,
    *,
    run_id: str,
    assets: Collection[dg.AssetKey],
    tags: Mapping[str, str],
    config: Mapping[str, Any],
) -> bool:
    """Run a job in this process with its own executor, which `JobDefinition.execute_in_process` would replace.

    Returns whether it went to its end, well or not: False if somebody interrupted it, which Dagster tells as a failure of no step.
    """
    done = core_execute_in_process(
        run_config=config,
        job=InMemoryJob(job),
        instance=instance,
        output_capturing_enabled=False,
        raise_on_error=False,
        run_tags=tags,
        run_id=run_id,
        asset_selection=frozenset(assets),
    )
    failed = next((event for event in done.all_events if event.is_job_failure), None)
    error = failed.job_failure_data.error if failed else None
    is_canceled = done.dagster_run.status is dg.DagsterRunStatus.CANCELED
    return not is_canceled and (error is None or error.cls_name not in INTERRUPTS)


@dg.executor(
    name="threads",
    config_schema={"max_concurrent": dg.Field(int, default_value=2, description="Steps that run at the same time.")},
    requirements=[],
)
def thread_executor(init_context: dg.InitExecutorContext) -> dg.Executor:
    """Steps in threads of the run's own process."""
    return ThreadExecutor(init_context.executor_config["max_concurrent"])  # pyright: ignore[reportArgumentType]


class ThreadExecutor(dg.Executor):
    """Starts every step whose inputs are ready, a few at a time."""

    def __init__(self, max_concurrent: int) -> None:
        self._max_concurrent = max_concurrent

    @property
    def retries(self) -> RetryMode:
        """Steps are tried again within the run."""
        return RetryMode.ENABLED

    @property
    def step_dependency_config(self) -> StepDependencyConfig:
        """A step starts when all steps before it ended well."""
        return StepDependencyConfig.default()

    def execute(self, plan_context: Any, execution_plan: ExecutionPlan) -> Iterator[dg.DagsterEvent]:
        """Run the plan; resources are made once for all its steps."""
        yield from iter(
            ExecuteRunWithPlanIterable(
                execution_plan=execution_plan,
                iterator=partial(_run_steps, max_concurrent=self._max_concurrent),
                execution_context_manager=PlanExecutionContextManager(
                    job=plan_context.job,
                    retry_mode=plan_context.retry_mode,
                    execution_plan=execution_plan,
                    run_config=plan_context.run_config,
                    dagster_run=plan_context.dagster_run,
                    instance=plan_context.instance,
                    raise_on_error=plan_context.raise_on_error,
                    output_capture=plan_context.output_capture,
                    step_dependency_config=self.step_dependency_config,
                ),
            )
        )


def _run_steps(
    job_context: PlanExecutionContext, execution_plan: ExecutionPlan, *, max_concurrent: int
) -> Iterator[dg.DagsterEvent]:
    told: queue.SimpleQueue[tuple[threading.Thread, Any]] = queue.SimpleQueue()
    running: dict[threading.Thread, str] = {}
    concurrency = InstanceConcurrencyContext(job_context.instance, job_context.dagster_run)
    logs = job_context.instance.compute_log_manager
    log_key = logs.build_log_key_for_run(job_context.run_id, create_compute_log_file_key())
    with (
        logs.capture_logs(log_key) as log_context,
        concurrency as instance_concurrency,
        execution_plan.start(
            retry_mode=job_context.retry_mode,
            instance_concurrency_context=instance_concurrency,
            step_dependency_config=job_context.step_dependency_config,
            max_concurrent=max_concurrent,
        ) as active,
    ):
        keys = [step.key for step in execution_plan.get_steps_to_execute_in_topo_order()]
        yield dg.DagsterEvent.capture_logs(job_context, keys, log_key, log_context)
        try:
            while running or not active.is_complete:
                for step in active.get_steps_to_execute():
                    context = job_context.for_step(step, active.get_known_state())
                    thread = threading.Thread(target=_run_step, args=(context, told), name=step.key)
                    running[thread] = step.key
                    thread.start()
                yield from active.concurrency_event_iterator(job_context)
                try:
                    with raise_execution_interrupts():
                        thread, event = told.get(timeout=WAIT_S)
                except queue.Empty:
                    continue
                if event is not _ENDED:
                    yield event
                    active.handle_event(event)
                    continue
                key = running.pop(thread)
                if key not in running.values():  # it may already be tried again
                    active.verify_complete(job_context, key)
                # What can no longer run because of this step is told as skipped.
                yield from active.plan_events_iterator(job_context)
        except BaseException:
            for thread in running:
                _interrupt(thread)
            for thread in running:
                thread.join(timeout=10)
            raise


def _run_step(context: StepExecutionContext, told: queue.SimpleQueue[tuple[threading.Thread, Any]]) -> None:
    me = threading.current_thread()
    with suppress(BaseException):  # the step's own events have told it, and the run goes on with the others
        for event in dagster_event_sequence_for_step(context):
            told.put((me, event))
    told.put((me, _ENDED))


def _interrupt(thread: threading.Thread) -> None:
    """Stop what a thread is doing, as Ctrl-C stops the main one: its step fails and says so."""
    error = ctypes.py_object(dg.DagsterExecutionInterruptedError)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), error)
