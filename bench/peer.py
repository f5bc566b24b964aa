"""Great Expectations on Spark, held to the rules it is given: a process of its own that measures itself.

It is given typed records, kept in memory, and asked for counts alone: what costs it least. Start-up is not counted. It is asked twice:
for one verdict on everything, and for a verdict on each day, as Stream gives.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.plain_pyspark import open_spark
from stream_assets.settings import Settings

ROUNDS = 3
Verdicts = dict[str, dict[str, Any]]


def main() -> None:
    """`python -m bench.peer FOLDER-OF-PACKAGES INPUT RULES ANSWER`: validate, and write verdicts and costs."""
    packages, records, rules, answer = sys.argv[1:]
    sys.path.append(packages)  # last, so that what both need is ours
    spark = open_spark(Settings.from_env())
    rows = spark.read.parquet(records).persist()
    rows.count()
    days = sorted(row[0] for row in rows.select("_event_date").distinct().collect())
    validate = _validator(json.loads(Path(rules).read_text()))
    validate(rows)  # the first round is for the compiler
    rounds = [_measured(lambda: validate(rows)) for _ in range(ROUNDS)]
    by_day = _measured(lambda: {str(day): validate(rows.where(F.col("_event_date") == day)) for day in days})
    told = {"verdicts": rounds[-1][0], "costs": [cost for _, cost in rounds]}
    Path(answer).write_text(json.dumps({"all": told, "by day": {"verdicts": by_day[0], "costs": [by_day[1]]}}))
    spark.stop()


def _measured(work: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], dict[str, float]]:
    began, used = time.monotonic(), _cpu_seconds()
    found = work()
    return found, {"seconds": time.monotonic() - began, "cpu_seconds": _cpu_seconds() - used}


def _validator(rules: Verdicts) -> Callable[[DataFrame], Verdicts]:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx  # pyright: ignore[reportMissingImports]

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark("spark", persist=False).add_dataframe_asset("records")
    batches = asset.add_batch_definition_whole_dataframe("all")
    expectations = [
        getattr(gx.expectations, rule["expectation"])(meta={"rule": name}, **rule["arguments"])
        for name, rule in rules.items()
    ]
    suite = gx.ExpectationSuite("rules", expectations=expectations)

    def validate(rows: DataFrame) -> Verdicts:
        batch = batches.get_batch({"dataframe": rows})
        found = batch.validate(suite, result_format={"result_format": "BASIC", "partial_unexpected_count": 0})
        broken = [r for r in found.results if r.exception_info and r.exception_info.get("raised_exception")]
        if broken:
            raise RuntimeError(str(broken[0].exception_info))
        return {
            r.expectation_config.meta["rule"]: {"passed": r.success, "rows": r.result.get("unexpected_count")}
            for r in found.results
        }

    return validate


def _cpu_seconds() -> float:
    process = psutil.Process()
    times = [p.cpu_times() for p in (process, *process.children(recursive=True))]
    return sum(t.user + t.system for t in times)


if __name__ == "__main__":
    main()
