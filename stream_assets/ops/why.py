"""The story of one record: how it came, how it was judged, what won, and where it is now.

Its rows are found in Bronze by their key and judged again with the same `conform` as refining; what the tables hold and
which commit put it there is read from the tables and their logs. Personal data is masked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from stream_assets.contracts.model import Contract
from stream_assets.engine import delta
from stream_assets.engine.history import WHOLE, Change, History, read_history
from stream_assets.errors import StreamError
from stream_assets.ops.quarantine.records import MASK, mask, parse
from stream_assets.quality.rules import build_rules
from stream_assets.secrets import pii_salt
from stream_assets.settings import Settings
from stream_assets.silver.conform import conform
from stream_assets.silver.refine import distinct_headers
from stream_assets.sources.changes import with_record
from stream_assets.sources.corrections import split_superseded

MOST_ROWS = 20
"""Rows of a Gold table that are shown."""


def explain(
    spark: SparkSession, settings: Settings, contract: Contract, key: Sequence[str], gold: Iterable[str]
) -> dict[str, Any]:
    """Everything known of the record with this key. `gold` are the tables made of its dataset."""
    if len(key) != len(contract.key):
        raise StreamError(
            f"A record of {contract.name} is known by {', '.join(contract.key)}: give {len(contract.key)}."
        )
    found = _find(spark, contract, key)
    if found is None:
        raise StreamError(f"Bronze has no record of {contract.name} with the key {' '.join(key)}.")
    judged = _judge(found, settings, contract)
    histories = {n: read_history(settings.table_path(n, contract.name)) for n in ("bronze", "silver", "quarantine")}
    records = [
        _record(row, judged, contract, histories) for row in found.orderBy("_ingested_at", "_position").collect()
    ]
    _tell_winner(records, contract)
    silver_key = next((v["key"] for v in judged.values() if v["key"]), list(key))
    return {
        "dataset": contract.name,
        "key": dict(
            zip(
                contract.key,
                [MASK if contract.column(c).pii else k for c, k in zip(contract.key, key, strict=True)],
                strict=True,
            )
        ),
        "contract_version": contract.version,
        "rules": [rule.id for rule in build_rules(contract)],
        "records": records,
        "silver": _rows_of(spark, settings, "silver", contract.name, contract, silver_key),
        "gold": [
            {"table": f"gold/{name}", "rows": rows}
            for name in sorted(gold)
            if (rows := _rows_of(spark, settings, "gold", name, contract, silver_key))
        ],
    }


def _find(spark: SparkSession, contract: Contract, key: Sequence[str]) -> DataFrame | None:
    """The Bronze rows whose key this is; and those that cannot be read but have it in their text."""
    table = f"`bronze`.`{contract.name}`"
    if not delta.exists(spark, table):
        return None
    bronze = spark.table(table)
    # Text with escapes may hide the value; all other text has it as it is, so that few rows are parsed.
    near = reduce(and_, [F.contains(F.col("_raw"), F.lit(v)) | F.contains(F.col("_raw"), F.lit("\\")) for v in key])
    headers = distinct_headers(bronze) if "csv" in contract.formats else []
    read = with_record(bronze.where(near), contract, headers)
    is_it = reduce(and_, [F.col("_record")[c] == v for c, v in zip(contract.key, key, strict=True)])
    mentions = F.col("_problem").isNotNull() & reduce(and_, [F.contains(F.col("_raw"), F.lit(v)) for v in key])
    found = read.where(is_it | mentions).select(*bronze.columns)
    return None if found.isEmpty() else found


def _judge(found: DataFrame, settings: Settings, contract: Contract) -> dict[tuple[str, int], dict[str, Any]]:
    """How today's contract judges each row, by its place."""
    rows = found.drop("_run_id", "_contract_version")
    current, superseded = split_superseded(rows)
    headers = distinct_headers(rows) if "csv" in contract.formats else []
    conformed = conform(current, contract, headers=headers, salt=pii_salt(settings)).collect()
    judged = {(row["_source"], row["_position"]): _verdict(row, contract) for row in conformed}
    corrected = {"verdict": "corrected", "broken": [], "warned": [], "key": None, "order": None}
    return judged | {(row["_source"], row["_position"]): corrected for row in superseded.collect()}


