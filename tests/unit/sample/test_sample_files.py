"""The files of a landing zone: reproducible, whole, in the layout and formats the contracts announce."""

import csv
import gzip
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_assets.sample import read_manifest, write_sample

EXTENSIONS = {
    "orders": "jsonl",
    "payments": "jsonl.gz",
    "web_events": "jsonl.zst",
    "order_items": "csv.gz",
    "customers": "jsonl",
    "stores": "csv",
    "campaigns": "parquet",
}


def contents(landing: Path) -> dict[str, bytes]:
    return {str(path.relative_to(landing)): path.read_bytes() for path in landing.rglob("*") if path.is_file()}


def headers(landing: Path) -> Iterator[list[str]]:
    for path in sorted((landing / "order_items").rglob("*.csv.gz")):
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as lines:
            yield next(csv.reader(lines))


def test_same_arguments_give_identical_bytes(sample, arguments, tmp_path) -> None:
    """A sample is a function of its arguments."""
    write_sample(tmp_path, **arguments)
    assert contents(tmp_path) == contents(sample.landing)


def test_another_seed_gives_another_world(sample, arguments, tmp_path) -> None:
    """The seed decides, so two seeds differ in every file that is not a fixed list."""
    write_sample(tmp_path, **arguments | {"seed": 12})
    ours, theirs = contents(sample.landing), contents(tmp_path)
    assert not [name for name in ours if name.startswith("orders/") and ours[name] == theirs[name]]


def test_longer_history_begins_with_the_same_files(sample, arguments, tmp_path) -> None:
    """One more day adds a delivery and leaves the others as they were."""
    write_sample(tmp_path, **arguments | {"days": arguments["days"] + 1, "end": arguments["end"] + timedelta(days=1)})
    longer = contents(tmp_path)
    assert {name: longer[name] for name in contents(sample.landing) if name != "manifest.json"} == {
        name: content for name, content in contents(sample.landing).items() if name != "manifest.json"
    }


def test_every_dataset_is_delivered_every_day(sample, arguments) -> None:
    """One complete file per dataset and day, and nothing unfinished beside it."""
    days = [arguments["end"] - timedelta(days=back) for back in range(arguments["days"])]
    expected = {f"{name}/{day}/part-0.{ending}" for name, ending in EXTENSIONS.items() for day in days}
    assert set(contents(sample.landing)) == expected | {"manifest.json"}


def test_column_order_differs_on_some_days(sample) -> None:
    """A CSV delivery is read by its header, not by position."""
    orders = list(headers(sample.landing))
    assert len({tuple(order) for order in orders}) == 2
    assert len({frozenset(order) for order in orders}) == 1


def test_parquet_columns_are_typed(sample, arguments) -> None:
    """Campaigns arrive with real dates and integers."""
    schema = pq.read_schema(sample.landing / "campaigns" / arguments["end"].isoformat() / "part-0.parquet")
    assert [schema.field(name).type for name in ("started_on", "budget_cents")] == [pa.date32(), pa.int64()]


def test_manifest_survives_the_disk(sample) -> None:
    """What is returned is what is written."""
    assert read_manifest(sample.landing) == sample.manifest


@pytest.mark.parametrize("wrong", [{"days": 0}, {"scale": 0.0}, {"seed": -1}])
def test_nonsense_is_refused(wrong, tmp_path) -> None:
    """Arguments that cannot make a sample are named in the error, and nothing is written."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        write_sample(tmp_path, **{"days": 1, "end": date(2025, 1, 1), "scale": 0.1, "seed": 1} | wrong)
    assert not list(tmp_path.iterdir())
