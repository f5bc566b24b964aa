"""Shows what was measured: tables with ratios, `results.json` and `results.png`."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib as mpl
import psutil
from rich.console import Console
from rich.table import Table

from bench.measure import Measurement
from bench.peers import CHECKS, PEER, PEER_BY_DAY, WITH, WITHOUT
from bench.scenarios import DUCK, DUCK_PRUNED, DUCK_REPLACE, FOUR_TIMES, ONCE, PYSPARK, STREAM
from bench.streams import Figure
from bench.verify import LAYERS

PACKAGES = (
    "stream-assets",
    "pyspark",
    "delta-spark",
    "dagster",
    "dbt-core",
    "dbt-spark",
    "duckdb",
    "deltalake",
    "pyarrow",
)
_RATIOS = (
    *[
        (f"Stream ÷ {way}, {scenario}", (scenario, STREAM), (scenario, way))
        for scenario in ("full", "day", "4x")
        for way in (PYSPARK, DUCK)
    ],
    *[(f"Stream ÷ {way}, day", ("day", STREAM), ("day", way)) for way in (DUCK_PRUNED, DUCK_REPLACE)],
    *[(f"day ÷ full, {way}", ("day", way), ("full", way)) for way in (STREAM, PYSPARK, DUCK)],
    *[(f"4x ÷ 1x, {way}", ("4x", way), ("full", way)) for way in (STREAM, PYSPARK, DUCK)],
    ("day on a history four times as long ÷ as it is", ("history", FOUR_TIMES), ("history", ONCE)),
    ("backfill as one range ÷ day by day", ("backfill", f"{STREAM}, one range"), ("backfill", f"{STREAM}, day by day")),
    (f"{PEER} ÷ Stream's checks", ("peers", PEER), ("peers", CHECKS)),
    (f"{PEER_BY_DAY} ÷ Stream's checks", ("peers", PEER_BY_DAY), ("peers", CHECKS)),
    ("with checks ÷ without, refining alone", ("peers", WITH), ("peers", WITHOUT)),
    ("one changed day ÷ full load", ("repair", STREAM), ("full", STREAM)),
    ("rules on ÷ off", ("checks", f"{STREAM}, rules on"), ("checks", f"{STREAM}, rules off")),
)
"""Name, numerator, denominator; each a (scenario, way)."""
_COLOURS = {STREAM: "#1f6feb", PYSPARK: "#e36209", DUCK: "#b8a000", PEER: "#8250df", PEER_BY_DAY: "#8250df"}


def ratios(results: Iterable[Measurement]) -> dict[str, dict[str, float]]:
    """Ratios of wall and of CPU time, where both sides were measured."""
    costs = {(m.scenario, m.way): m.cost for m in results}
    pairs = {name: (costs[a], costs[b]) for name, a, b in _RATIOS if a in costs and b in costs}
    return {
        name: {"wall": round(a.seconds / b.seconds, 3), "cpu": round(a.cpu_seconds / b.cpu_seconds, 3)}
        for name, (a, b) in pairs.items()
        if b.cpu_seconds
    }


def machine() -> dict[str, Any]:
    """The machine this ran on and the versions of what ran."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "load_average_at_start": [round(load, 2) for load in os.getloadavg()],
        "platform": platform.platform(),
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def show(console: Console, results: list[Measurement]) -> None:
    """Print both tables."""
    table = Table("scenario", "way", title="The same job, outputs verified equal", title_justify="left")
    for name in ("seconds", "CPU s", "rows", "rows/s", "peak MB", f"MB in {', '.join(LAYERS)}"):
        table.add_column(name, justify="right")
    for before, m in zip([None, *results], results, strict=False):
        if before and before.scenario != m.scenario:
            table.add_section()
        table.add_row(m.scenario, m.way, *_cells(m))
    console.print(table)
    for m in (m for m in results if m.note):
        console.print(f"[dim]{m.scenario}, {m.way}: {m.note}[/]")
    compared = Table("ratio", title="Side by side", title_justify="left")
    for name in ("wall", "CPU"):
        compared.add_column(name, justify="right")
    for name, ratio in ratios(results).items():
        compared.add_row(name, f"{ratio['wall']:.2f}", f"{ratio['cpu']:.2f}")
    console.print(compared)


def show_streams(console: Console, figures: Iterable[Figure]) -> None:
    """Print what was measured of streams, beside what it was to be."""
    table = Table("streams", title="Kafka, Stream and Spark on this machine; what is served equals what was produced")
    for name in ("measured", "wanted"):
        table.add_column(name, justify="right")
    for figure in figures:
        value = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:,.1f}"
        table.add_row(figure.name, f"{value} {figure.unit}", figure.target)
    console.print(table)


def _cells(m: Measurement) -> list[str]:
    sizes = " ".join(f"{m.layers[layer] / 1e6:,.1f}" for layer in LAYERS if m.layers)
    return [
        f"{m.cost.seconds:,.1f}",
        f"{m.cost.cpu_seconds:,.1f}",
        f"{m.rows:,}",
        f"{m.rows_per_second:,.0f}",
        f"{m.cost.peak_mb:,.0f}",
        sizes,
    ]


def write(folder: Path, results: list[Measurement], facts: dict[str, Any]) -> None:
    """Write results.json and results.png."""
    found = {"ratios": ratios(results), "results": [m.to_dict() for m in results]}
    document = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **facts, **found}
    (folder / "results.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if results:
        _plot(folder / "results.png", results)


def _plot(file: Path, results: list[Measurement]) -> None:
    """One panel per scenario, a bar per way: scenarios differ too much to share an axis."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    scenarios = list(dict.fromkeys(m.scenario for m in results))
    figure, axes = plt.subplots(
        len(scenarios), 1, figsize=(8, 0.6 + 1.5 * len(scenarios)), squeeze=False, layout="constrained"
    )
    for axis, scenario in zip(axes[:, 0], scenarios, strict=True):
        found = [m for m in results if m.scenario == scenario][::-1]
        bars = axis.barh(
            [m.way for m in found],
            [m.cost.seconds for m in found],
            color=[_COLOURS[m.way.split(",")[0]] for m in found],
        )
        axis.bar_label(bars, [f" {m.cost.seconds:,.1f} s" for m in found], fontsize=8)
        axis.set_title(f"{scenario}: {max(m.rows for m in found):,} rows", loc="left", fontsize=9)
        axis.tick_params(labelsize=8)
        axis.margins(x=0.15)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("seconds", fontsize=8)
    figure.savefig(file, dpi=150)
    plt.close(figure)