def _verdict(row: Row, contract: Contract) -> dict[str, Any]:
    broken = list(row["_violations"] or [])
    return {
        "verdict": "quarantined" if broken else "duplicate" if row["_is_duplicate"] else "accepted",
        "broken": broken,
        "warned": list(row["_warnings"] or []),
        "key": None if broken else [row[name] for name in contract.key],
        "order": row[contract.order_by] if contract.order_by and not broken else None,
    }


def _record(
    row: Row, judged: Mapping[tuple[str, int], Any], contract: Contract, histories: Mapping[str, History | None]
) -> dict[str, Any]:
    verdict = judged[row["_source"], row["_position"]]
    fields = parse(row["_raw"], row["_header"])
    return {
        "source": row["_source"],
        "position": row["_position"],
        "delivery_date": row["_delivery_date"].isoformat(),
        "event_date": row["_event_date"].isoformat(),
        "arrived_at": _text(row["_ingested_at"]),
        "bronze": _commit(histories["bronze"], row["_run_id"], row["_delivery_date"]),
        "record": mask(fields, contract) if fields else "(cannot be read)",
        "verdict": verdict["verdict"],
        "broken": verdict["broken"],
        "warned": verdict["warned"],
        "order": _text(verdict["order"]),
        "judged": _latest(histories["quarantine" if verdict["broken"] else "silver"], row["_event_date"]),
    }


def _tell_winner(records: Sequence[dict[str, Any]], contract: Contract) -> None:
    """Say of each record that lost which one won, and why."""
    for record in records:
        rivals = [r for r in records if r["verdict"] == "accepted"]
        same = [r for r in rivals if contract.kind == "entity" or r["event_date"] == record["event_date"]]
        if record["verdict"] == "duplicate" and same:
            winner = same[-1]
            is_later = record["order"] != winner["order"]
            reason = f"its {contract.order_by} is later" if is_later else "equal, and delivered last"
            record["lost_to"] = f"{winner['source']}:{winner['position']} ({reason})"


def _rows_of(
    spark: SparkSession, settings: Settings, layer: str, name: str, contract: Contract, key: Sequence[Any]
) -> list[dict[str, Any]]:
    """The rows of a table that carry the key, if it has the key's columns at all."""
    history = read_history(settings.table_path(layer, name))
    if history is None:
        return []
    rows = spark.read.format("delta").load(settings.table_path(layer, name))
    if not set(contract.key) <= set(rows.columns):
        return []
    found = rows.where(_equals(contract.key, key)).limit(MOST_ROWS).collect()
    hidden = {column.name for column in contract.record if column.pii}
    day = history.partition_by
    return [
        {
            "row": {k: MASK if k in hidden and v is not None else _text(v) for k, v in row.asDict().items()},
            "commit": _commit(history, row["_run_id"], row["_event_date"])
            if layer == "silver"
            else _latest(history, row[day] if day else None),
        }
        for row in found
    ]


def _equals(names: Sequence[str], values: Sequence[Any]) -> Expr:
    return reduce(and_, [F.col(name).cast("string") == str(value) for name, value in zip(names, values, strict=True)])


def _commit(history: History | None, run_id: str, day: date) -> dict[str, Any] | None:
    """The commit by which a run wrote a day."""
    if history is None:
        return None
    part = day.isoformat() if history.partition_by else WHOLE
    made = [c for c in history.since(-1, part) if c.run_id == run_id]
    return _told(made[-1]) if made else None


def _latest(history: History | None, day: date | None) -> dict[str, Any] | None:
    """The newest commit that wrote a day."""
    if history is None:
        return None
    made = history.since(-1, day.isoformat() if day and history.partition_by else WHOLE)
    return _told(made[-1]) if made else None


def _told(change: Change) -> dict[str, Any]:
    return {
        "version": change.version,
        "committed_at": change.committed_at.isoformat(),
        "run_id": change.run_id,
        "contract_version": change.page.get("contract_version") or None,
    }


def _text(value: Any) -> Any:
    return (
        value.isoformat()
        if isinstance(value, date | datetime)
        else value
        if value is None or isinstance(value, str | int | bool)
        else str(value)
    )
