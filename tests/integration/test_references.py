"""Rows that point at nothing, through Dagster and in Spark: found, named, a gate if wanted, and gone when what they point at comes."""

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from stream_assets.build import build_defs
from stream_assets.ops.run import ExecutionResult, run_range
from stream_assets.settings import Settings
from stream_assets.silver.references import FEW, find_orphans
from tests.documents import bend, contract, document, write
from tests.lakes import as_lines, deliver, land_days, refine_days, rows

DAY = date(2025, 3, 9)
LONG_AGO = DAY - timedelta(days=60)
CHECK = "consistency__text__references"


def places() -> dict[str, Any]:
    made = bend(bend(document(), "schema.0.name", "places"), "name", "places")
    return bend(made, "servers.0.path", "places")


def pointing(**custom: Any) -> dict[str, Any]:
    return bend(document(**custom), "schema.0.properties.7.relationships", [{"to": "places.reading_id"}])


def record(key: str, day: date, text: str | None = None) -> dict[str, Any]:
    return {"reading_id": key, "taken_at": f"{day}T10:00:00Z", "text": text}


def run(shop: Settings) -> ExecutionResult:
    return run_range(shop, build_defs(shop), DAY, DAY, select=None, report=lambda *_: None)


def references(done: ExecutionResult) -> dict[str, Any]:
    (found,) = [check for check in done.checks if check["check"] == CHECK]
    return found


def test_an_orphan_is_told_and_stays_until_what_it_points_at_comes(lake: Settings, spark, tmp_path: Path) -> None:
    """A warning by default, a gate if the contract says so. No row is rejected, and no row is written again to judge anew."""
    shop = replace(lake, contracts=tmp_path / "contracts", dbt_project=tmp_path / "none")
    write(shop.contracts, pointing())
    write(shop.contracts, places(), "places")
    deliver(lake, f"readings/{DAY}/a.jsonl", as_lines(record(f"r{n}", DAY, f"p{n}" if n else None) for n in range(4)))
    deliver(lake, f"places/{DAY}/a.jsonl", as_lines(record(f"p{n}", DAY) for n in (1, 2)))
    first = run(shop)
    assert (first.status, references(first)["passed"], references(first)["severity"]) == ("success", False, "WARN")
    assert references(first)["summary"] == f"{DAY}: 1 of 4 records point at no places.reading_id"
    assert len(rows(lake, "silver", "readings")) == 4

    write(shop.contracts, pointing(checks=[{"check": CHECK, "strictness": "gate"}]))
    gated = run(shop)
    assert [gate["check"] for gate in gated.failed_gates] == [CHECK]

    deliver(lake, f"places/{DAY}/b.jsonl", as_lines([record("p3", DAY)]))
    mended = run(shop)
    assert (mended.status, references(mended)["passed"]) == ("success", True)
    assert {row["_run_id"] for row in rows(lake, "silver", "readings")} <= set(first.run_ids)


def test_history_is_looked_at_for_what_is_not_near(lake: Settings, spark, tmp_path: Path) -> None:
    """A few values or many: what came long ago is known, and the rest are orphans, named by key."""
    law, other = contract(tmp_path / "a", pointing()), contract(tmp_path / "b", places())
    column = law.column("text")
    many = FEW + 10
    deliver(lake, f"places/{LONG_AGO}/a.jsonl", as_lines(record(f"p{n}", LONG_AGO) for n in range(many)))
    deliver(lake, f"readings/{DAY}/a.jsonl", as_lines([record("r1", DAY, "p5"), record("r2", DAY, "nowhere")]))
    texts = [f"p{n}" for n in range(many)] + ["nowhere", "nowhere"]
    later = DAY + timedelta(days=1)
    deliver(lake, f"readings/{later}/a.jsonl", as_lines(record(f"s{n}", later, text) for n, text in enumerate(texts)))
    assert find_orphans(spark, law, column, other, [DAY]) is None
    for made, days in ((other, [LONG_AGO]), (law, [DAY, later])):
        land_days(spark, lake, made, *days)
        refine_days(spark, lake, made, *days)
    few = find_orphans(spark, law, column, other, [DAY])
    assert few is not None
    assert (few.rows, few.names) == ({str(DAY): 1}, ("r2",))
    found = find_orphans(spark, law, column, other, [DAY, later])
    assert found is not None
    assert found.rows == {str(DAY): 1, str(later): 2}
    assert set(found.names) == {"r2", f"s{many}", f"s{many + 1}"}
