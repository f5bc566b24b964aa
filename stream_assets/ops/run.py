"""Runs a range of days headless: Bronze first, then Silver and Gold of that range and of every older day its late data belongs to."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from typing import Any
from uuid import uuid4

import dagster as dg
from deltalake.exceptions import DeltaError

from stream_assets.bronze.assets import touched_days
from stream_assets.contracts.load import ContractSet, load_contracts
from stream_assets.engine.delta import day_ranges
from stream_assets.errors import InterruptedRunError, StreamError
from stream_assets.keys import AGAIN, daily_partitions, known_days
from stream_assets.ops.automation import range_tags
from stream_assets.ops.backfill.instance import COLD, is_cold, is_gold_current, open_lake
from stream_assets.ops.backfill.missed import missed_days
from stream_assets.ops.backfill.stale import Lake, Scope
from stream_assets.ops.choose import choose_assets, only_landed, unaffected_gold, unmade_silver
from stream_assets.ops.executor import execute_here
from stream_assets.ops.instance import read_instance
from stream_assets.ops.prepare import prepare_home
from stream_assets.ops.processes import PROCESS, this_process
from stream_assets.ops.report import gather_report, store_report
from stream_assets.resources import open_instance
from stream_assets.settings import Settings

Report = Callable[[str, str, dict[str, Any]], None]
"""Called as work goes on: asset, state (started, done, failed, skipped, current), facts."""
OUR_ERROR = re.compile(r"^stream_assets\.[\w.]+: ")
"""What Python puts before the message of an error of ours, which says all by itself."""


@dataclass
class ExecutionResult:
    """What a run did, as people and machines read it."""

    run_ids: list[str] = field(default_factory=list)
    status: str = "success"
    """success, failure, or canceled if somebody stopped it."""
    started_at: str = ""
    duration_seconds: float = 0.0
    rows_processed: int = 0
    days: list[str] = field(default_factory=list)
    assets: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Per asset: rows, days, seconds."""
    current: list[str] = field(default_factory=list)
    """Assets that were up to date, so that nothing was done."""
    checks: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, str]] = field(default_factory=list)
    broken_contracts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a person should know though nothing failed."""
    quality_score: float | None = None
    """Of everything, not only of what this run made."""
    quality_report: str = ""
    """Where the page is; empty if none could be made."""

    @property
    def failed_gates(self) -> list[dict[str, Any]]:
        """Checks that stopped what is downstream."""
        return [check for check in self.checks if not check["passed"] and check["is_gate"]]

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.started_at.replace(':', '')}-{self.run_ids[0][:8] if self.run_ids else 'none'}"

    def to_json(self) -> str:
        """The result as stored."""
        return json.dumps(asdict(self), indent=2, sort_keys=True)


def run_range(
    settings: Settings,
    defs: dg.Definitions,
    first: date,
    last: date,
    *,
    select: str | None,
    report: Report,
    again: bool = False,
) -> ExecutionResult:
    """Materialize a range of days in as few runs as possible. With `again`, what is up to date is made anew too."""
    started = time.monotonic()
    result = ExecutionResult(started_at=datetime.now(UTC).isoformat(timespec="seconds"))
    prepare_home(settings)
    contracts = load_contracts(settings.contracts)
    work = _choose(settings, defs, contracts, (first, last), select)
    result.notes = work.notes
    with open_instance(settings) as instance:
        tags = {"stream/command": "run", **({AGAIN: "true"} if again else {})}
        try:
            days = _execute(Runner(settings, defs, instance, result, report, tags), work, again=again)
        except InterruptedRunError as error:
            days, result.status = work.days, "canceled"
            result.errors.append({"step": "run", "error": str(error)})
    result.days = [day.isoformat() for day in sorted(days)]
    result.duration_seconds = round(time.monotonic() - started, 2)
    result.rows_processed = sum(facts["rows"] for name, facts in result.assets.items() if name.startswith("bronze/"))
    if result.status != "canceled":
        result.status = "failure" if result.errors or result.failed_gates else "success"
    _report_quality(settings, defs, contracts, result, report)
    _store(settings, result)
    return result


@dataclass(frozen=True)
class _Work:
    """What was asked for, as far as it can be made."""

    graph: Any
    wanted: set[dg.AssetKey]
    days: set[date]
    partitions: dg.DailyPartitionsDefinition
    notes: list[str]


def _choose(
    settings: Settings, defs: dg.Definitions, contracts: ContractSet, span: tuple[date, date], select: str | None
) -> _Work:
    graph = defs.resolve_asset_graph()
    notes, wanted = _advise(settings, graph, choose_assets(graph, contracts, select))
    days = {date.fromordinal(n) for n in range(span[0].toordinal(), span[1].toordinal() + 1)}
    partitions = daily_partitions(contracts.values())
    if strange := days - known_days(partitions, days):
        raise StreamError(f"{min(strange)} is outside of history: the contracts' historyStart to today.")
    return _Work(graph, wanted, days, partitions, notes)


def _execute(runner: Runner, work: _Work, *, again: bool) -> set[date]:
    """Bronze, then the rest of these days and of those that Bronze touched, now or when nobody went on. Returns all of them."""
    days, result, lake = work.days, runner.result, None
    bronze = {key for key in work.wanted if key.path[0] == "bronze"}
    rest = work.wanted - bronze
    if bronze:
        days = known_days(work.partitions, days | runner.execute(bronze, min(days), max(days)))
    if bronze and rest:
        lake, asked = runner.look(), Scope(min(work.days), max(work.days))
        missed = missed_days(lake, {key.to_user_string() for key in work.wanted}, asked)
        days = known_days(work.partitions, days | missed)
    for first, last in day_ranges(days) if rest else ():
        errors, gates = len(result.errors), len(result.failed_gates)
        runner.execute(rest if again else runner.due(rest, first, last, lake), first, last)
        lake = None  # its logs were read before that
        failed = failed_datasets(result.errors[errors:], result.failed_gates[gates:])
        # Gold is one step below all of Silver, so one bad dataset skipped it: what is made of others goes on.
        if failed and (spared := unaffected_gold(work.graph, rest, failed)):
            runner.execute(spared, first, last)
    return days


def _advise(settings: Settings, graph: Any, wanted: set[dg.AssetKey]) -> tuple[list[str], set[dg.AssetKey]]:
    """What to tell a person of their selection, and the selection without Gold that cannot be made yet."""
    notes, waiting = [], set[dg.AssetKey]()
    if unmade := sorted(unmade_silver(settings, graph, wanted)):
        waiting = {key for key in wanted if key.path[0] == "gold"} - unaffected_gold(graph, wanted, unmade)
        tables = f"{len(waiting)} table{'s' * (len(waiting) > 1)}"
        notes.append(
            f"Gold: {tables} not made, for there is no Silver yet of {', '.join(unmade)}. `stream run` makes all."
        )
    if landed := only_landed(graph, wanted):
        again = f"stream run --select {landed[0]}" if len(landed) == 1 else "stream run"
        notes.append(f"Only landed, as selected: {', '.join(landed)}. `{again}` goes on to Silver and Gold.")
    return notes, wanted - waiting


def failed_datasets(errors: Iterable[Mapping[str, str]], gates: Iterable[Mapping[str, Any]]) -> set[str]:
    """Datasets whose Silver was not made, by their failed steps and gates."""
    steps = {error["step"].removeprefix("refine_") for error in errors if error["step"].startswith("refine_")}
    layers = [gate["asset"].split("/") for gate in gates]
    return steps | {name for layer, name in layers if layer == "silver"}


@dataclass(frozen=True)
class Runner:
    """Executes Dagster runs one after the other and takes down what they tell."""

    settings: Settings
    defs: dg.Definitions
    instance: dg.DagsterInstance
    result: ExecutionResult
    report: Report
    tags: Mapping[str, str]
    """Put on every run, beside its days and its process."""
    steps_at_once: int = 2

    def execute(self, keys: set[dg.AssetKey], first: date, last: date) -> set[date]:
        """One Dagster run over a range. Returns the event days that its Bronze loads touched.

        Raises:
            InterruptedRunError: Somebody stopped it (Ctrl-C, SIGTERM): nothing that comes after may be begun.
        """
        if not keys:
            return set()
        run_id = str(uuid4())
        touched: set[date] = set()
        one_at_a_time = threading.Lock()

        def listen(entry: dg.EventLogEntry) -> None:
            with one_at_a_time:
                touched.update(_note(entry, self.result, self.report))

        self.instance.add_event_listener(run_id, listen)
        self.result.run_ids.append(run_id)
        job = self.defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection=frozenset(keys))
        with _quietly(self.settings, run_id):
            is_complete = execute_here(
                job,
                self.instance,
                run_id=run_id,
                assets=keys,
                tags={
                    **range_tags(first, last),
                    **self.tags,
                    PROCESS: this_process(),
                    **({COLD: "true"} if is_cold(self.settings) else {}),
                },
                config={
                    "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
                    "execution": {"config": {"max_concurrent": self.steps_at_once}},
                },
            )
        if not is_complete:
            raise InterruptedRunError("Interrupted. What was committed stays; run it again to go on.")
        return touched

    def look(self) -> Lake:
        """The lake as it is now."""
        return open_lake(self.settings, self.instance)

    def due(self, keys: set[dg.AssetKey], first: date, last: date, lake: Lake | None = None) -> set[dg.AssetKey]:
        """These assets, without Gold if building it would change nothing. The other layers see that by themselves."""
        gold = {key for key in keys if key.path[0] == "gold"}
        if not gold or not self._is_current(lake or self.look(), first, last):
            return keys
        self.report("build_gold", "current", {})
        self.result.current.extend(sorted(key.to_user_string() for key in gold))
        return keys - gold

    def _is_current(self, lake: Lake, first: date, last: date) -> bool:
        """Whether Gold is known to be up to date. A table whose log cannot be read is told by its own step, not here."""
        try:
            return is_gold_current(lake, self.defs, self.instance, first, last)
        except DeltaError:
            return False


@contextmanager
def _quietly(settings: Settings, run_id: str) -> Iterator[None]:
    """Send what dbt prints to a file beside the reports; the events of the run say what a person needs."""
    folder = settings.home / "reports" / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{run_id}.log").open("w") as log, redirect_stdout(log):
        yield


def _note(entry: dg.EventLogEntry, result: ExecutionResult, report: Report) -> set[date]:
    """Take down one event of a run; returns touched event days, if it tells any."""
    event = entry.dagster_event
    if event is None:
        return set()
    step = event.step_key or ""
    if event.event_type_value == "STEP_START":
        report(step, "started", {})
    elif event.event_type_value == "STEP_SUCCESS":
        report(step, "done", {"seconds": event.step_success_data.duration_ms / 1000})
    elif event.event_type_value == "STEP_SKIPPED":
        report(step, "skipped", {})
    elif event.event_type_value in ("STEP_FAILURE", "RUN_FAILURE"):
        _note_failure(event, step, result, report)
    elif event.event_type_value == "ASSET_CHECK_EVALUATION":
        _note_check(event.asset_check_evaluation_data, result)
    elif event.event_type_value == "ASSET_MATERIALIZATION":
        return _note_materialization(event, entry.run_id, result, report)
    return set()


def _note_failure(event: dg.DagsterEvent, step: str, result: ExecutionResult, report: Report) -> None:
    data = event.event_specific_data
    error = getattr(data, "error", None)
    if step:
        message = _root_message(error)
        result.errors.append({"step": step, "error": message})
        report(step, "failed", {"error": message})


def _root_message(error: Any) -> str:
    """The first line of the deepest cause: what a person needs first."""
    while error is not None and getattr(error, "cause", None) is not None:
        error = error.cause
    if error is None:
        return "failed"
    first, *more = OUR_ERROR.sub("", str(error.message).strip()).splitlines()
    # A line that ends so announces a list.
    return " ".join([first, *(more if first.endswith(":") else ())])[:500]


def _note_check(evaluation: Any, result: ExecutionResult) -> None:
    result.checks.append(
        {
            "asset": evaluation.asset_key.to_user_string(),
            "check": evaluation.check_name,
            "passed": evaluation.passed,
            "severity": evaluation.severity.value,
            "is_gate": evaluation.blocking or False,
            "summary": evaluation.description or "",
        }
    )


def _note_materialization(event: dg.DagsterEvent, run_id: str, result: ExecutionResult, report: Report) -> set[date]:
    """Dagster repeats one materialization per partition of a range; the counts are of the whole range, so the first tells all."""
    materialization = event.step_materialization_data.materialization
    name = materialization.asset_key.to_user_string()
    counts = {key: value.value for key, value in materialization.metadata.items() if isinstance(value.value, int)}
    rows = counts.get("dagster/partition_row_count") or counts.get("dagster/row_count") or 0
    facts = result.assets.setdefault(name, {"rows": 0, "days": 0, "runs": []})
    facts["days"] += 1
    if run_id not in facts["runs"]:
        facts["runs"].append(run_id)
        report(name, "rows", {"rows": rows, "step": event.step_key})
        for count, number in {
            "rows": rows,
            **{c: counts[c] for c in ("quarantined", "duplicates") if c in counts},
        }.items():
            facts[count] = facts.get(count, 0) + number
    return touched_days(materialization)


def _report_quality(
    settings: Settings, defs: dg.Definitions, contracts: ContractSet, result: ExecutionResult, report: Report
) -> None:
    """Write the quality report. A lake that only Spark can reach has none, and the run stands without it."""
    now = datetime.now(UTC)
    facts = read_instance(settings, defs, since=now)
    try:
        made = gather_report(settings, contracts.values(), facts.checks, now)
    except (DeltaError, OSError) as error:
        message = next(iter(str(error).splitlines()), type(error).__name__)
        report("quality report", "failed", {"error": message[:500]})
        return
    result.quality_score = made.score
    result.quality_report = str(store_report(settings, made, name=result.name))


def _store(settings: Settings, result: ExecutionResult) -> None:
    """Keep the result where reports are, the newest also under a fixed name."""
    folder = settings.home / "reports" / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    text = result.to_json()
    for name in (result.name, "latest"):
        (folder / f"{name}.json").write_text(text)
