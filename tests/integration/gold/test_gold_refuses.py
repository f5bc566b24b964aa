"""Bad rows in Silver, and models that change: what stops, and what goes on."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from stream_assets.engine.files import files_in
from stream_assets.gold import assets as gold_assets
from tests.integration.conftest import DAYS, END
from tests.integration.gold.conftest import GoldLake
from tests.lakes import rows, version

FIRST, LAST = (END - timedelta(days=DAYS - 1)).isoformat(), END.isoformat()
A_DAY = END - timedelta(days=2)

DAILY = "{{ config(materialized='incremental', incremental_strategy='replace_where', partition_by='day') }}\n"
SOURCE = "from {{ source('silver', 'orders') }} where {{ in_range('_event_date') }} group by"


@pytest.fixture
def other_team(tmp_path: Path) -> Path:
    """A project of one daily model, with nothing that Stream would need of it."""
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text("name: other\nversion: 1.0.0\n")
    write_model(tmp_path, "count(*) as orders, sum(total_cents) as cents, _event_date as day")
    return tmp_path


def write_model(project: Path, columns: str, *documented: str, by: str = "_event_date") -> None:
    (project / "models" / "per_day.sql").write_text(f"{DAILY} select {columns} {SOURCE} {by}")
    listed = "".join(f"      - name: {name}\n" for name in documented)
    text = "models:\n  - name: per_day\n" + (f"    columns:\n{listed}" if listed else "")
    (project / "models" / "per_day.yml").write_text(text)


def spoil_an_order(gold: GoldLake) -> None:
    """Add one order with a status nobody knows and a total nobody pays."""
    bad = {"order_id": "ord_bad", "status": "weird", "total_cents": 20_000_000, "discount_cents": 0}
    sound = gold.spark.table("silver.orders").where(f"_event_date = date'{A_DAY}' and event_type != 'deleted'").limit(1)
    types = dict(sound.dtypes)
    spoilt = sound.withColumns({name: F.lit(value).cast(types[name]) for name, value in bad.items()})
    spoilt.write.format("delta").mode("append").save(gold.settings.table_path("silver", "orders"))


def test_a_failed_test_stops_what_is_downstream(gold_lake_of):
    """The table is written and its check says why the report was not. Counted together or each on its own, tests agree."""
    gold = gold_lake_of()
    spoil_an_order(gold)
    built = [
        "dim_stores",
        "dim_campaigns",
        "dim_customers",
        "int_customer_metrics",
        "int_orders_enriched",
        "fct_orders",
    ]
    run = gold.build(A_DAY.isoformat(), models=[*built, "rpt_daily_revenue"])
    assert not run.success
    assert "accepted_values_fct_orders_status" in run.error
    assert run.materialized == set(built)
    failed = {name for name, check in run.checks.items() if not check.passed and check.severity.value == "ERROR"}
    assert len(failed) == 3  # status, total, net amount
    day = f'{{"start_date": "{A_DAY}", "end_date": "{A_DAY}"}}'
    alone = gold.dbt(
        "test", "--select", "fct_orders", "int_orders_enriched", "--vars", day, "--exclude", "resource_type:unit_test"
    )
    assert {name for name, status in alone.items() if status == "fail"} == failed
    together = {name: check.passed for name, check in run.checks.items()}
    assert {name: status == "pass" for name, status in alone.items() if name in together} == {
        name: passed for name, passed in together.items() if name in alone
    }


def test_another_teams_models_are_daily_delta_tables_of_the_lake(gold_lake_of, other_team):
    """With the same command and nothing of ours in the project."""
    gold = gold_lake_of(other_team)
    assert gold.build(FIRST, LAST).materialized == {"per_day"}
    before = rows(gold.settings, "gold", "per_day")
    assert len(before) == DAYS
    assert gold.build(A_DAY.isoformat()).success
    assert version(gold.settings, "gold", "per_day") == 2  # made, filled, one day replaced
    assert sorted(map(repr, rows(gold.settings, "gold", "per_day"))) == sorted(map(repr, before))


def test_a_day_is_one_file_however_many_tasks_write_it(gold_lake_of, other_team, monkeypatch):
    """Each task would write a file into each day, and a year would be thousands of small ones."""
    three = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "3"}
    monkeypatch.setattr(gold_assets, "plan_settings", lambda _: three)
    write_model(other_team, "store_id, count(*) as orders, _event_date as day", by="_event_date, store_id")
    gold = gold_lake_of(other_team)
    assert gold.build(FIRST, LAST).success
    files = files_in(gold.settings.table_path("gold", "per_day"))
    assert sorted(file.day for file in files) == [str(END - timedelta(days=n)) for n in reversed(range(DAYS))]


def test_a_model_may_gain_and_move_columns(gold_lake_of, other_team):
    """A new column is added once it is documented; a moved one is not written into its neighbour."""
    gold = gold_lake_of(other_team)
    gold.build(FIRST, LAST)
    before = {row["day"]: row for row in rows(gold.settings, "gold", "per_day")}
    moved = "sum(total_cents) as cents, _event_date as day, count(*) as orders, max(total_cents) as largest"
    write_model(other_team, moved, "largest")
    run = GoldLake.open(gold.settings, gold.spark, gold.contracts).build(A_DAY.isoformat())
    assert run.success, run.error
    after = {row["day"]: row for row in rows(gold.settings, "gold", "per_day")}
    assert {day: (row["orders"], row["cents"]) for day, row in after.items()} == {
        day: (row["orders"], row["cents"]) for day, row in before.items()
    }
    assert {day for day, row in after.items() if row["largest"] is not None} == {A_DAY}


def test_a_range_must_be_days(gold_lake_of, other_team):
    """A mistyped day is refused before anything is written."""
    gold = gold_lake_of(other_team)
    assert gold.dbt("run", "--vars", '{"start_date": "2025-3-1", "end_date": "2025-03-02"}') == {"per_day": "error"}
    assert gold.dbt("run", "--vars", '{"start_date": "2025-03-01"}') == {"per_day": "error"}
