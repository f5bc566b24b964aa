"""Are the outputs of the ways equal? Read by DuckDB and delta-rs, which wrote only one of them, and compared whole.

A fingerprint has, for every table: rows, sums of money, and an order-free hash of every column that comes from the data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

from bench.job import DATASETS, GOLD, Dataset

Fingerprint = dict[str, dict[str, Any]]

_MONEY = {"orders": "sum(total_cents) - sum(discount_cents)", "payments": "cast(sum(amount * 100) as bigint)"}
LAYERS = ("bronze", "silver", "quarantine", "gold")


class UnequalOutputsError(AssertionError):
    """Two ways made different tables of the same deliveries: their times must not be compared."""


def fingerprint(lake: Path) -> Fingerprint:
    """What the tables of a lake hold."""
    tables: Fingerprint = {}
    for dataset in DATASETS:
        tables[f"bronze/{dataset.name}"] = _look(
            lake, "bronze", dataset.name, {"rows": "count(*)", "lines": _hash("_source", "_position", "_raw")}
        )
        tables[f"silver/{dataset.name}"] = _look(lake, "silver", dataset.name, _silver(dataset))
        tables[f"quarantine/{dataset.name}"] = _look(
            lake, "quarantine", dataset.name, {"rows": "count(*)", "lines": _hash("_source", "_position")}
        )
    for model, columns in GOLD.items():
        tables[f"gold/{model}"] = _look(
            lake, "gold", model, {"rows": "count(*)", "cents": "sum(net_cents)", "values": _hash(*columns)}
        )
    return tables


def compare(found: dict[str, Fingerprint]) -> None:
    """Raise unless all ways have the same fingerprint."""
    (first, expected), *others = found.items()
    for way, tables in others:
        differences = [
            f"  {table}: {first} {expected[table]}, {way} {facts}"
            for table, facts in tables.items()
            if facts != expected[table]
        ]
        if differences:
            raise UnequalOutputsError(f"{first} and {way} do not agree:\n" + "\n".join(differences))


def check_answers(tables: Fingerprint, answers: dict[str, dict[str, int]]) -> None:
    """Raise unless Silver and quarantine hold what the generator of the deliveries says a correct lake holds."""
    for dataset, counts in answers.items():
        held = {"accepted": tables[f"silver/{dataset}"]["rows"], "quarantined": tables[f"quarantine/{dataset}"]["rows"]}
        wanted = {name: counts[name] for name in held}
        if held != wanted:
            raise UnequalOutputsError(f"{dataset}: the deliveries were made to give {wanted}, the lake holds {held}")


def layer_bytes(lake: Path) -> dict[str, int]:
    """Size of the files that the current versions of the tables are made of."""
    return {layer: sum(_table_bytes(folder) for folder in sorted((lake / layer).iterdir())) for layer in LAYERS}


def _table_bytes(folder: Path) -> int:
    return sum(Path(file).stat().st_size for file in DeltaTable(str(folder)).file_uris())


def _silver(dataset: Dataset) -> dict[str, str]:
    columns = [f"epoch_us({name})" if kind == "timestamp" else name for name, kind in dataset.columns.items()]
    return {
        "rows": "count(*)",
        "keys": f"count(distinct {dataset.key})",
        "cents": _MONEY[dataset.name],
        "values": _hash(*columns, "_event_date", "_delivery_date", "_source", "_position"),
    }


def _hash(*columns: str) -> str:
    texts = ", ".join(f"coalesce(cast({column} as varchar), '∅')" for column in columns)
    return f"cast(sum(hash(concat_ws('|', {texts}))) as varchar)"


def _look(lake: Path, layer: str, name: str, facts: dict[str, str]) -> dict[str, Any]:
    files = [str(file) for file in DeltaTable(str(lake / layer / name)).file_uris()]
    with duckdb.connect() as con:
        con.execute(f"set memory_limit = '3GB'; set temp_directory = '{lake}/.scratch'")
        query = f"select {', '.join(facts.values())} from read_parquet($files, hive_partitioning = true)"
        row = con.execute(query, {"files": files}).fetchone() if files else [0] * len(facts)
    return dict(zip(facts, row or (), strict=True))
