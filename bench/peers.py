"""What the checks cost, ours and a peer's, on the same records, rules and machine, both with a warm engine.

Ours are measured as what they add: refining with everything that is judged and counted, less typing, deduplicating and writing
alone. The peer is given the typed records in memory. Its verdict on every rule must be ours, or nothing is shown: on all days together,
and on each day, which is what ours are.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.job import SALT
from bench.measure import Cost, run_measured
from bench.scenarios import Bench, stream_at
from bench.ways import Stream, environment
from stream_assets.contracts.load import load_contracts
from stream_assets.contracts.model import Contract
from stream_assets.engine.log import read_ledger
from stream_assets.engine.session import kept, open_session
from stream_assets.quality.evaluate import FORMATS
from stream_assets.quality.judge import judge
from stream_assets.quality.rules import RECORD_RULES, Rule, build_rules
from stream_assets.settings import Settings
from stream_assets.silver.audit import judge_entries
from stream_assets.silver.conform import Spread, accepted, conform
from stream_assets.silver.publish import silver_table
from stream_assets.silver.refine import ROWS_PER_TASK, read_bronze, refine
from stream_assets.sources.changes import with_record

PEER, PEER_BY_DAY, PACKAGE = "Great Expectations", "Great Expectations, by day", "great-expectations"
WITH, WITHOUT, CHECKS = "Stream, with checks", "Stream, without", "Stream, checks alone"
ROUNDS = 3
_UNIQUE, _MIDDLE = "uniqueness", "distribution"
_BANDWIDTH = 0.35
"""How far the middle may move. A mean would not do: the peer sees the records that are rejected, absurd amounts among them."""
_EXPECTATIONS: dict[str, Callable[[Rule], tuple[str, dict[str, Any]]]] = {
    "required": lambda _: ("ExpectColumnValuesToNotBeNull", {}),
    "allowed": lambda rule: ("ExpectColumnValuesToBeInSet", {"value_set": list(rule.argument)}),
    "range": lambda rule: (
        "ExpectColumnValuesToBeBetween",
        {"min_value": rule.argument.get("minimum"), "max_value": rule.argument.get("maximum")},
    ),
    "length": lambda rule: (
        "ExpectColumnValueLengthsToBeBetween",
        {"min_value": rule.argument.get("minLength"), "max_value": rule.argument.get("maxLength")},
    ),
    "pattern": lambda rule: ("ExpectColumnValuesToMatchRegex", {"regex": rule.argument}),
    "format": lambda rule: ("ExpectColumnValuesToMatchRegex", {"regex": FORMATS[rule.argument]}),
}
_DISCOUNT = "consistency__record__discount_within_total"


@dataclass(frozen=True)
class Job:
    """The days of one dataset, and what is needed to refine them."""

    spark: SparkSession
    settings: Settings
    contract: Contract
    days: list[date]
    rows: int
    stream: Stream

    def refine(self) -> None:
        """Everything Stream does to make these days, checks included."""
        refine(self.spark, self.settings, self.contract, self.days, run_id="bench", salt=SALT, again=True)

    def write_only(self) -> None:
        """The same rows without anything that is judged or counted: typed, deduplicated, written."""
        bare, table = _without_rules(self.contract), silver_table(self.settings, self.contract)
        bronze = read_bronze(self.spark, bare, self.days)
        spread = Spread(1, 1 + self.rows // ROWS_PER_TASK)
        # Kept, as refining keeps them: otherwise the optimizer pushes filters down and parses again for each.
        with kept(conform(bronze, bare, headers=[], salt=SALT, spread=spread)) as rows:
            stamps = {"_run_id": F.lit("bench"), "_contract_version": F.lit(bare.version)}
            written = accepted(rows).withColumns(stamps).select(*table.columns).write.format("delta").mode("overwrite")
            written.partitionBy("_event_date").save(str(self.stream.root / "bare"))

    def measure(self, work: Callable[[], None]) -> Cost:
        """The median of some rounds, after one for the compiler; the engine's CPU time and ours."""
        work()
        costs = []
        for _ in range(ROUNDS):
            began, used = time.monotonic(), self._cpu_seconds()
            work()
            costs.append((time.monotonic() - began, self._cpu_seconds() - used))
        seconds, cpu_seconds = (statistics.median(values) for values in zip(*costs, strict=True))
        return Cost(seconds, cpu_seconds, 0)

    def _cpu_seconds(self) -> float:
        times = [psutil.Process(pid).cpu_times() for pid in (None, *self.stream.server())]
        return sum(t.user + t.system for t in times)


def peers(bench: Bench) -> None:
    """The checks of orders over the whole history: what they add to Stream, and what they cost the peer."""
    packages = _install(bench.root / "peers")
    landing = bench.landing(bench.size)
    with stream_at(bench, "peers", landing) as stream:
        stream.run(landing.size.first_day, landing.size.last_day)
        settings = Settings.from_env(stream.env())
        contract = load_contracts(settings.contracts)["orders"]
        days = [landing.size.first_day + timedelta(days=n) for n in range(landing.size.days)]
        entries = read_ledger(settings.table_path("silver", contract.name), days)
        rows = sum(entries[str(day)]["rows_in"] for day in days)
        job = Job(open_session(settings), settings, contract, days, rows, stream)
        ours = verdicts_of(contract, {str(day): entries[str(day)] for day in days})
        peer, found = _ask_peer(bench, job, packages, _rules(contract, _median(job)))
        _compare(ours, found["all"])
        for day, verdicts in found["by day"].items():
            _compare(_broken(contract, [entries[day]]), verdicts)
        full, bare = job.measure(job.refine), job.measure(job.write_only)
        job.spark.stop()
    for way, cost in ((WITH, full), (WITHOUT, bare)):
        bench.record("peers", way, cost, rows)
    added = Cost(full.seconds - bare.seconds, full.cpu_seconds - bare.cpu_seconds, 0)
    if min(added.seconds, added.cpu_seconds) > 0:
        bench.record(
            "peers", CHECKS, added, rows, note="refining less writing: rules, counts, profiles, quarantine, ledger"
        )
    else:
        bench.say("peers      what the checks add is lost in the noise of this size or machine: no ratio")
    bench.record("peers", PEER, peer["all"], rows, note=_peer_note(found["all"]))
    bench.record("peers", PEER_BY_DAY, peer["by day"], rows, note=f"the same, {len(found['by day'])} times")
    bench.say("peers      verdicts are equal")


