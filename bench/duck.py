"""The job with DuckDB and delta-rs, as somebody who needs no cluster would write it.

`full` loads a range of deliveries; `merge`, `merge-pruned` and `replace` add one: by merging it into the history of Silver by
key, by merging it into the few days it can touch, or by computing those again from Bronze and replacing them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from bench.job import CUSTOMER_METRICS, DAILY_REVENUE, DATASETS, ENVELOPE, Dataset, Load, read_arguments

SETTINGS = "set memory_limit = '3GB'; set preserve_insertion_order = false; set timezone = 'UTC'"
"""As much memory as the Spark of the other two ways gets."""
BRONZE = pa.schema(
    {
        "_raw": pa.string(),
        "_raw_bytes": pa.binary(),
        "_source": pa.string(),
        "_position": pa.int64(),
        "_delivery_date": pa.date32(),
    }
)
MACROS = """
    create macro rlike(text, pattern) as regexp_matches(text, pattern);
    create macro sha2(text, bits) as sha256(text);
"""
MASK = "array_to_string(list_transform(string_split({0}, ' '), lambda word: left(word, 1) || repeat('*', length(word) - 1)), ' ')"


def main() -> None:
    """Run what the command line asks for."""
    load, mode = read_arguments(("full", *ADD))
    con = duckdb.connect()
    con.execute(f"{SETTINGS}; set temp_directory = '{load.lake}/.scratch'; {MACROS}")
    for dataset in DATASETS:
        land(load, dataset, is_new=mode == "full")
        ADD.get(mode, write_all)(con, load, dataset)
    aggregate(con, load, is_new=mode == "full")


def land(load: Load, dataset: Dataset, *, is_new: bool) -> None:
    """Keep every line as received, with its file and number."""
    lines = pa.RecordBatchReader.from_batches(BRONZE, _read_files(load, dataset))
    _write(
        load.table("bronze", dataset.name),
        lines,
        "_delivery_date",
        None if is_new else f"_delivery_date = '{load.last}'",
    )


def _read_files(load: Load, dataset: Dataset) -> Iterator[pa.RecordBatch]:
    for day, file in zip(load.delivery_days(), load.files(dataset), strict=True):
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        lines, broken = content.removesuffix(b"\n").split(b"\n"), {}
        try:
            content.decode()
        except UnicodeDecodeError:  # a few lines of a few files: only then is it worth looking at each
            broken = {at: line for at, line in enumerate(lines) if line.decode(errors="replace").encode() != line}
            lines = [line.decode(errors="replace").encode() for line in lines]
        yield pa.record_batch(
            [
                pa.array(lines, pa.string()),
                pa.array([broken.get(at) for at in range(len(lines))] if broken else pa.nulls(len(lines)), pa.binary()),
                pa.repeat(str(file.relative_to(load.landing)), len(lines)),
                range(1, len(lines) + 1),
                pa.repeat(pa.scalar(day, pa.date32()), len(lines)),
            ],
            schema=BRONZE,
        )


def conform(con: duckdb.DuckDBPyConnection, load: Load, dataset: Dataset, days: tuple[str, str]) -> None:
    """Make the table `conformed`: the records delivered on these days, typed and judged."""
    fields = {source: "VARCHAR" for source, _ in ENVELOPE.values()} | {"data": dict.fromkeys(dataset.data, "VARCHAR")}
    texts = [f"r.{source} as {name}" for name, (source, _) in ENVELOPE.items()] + [
        f"r.data.{name} as {name}" for name in dataset.data
    ]
    con.execute(
        f"""
        create or replace temp table conformed as
        with parsed as (
            select *, case when _raw_bytes is null and json_valid(_raw) then _raw end as sound
            from {_read(load.table("bronze", dataset.name))} where _delivery_date between date '{days[0]}' and date '{days[1]}'
        ),
        fields as (
            select * exclude (sound), json_transform(sound, '{json.dumps(fields)}') as r,
                len(json_keys(sound, '$.data')) = len(list_distinct(json_keys(sound, '$.data'))) as has_distinct_keys
            from parsed
        ),
        typed as (
            select _raw, _raw_bytes, _source, _position, _delivery_date, has_distinct_keys, {", ".join(dataset.typed(timestamp="timestamptz"))}
            from (select *, {", ".join(texts)} from fields)
        )
        select * exclude (_raw, _raw_bytes), coalesce(has_distinct_keys and {dataset.is_valid}, false) as is_valid,
            if(is_valid, null, _raw) as _raw, if(is_valid, null, _raw_bytes) as _raw_bytes
        from typed
        """
    )


def _silver(dataset: Dataset, where: str = "true") -> str:
    return f"""
        select {", ".join(dataset.protected(MASK))}, _source, _position, _delivery_date, _event_date
        from conformed where is_valid and {where} qualify {dataset.latest} = 1
    """


def _quarantine(where: str = "true") -> str:
    return f"select _raw, _raw_bytes, _source, _position, _delivery_date from conformed where not is_valid and {where}"


def write_all(con: duckdb.DuckDBPyConnection, load: Load, dataset: Dataset) -> None:
    """Make Silver and quarantine of a whole history."""
    conform(con, load, dataset, (str(load.first), str(load.last)))
    _write(load.table("silver", dataset.name), _stream(con, _silver(dataset)), "_event_date")
    _write(load.table("quarantine", dataset.name), _stream(con, _quarantine()), "_delivery_date")


def merge_history(con: duckdb.DuckDBPyConnection, load: Load, dataset: Dataset) -> None:
    """Merge one delivery into Silver by key alone: any row of the history may be the one to update."""
    _merge(con, load, dataset, "true")


def merge_pruned(con: duckdb.DuckDBPyConnection, load: Load, dataset: Dataset) -> None:
    """Merge one delivery into Silver, knowing how late a record may be: delta-rs then skips the rest of the history."""
    days = load.event_days()
    within = f"t._event_date between '{days['first']}' and '{days['last']}'"
    _merge(con, load, dataset, f"t._event_date = s._event_date and {within}")


def _merge(con: duckdb.DuckDBPyConnection, load: Load, dataset: Dataset, where: str) -> None:
    conform(con, load, dataset, (str(load.last), str(load.last)))
    merge = DeltaTable(load.table("silver", dataset.name)).merge(
        _stream(con, _silver(dataset)).read_all(),
        f"t.{dataset.key} = s.{dataset.key} and {where}",
        source_alias="s",
        target_alias="t",
    )
    merge.when_matched_update_all("s.updated_at >= t.updated_at").when_not_matched_insert_all().execute()
    _replace_quarantine(con, load, dataset)


def replace_days(con: duckdb.DuckDBPyConnection, load: Load, dataset: Dataset) -> None:
    """Compute the event days that one delivery touches again, and replace them."""
    touched = load.event_days()
    conform(con, load, dataset, (touched["first"], str(load.last)))
    in_days = f"_event_date between '{touched['first']}' and '{touched['last']}'"
    _write(
        load.table("silver", dataset.name),
        _stream(con, _silver(dataset, in_days)),
        "_event_date",
        _bounds("_event_date", touched),
    )
    _replace_quarantine(con, load, dataset)


def _replace_quarantine(con: duckdb.DuckDBPyConnection, load: Load, dataset: Dataset) -> None:
    rows = _stream(con, _quarantine(f"_delivery_date = date '{load.last}'"))
    _write(load.table("quarantine", dataset.name), rows, "_delivery_date", f"_delivery_date = '{load.last}'")


def aggregate(con: duckdb.DuckDBPyConnection, load: Load, *, is_new: bool) -> None:
    """Bring both aggregates up to date."""
    con.execute(f"create view silver_orders as select * from {_read(load.table('silver', 'orders'))}")
    touched = load.event_days()
    revenue = _stream(con, DAILY_REVENUE.format(**touched))
    _write(
        load.table("gold", "daily_revenue"), revenue, "order_date", None if is_new else _bounds("order_date", touched)
    )
    _write(load.table("gold", "customer_metrics"), _stream(con, CUSTOMER_METRICS))


def _bounds(column: str, days: dict[str, str]) -> str:
    return f"{column} >= '{days['first']}' and {column} <= '{days['last']}'"


def _read(path: str) -> str:
    files = ", ".join(f"'{file}'" for file in DeltaTable(path).file_uris())
    return f"read_parquet([{files}], hive_partitioning = true)"


def _stream(con: duckdb.DuckDBPyConnection, query: str) -> pa.RecordBatchReader:
    return con.sql(query).to_arrow_reader()


def _write(
    path: str, rows: pa.RecordBatchReader, partition_by: str | None = None, predicate: str | None = None
) -> None:
    Path(path).mkdir(parents=True, exist_ok=True)
    write_deltalake(path, rows, mode="overwrite", partition_by=partition_by, predicate=predicate)


ADD = {"merge": merge_history, "merge-pruned": merge_pruned, "replace": replace_days}
"""How one new day may be added."""


if __name__ == "__main__":
    main()
