"""The scenarios: what is measured, in which order, and what must be equal afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from bench.data import Landing, Size, prepare_landing
from bench.measure import Cost, Measurement
from bench.verify import Fingerprint, check_answers, compare, fingerprint, layer_bytes
from bench.ways import Script, Stream

STREAM, PYSPARK, DUCK = "Stream", "PySpark", "DuckDB"
DUCK_PRUNED, DUCK_REPLACE = "DuckDB, told the days", "DuckDB, replacing"
BACKFILL_DAYS = 30
SINGLE_DAYS = 3
WARM_DAYS = 5
"""A warm engine is one that has loaded single days before: the JVM compiles what a day needs while it runs the first ones."""
ONCE, FOUR_TIMES = f"{STREAM}, history as it is", f"{STREAM}, four times as long"
MODULES = {PYSPARK: "bench.plain_pyspark", DUCK: "bench.duck"}


@dataclass
class Bench:
    """A run of the benchmark: where it works, how big, and what it found so far."""

    root: Path
    size: Size
    say: Callable[[str], None]
    results: list[Measurement] = field(default_factory=list)

    def landing(self, size: Size) -> Landing:
        """Deliveries, generated once."""
        self.say(f"Deliveries: {size.name} …")
        return prepare_landing(self.root / "data", size)

    def work(self, name: str) -> Path:
        """An empty folder for one way in one scenario."""
        folder = self.root / "work" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def record(
        self, scenario: str, way: str, cost: Cost, rows: int, *, lake: Path | None = None, note: str = ""
    ) -> None:
        """Keep a measurement and show it."""
        layers = layer_bytes(lake) if lake else {}
        found = Measurement(scenario, way, rows, cost, layers, note)
        self.results.append(found)
        self.say(
            f"{scenario:<10} {way:<18} {cost.seconds:8.1f} s  {found.rows_per_second:10,.0f} rows/s  {cost.peak_mb:6,.0f} MB"
        )


@contextmanager
def stream_at(bench: Bench, name: str, landing: Landing, *, rules: bool = True) -> Iterator[Stream]:
    """Stream, prepared; its server is stopped in the end."""
    stream = Stream(landing, bench.work(name), rules)
    stream.prepare()
    try:
        yield stream
    finally:
        stream.stop()


def run_history(bench: Bench, wanted: set[str]) -> None:
    """The full load, and on top of it the new day, the backfill and the repair of one changed day."""
    landing = bench.landing(bench.size)
    with stream_at(bench, "stream", landing) as stream:
        scripts = full(bench, "full", landing, stream)
        if wanted & {"day", "backfill", "repair"}:
            outputs = day(bench, landing, stream, scripts)
        if "backfill" in wanted:
            backfill(bench, landing, stream, before=outputs)
        if "repair" in wanted:
            repair(bench, landing, stream, before=outputs)


def full(bench: Bench, scenario: str, landing: Landing, stream: Stream) -> dict[str, Script]:
    """Load the whole history into empty lakes, with cold engines."""
    days = (landing.size.first_day, landing.size.last_day)
    rows = landing.rows_between(*days)
    bench.record(scenario, STREAM, stream.run(*days), rows, lake=stream.lake)
    scripts = {way: Script(module, landing, bench.work(f"{scenario}-{way}".lower())) for way, module in MODULES.items()}
    for way, script in scripts.items():
        bench.record(scenario, way, script.run("full", *days), rows, lake=script.lake)
    compare({STREAM: fingerprint(stream.lake)} | {way: fingerprint(script.lake) for way, script in scripts.items()})
    bench.say(f"{scenario:<10} outputs are equal")
    return scripts


def day(bench: Bench, landing: Landing, stream: Stream, scripts: dict[str, Script]) -> Fingerprint:
    """Add the delivery of one new day: Stream on its warm engine, the scripts as they would be started that day."""
    new = landing.size.new_day
    _warm(bench, landing, stream)
    rows = landing.rows_between(new, new)
    pyspark, duck = scripts[PYSPARK], scripts[DUCK]
    pruned, replacing = duck.copy(bench.work("duckdb-pruned")), duck.copy(bench.work("duckdb-replacing"))
    loads = (
        (
            STREAM,
            stream.lake,
            partial(stream.run, new, new),
            f"warm engine ({WARM_DAYS} days were loaded before); Dagster and checks included",
        ),
        (
            PYSPARK,
            pyspark.lake,
            partial(pyspark.run, "merge", new, new),
            "cold JVM; merges it into the days it can touch",
        ),
        (DUCK, duck.lake, partial(duck.run, "merge", new, new), "merges the day into the history by key"),
        (
            DUCK_PRUNED,
            pruned.lake,
            partial(pruned.run, "merge-pruned", new, new),
            "merges it into the days it can touch",
        ),
        (DUCK_REPLACE, replacing.lake, partial(replacing.run, "replace", new, new), "replaces the event days touched"),
    )
    for way, lake, load, note in loads:
        bench.record("day", way, load(), rows, lake=lake, note=note)
    found = {way: fingerprint(lake) for way, lake, _, _ in loads}
    compare(found)
    check_answers(found[STREAM], landing.answers)
    for script in (pruned, replacing):
        shutil.rmtree(script.root)
    bench.say("day        outputs are equal, and what the generator says they must be")
    return found[STREAM]


def _warm(bench: Bench, landing: Landing, stream: Stream) -> None:
    """Load the last days again, one by one."""
    for back in reversed(range(WARM_DAYS)):
        sent_again = landing.size.last_day - timedelta(days=back)
        rows = landing.rows_between(sent_again, sent_again)
        bench.record("warming", f"{STREAM}, day {WARM_DAYS - back}", _again(stream, sent_again, sent_again), rows)


def backfill(bench: Bench, landing: Landing, stream: Stream, *, before: Fingerprint) -> None:
    """Load days again whose files were sent again: as one range, then some of them one by one."""
    count = min(BACKFILL_DAYS, landing.size.days)
    days = [landing.size.last_day - timedelta(days=n) for n in reversed(range(count))]
    rows = landing.rows_between(days[0], days[-1])
    bench.record(
        "backfill", f"{STREAM}, one range", _again(stream, days[0], days[-1]), rows, note=f"{count} days in one run"
    )
    chosen = days[:: max(1, count // SINGLE_DAYS)][:SINGLE_DAYS]
    costs = [_again(stream, single, single) for single in chosen]
    note = f"{len(chosen)} days measured, times {count / len(chosen):.3g}"
    bench.record("backfill", f"{STREAM}, day by day", _times(costs, count / len(chosen)), rows, note=note)
    compare({"before": before, "after the backfill": fingerprint(stream.lake)})
    bench.say("backfill   outputs are unchanged")


def repair(bench: Bench, landing: Landing, stream: Stream, *, before: Fingerprint) -> None:
    """One delivery in the middle of history was sent again: find what is stale of it all, and make that."""
    day = landing.size.first_day + timedelta(days=landing.size.days // 2)
    stream.touch(day, day)
    (plan, run), made = stream.repair(landing.size.first_day, landing.size.last_day)
    note = f"{made} partitions in two layers and Gold; planning took {plan.seconds:.1f} s of it"
    bench.record("repair", STREAM, _times([plan, run], 1), landing.rows_between(day, day), note=note)
    compare({"before": before, "after the repair": fingerprint(stream.lake)})
    bench.say("repair     outputs are unchanged")


def _times(costs: list[Cost], factor: float) -> Cost:
    seconds, cpu_seconds = (
        factor * sum(values) for values in ([c.seconds for c in costs], [c.cpu_seconds for c in costs])
    )
    return Cost(seconds, cpu_seconds, max(c.peak_mb for c in costs))


def _again(stream: Stream, first: date, last: date) -> Cost:
    stream.touch(first, last)
    return stream.run(first, last)


def quadruple(bench: Bench) -> None:
    """The full load with four times the rows."""
    landing = bench.landing(bench.size.times(4))
    with stream_at(bench, "stream-4x", landing) as stream:
        scripts = full(bench, "4x", landing, stream)
    for at in (stream, *scripts.values()):
        shutil.rmtree(at.root)


def longer(bench: Bench) -> None:
    """One new day by Stream, on the history and on one four times as long: what a day costs must not grow with it."""
    for way, factor in ((ONCE, 1), (FOUR_TIMES, 4)):
        landing = bench.landing(bench.size.longer(factor))
        first, last, new = landing.size.first_day, landing.size.last_day, landing.size.new_day
        with stream_at(bench, f"stream-history-{factor}", landing) as stream:
            bench.record("loading", way, stream.run(first, last), landing.rows_between(first, last))
            _warm(bench, landing, stream)
            rows = landing.rows_between(new, new)
            bench.record("history", way, stream.run(new, new), rows, lake=stream.lake)
            check_answers(fingerprint(stream.lake), landing.answers)
        shutil.rmtree(stream.root)
    bench.say("history    outputs are what the generator says they must be")


def checks(bench: Bench) -> None:
    """The full load of faultless deliveries by Stream, with the contracts' rules and without them."""
    landing = bench.landing(replace(bench.size, faults=False))
    days = (landing.size.first_day, landing.size.last_day)
    rows, found = landing.rows_between(*days), {}
    for rules, name in ((True, "rules on"), (False, "rules off")):
        with stream_at(bench, f"stream-{name}".replace(" ", "-"), landing, rules=rules) as stream:
            bench.record("checks", f"{STREAM}, {name}", stream.run(*days), rows, lake=stream.lake)
            found[name] = fingerprint(stream.lake)
        shutil.rmtree(stream.root)
    compare(found)
    bench.say("checks     outputs are equal")