def verdicts_of(contract: Contract, entries: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What Stream says of these days: rows per rule, and whether keys are unique and amounts stay as they are."""
    landed = {day: entry["rows_in"] for day, entry in entries.items()}
    outcomes = {o.name: o.passed for o in judge_entries(contract, entries, entries, landed)}
    duplicates = sum(entry["duplicates"] for entry in entries.values())
    return {
        **_broken(contract, entries.values()),
        _UNIQUE: {"passed": not duplicates},
        _MIDDLE: {"passed": outcomes["distribution__total_cents__drift"]},
    }


def _broken(contract: Contract, entries: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """How many records of these days break each rule of a record."""
    rules = [rule.id for rule in build_rules(contract) if rule.check in _EXPECTATIONS] + [_DISCOUNT]
    counts = Counter[str]()
    for entry in entries:
        counts.update(entry["violations"])
    return {rule: {"passed": not counts[rule], "rows": counts[rule]} for rule in rules}


def _rules(contract: Contract, usual: float) -> dict[str, dict[str, Any]]:
    """The same rules in the peer's words."""
    rules = {}
    for rule in build_rules(contract):
        if rule.check in _EXPECTATIONS:
            name, arguments = _EXPECTATIONS[rule.check](rule)
            rules[rule.id] = {"expectation": name, "arguments": {"column": rule.column, **arguments}}
    pair = {"column_A": "total_cents", "column_B": "discount_cents", "or_equal": True}
    rules[_DISCOUNT] = {"expectation": "ExpectColumnPairValuesAToBeGreaterThanB", "arguments": pair}
    key = {"column_list": [*contract.key, "_event_date"]}
    rules[_UNIQUE] = {"expectation": "ExpectCompoundColumnsToBeUnique", "arguments": key}
    around = {"column": "total_cents", "min_value": usual * (1 - _BANDWIDTH), "max_value": usual * (1 + _BANDWIDTH)}
    rules[_MIDDLE] = {"expectation": "ExpectColumnMedianToBeBetween", "arguments": around}
    return rules


def _median(job: Job) -> float:
    """The middle of the accepted amounts."""
    return job.spark.table("silver.orders").agg(F.median("total_cents")).collect()[0][0]


def _ask_peer(
    bench: Bench, job: Job, packages: Path, rules: dict[str, Any]
) -> tuple[dict[str, Cost], dict[str, dict[str, Any]]]:
    """What it cost the peer and what it found, for all days together and for each."""
    folder = bench.work("peer")
    _write_records(job, folder / "records")
    (folder / "rules.json").write_text(json.dumps(rules))
    paths = [folder / name for name in ("records", "rules.json", "answer.json")]
    command = [sys.executable, "-m", "bench.peer", str(packages), *map(str, paths)]
    run_measured(command, env=environment(), log=folder / "peer.log")
    answer = json.loads((folder / "answer.json").read_text())
    costs = {
        way: Cost(*(statistics.median(c[name] for c in told["costs"]) for name in ("seconds", "cpu_seconds")), 0)
        for way, told in answer.items()
    }
    return costs, {way: told["verdicts"] for way, told in answer.items()}


def _write_records(job: Job, folder: Path) -> None:
    """Every record that could be read and typed: the peer judges typed columns only."""
    unfit = [rule.id for rule in build_rules(job.contract) if rule.check in ("type", "window")]
    judged = judge(with_record(read_bronze(job.spark, job.contract, job.days), job.contract, []), job.contract)
    is_unfit = F.arrays_overlap("_violations", F.array(*map(F.lit, (*RECORD_RULES, *unfit))))
    rows = judged.where(~F.coalesce(is_unfit, F.lit(False)))
    columns = [column.name for column in job.contract.record]
    rows.select(*columns, "_event_date").repartition(4).write.parquet(str(folder))


def _without_rules(contract: Contract) -> Contract:
    """The contract without anything a record could break but its form and its types."""
    columns = tuple(replace(c, required=False, options={}, allowed=()) for c in contract.columns)
    return replace(contract, columns=columns, expressions=(), check_settings=())


def _compare(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Raise unless both say the same of every rule."""
    differ = {
        rule: (verdict, theirs[rule])
        for rule, verdict in ours.items()
        if any(theirs[rule][name] != value for name, value in verdict.items())
    }
    if differ:
        raise AssertionError(f"Stream and {PEER} do not agree: {differ}")


def _peer_note(found: dict[str, Any]) -> str:
    return f"{len(found)} rules, typed records in memory, counts only; start not counted"


def _install(folder: Path) -> Path:
    """The peer's packages, in a folder of their own: Stream does not depend on them."""
    if not (folder / PACKAGE.replace("-", "_")).is_dir():
        uv = shutil.which("uv")
        tool = [uv, "pip", "install"] if uv else [sys.executable, "-m", "pip", "install"]
        subprocess.run([*tool, "--quiet", "--target", str(folder), PACKAGE], check=True)
    return folder
