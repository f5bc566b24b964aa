"""A week of the sample, built once: its numbers, its checks, and what happens when a day is built again."""

import json
import re
from collections.abc import Iterator
from datetime import date, timedelta
from statistics import median
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.integration.conftest import DAYS, END
from tests.integration.gold.conftest import GoldLake, GoldRun
from tests.lakes import contents, rows, table, version

FIRST, LAST = (END - timedelta(days=DAYS - 1)).isoformat(), END.isoformat()
A_DAY = (END - timedelta(days=2)).isoformat()
DAILY = {
    "int_orders_enriched": "order_date",
    "fct_orders": "order_date",
    "fct_order_items": "order_date",
    "fct_payments": "payment_date",
    "fct_web_sessions": "session_date",
    "fct_campaigns": "order_date",
    "rpt_daily_revenue": "order_date",
    "rpt_web_funnel": "session_date",
}
WHOLE = ("int_customer_metrics", "dim_customers", "dim_stores", "dim_campaigns", "rpt_campaign_performance")


@pytest.fixture(scope="module")
def gold(gold_lake_of) -> GoldLake:
    return gold_lake_of()


@pytest.fixture(scope="module")
def week(gold: GoldLake) -> GoldRun:
    run = gold.build(FIRST, LAST)
    assert run.success, run.error
    return run


@pytest.fixture(scope="module")
def silver(gold: GoldLake) -> duckdb.DuckDBPyConnection:
    """Silver as DuckDB sees it."""
    database = duckdb.connect()
    for name in ("orders", "customers", "stores", "web_events", "payments", "campaigns"):
        database.register(name, table(gold.settings, "silver", name).to_pyarrow_table())
    return database


def oracle(silver: duckdb.DuckDBPyConnection, sql: str) -> list[tuple]:
    return sorted(silver.execute(sql).fetchall(), key=repr)


def gold_rows(gold: GoldLake, name: str, *columns: str) -> list[tuple]:
    return sorted((tuple(row[c] for c in columns) for row in rows(gold.settings, "gold", name, columns)), key=repr)


def test_every_model_and_every_check_is_reported(gold, week):
    """A model without an event would look stale forever."""
    assert len(week.materialized) == len(DAILY) + len(WHOLE) + 8
    expected = {spec.name for assets in gold.defs.assets for spec in assets.check_specs}
    assert set(week.checks) == expected


def test_only_warnings_fail_on_the_sample(week):
    """Orphans are there on purpose; anything else would be an error of ours."""
    failed = {name: check.severity.value for name, check in week.checks.items() if not check.passed}
    assert failed
    assert all(name.startswith("relationships_") for name in failed)
    assert set(failed.values()) == {"WARN"}


def test_daily_revenue_agrees_with_an_independent_count(gold, week, silver):
    """Cancelled and returned orders are orders but no revenue."""
    expected = oracle(
        silver,
        """
        select _event_date, store_id, currency, count(*),
               coalesce(sum(total_cents - discount_cents) filter (status not in ('cancelled', 'returned')), 0)::bigint
        from orders where event_type <> 'deleted' group by all
        """,
    )
    assert (
        gold_rows(gold, "rpt_daily_revenue", "order_date", "store_id", "currency", "orders", "revenue_cents")
        == expected
    )


def test_an_order_has_the_segment_its_customer_had(gold, week, silver):
    """The version at the time of the order, the first one for older orders, none for an unknown customer."""
    expected = oracle(
        silver,
        """
        with versions as (
            select *, row_number() over (partition by customer_id order by valid_from) = 1 as is_first from customers
        )
        select o.order_id, c.segment from orders o left join versions c
          on o.customer_id = c.customer_id
         and (o.ordered_at >= c.valid_from or c.is_first) and (o.ordered_at < c.valid_to or c.valid_to is null)
        where o.event_type <> 'deleted'
        """,
    )
    assert gold_rows(gold, "int_orders_enriched", "order_id", "customer_segment") == expected


def test_the_funnel_agrees_with_an_independent_count(gold, week, silver):
    """Visits that bought something, per day."""
    expected = oracle(
        silver,
        """
        select _event_date, count(distinct session_id), count(distinct session_id) filter (event_name = 'purchase')
        from web_events where event_type <> 'deleted' group by 1
        """,
    )
    per_day: dict[date, list[int]] = {}
    for day, sessions, bought in gold_rows(
        gold, "rpt_web_funnel", "session_date", "sessions", "sessions_with_purchase"
    ):
        totals = per_day.setdefault(day, [0, 0])
        totals[0] += sessions
        totals[1] += bought
    assert sorted(((day, *totals) for day, totals in per_day.items()), key=repr) == expected


def test_customer_totals_are_counted_once(gold, week, silver):
    """The sum over the dimension is the sum over the orders of known customers."""
    ((expected,),) = oracle(
        silver,
        """
        select sum(total_cents - discount_cents)::bigint from orders
        where event_type <> 'deleted' and status not in ('cancelled', 'returned')
          and customer_id in (select customer_id from customers)
        """,
    )
    assert sum(total for (total,) in gold_rows(gold, "dim_customers", "lifetime_revenue_cents") if total) == expected


def test_every_column_of_a_table_is_documented(gold, week):
    """New columns are added to a table when the model documents them, so the two must not part."""
    nodes = json.loads(gold.project.manifest.read_text())["nodes"].values()
    documented = {node["name"]: list(node["columns"]) for node in nodes if node["resource_type"] == "model"}
    for name in (*DAILY, *WHOLE):
        assert [field.name for field in table(gold.settings, "gold", name).schema().fields] == documented[name]


def test_the_commit_says_which_run_made_it(gold, week):
    """The Delta log is the ledger, of Gold too."""
    page = json.loads(table(gold.settings, "gold", "fct_orders").history(1)[0]["userMetadata"])
    assert page["run_id"] == week.run_id
    assert page["layer"] == "gold"
    assert sorted(page["days"])[0] == FIRST
    assert len(page["days"]) == DAYS


def test_one_file_per_day(gold, week):
    """Small files are what makes a lake slow."""
    files = table(gold.settings, "gold", "fct_orders").get_add_actions(flatten=True).num_rows
    assert files == DAYS


def test_building_a_day_again_replaces_that_day_in_one_commit(gold, week):
    """The other days keep their very files; the rows are the same; reference tables that did not change get no commit."""
    before = {name: (version(gold.settings, "gold", name), files_of(gold, name)) for name in (*DAILY, *WHOLE)}
    rows_before = {name: contents(gold.settings, "gold", name) for name in (*DAILY, *WHOLE)}
    run = gold.build(A_DAY)
    assert run.success, run.error
    for name, day in DAILY.items():
        old_version, old_files = before[name]
        assert version(gold.settings, "gold", name) == old_version + 1, name
        kept = {file for file in old_files if f"{day}={A_DAY}" not in file}
        assert kept == {file for file in files_of(gold, name) if f"{day}={A_DAY}" not in file}, name
        assert kept != old_files, name
    for name in ("dim_stores", "dim_campaigns"):
        assert version(gold.settings, "gold", name) == before[name][0]
    assert {name: contents(gold.settings, "gold", name) for name in rows_before} == rows_before


def files_of(gold: GoldLake, name: str) -> set[str]:
    return set(table(gold.settings, "gold", name).file_uris())


def test_the_unit_tests_of_the_models_pass(gold, week):
    """Here and not with every day: they prove the code."""
    statuses = gold.dbt("test", "--select", "resource_type:unit_test")
    assert len(statuses) == 11
    assert set(statuses.values()) == {"pass"}


def test_models_find_their_views_again_after_a_restart(gold, week):
    """Views live in the server's catalogue. A run of some models makes the views they read, and reports only the models."""
    for view in gold.spark.sql("show views in gold").collect():
        gold.spark.sql(f"drop view gold.`{view.viewName}`")
    run = gold.build(A_DAY, models=["fct_orders", "rpt_daily_revenue"])
    assert run.success, run.error
    assert run.materialized == {"fct_orders", "rpt_daily_revenue"}
    assert {check.asset_key.path[-1] for check in run.checks.values()} == run.materialized


def test_a_forgotten_table_is_found_again(gold, week):
    """A catalogue that lost a table must not make a run of one day throw away the other days."""
    before = contents(gold.settings, "gold", "rpt_daily_revenue")
    gold.spark.sql("drop table gold.rpt_daily_revenue")
    run = gold.build(A_DAY, models=["rpt_daily_revenue"])
    assert run.success, run.error
    assert contents(gold.settings, "gold", "rpt_daily_revenue") == before


def test_dbt_leaves_the_session_of_the_process_alone(gold, week):
    """It switches ANSI mode off and labels its commits, on a session of its own."""
    assert gold.spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert not gold.spark.conf.get("spark.databricks.delta.commitInfo.userMetadata", None)


def test_a_rebuild_of_everything_gives_the_same_rows(gold, week):
    """`full_refresh` makes the table anew, whatever days were asked for."""
    before = contents(gold.settings, "gold", "rpt_daily_revenue")
    run = gold.build(A_DAY, models=["rpt_daily_revenue"], full_refresh=True)
    assert run.success, run.error
    assert contents(gold.settings, "gold", "rpt_daily_revenue") == before


@pytest.fixture
def undone(gold: GoldLake, week: GoldRun) -> Iterator[None]:
    """Every table is afterwards as it was."""
    before = {name: version(gold.settings, "gold", name) for name in (*DAILY, *WHOLE)}
    yield
    for name, then in before.items():
        if version(gold.settings, "gold", name) != then:
            table(gold.settings, "gold", name).restore(then)


def checks_of(gold: GoldLake, kind: str) -> dict[str, str]:
    """The tests of this kind and the model each is about."""
    nodes = json.loads(gold.project.manifest.read_text())["nodes"]
    tests = [
        node for node in nodes.values() if node["resource_type"] == "test" and node["test_metadata"]["name"] == kind
    ]
    return {test["name"]: nodes[test["attached_node"]]["name"] for test in tests}


def tell_failures(gold: GoldLake, kind: str, first: str, last: str) -> dict[str, list[dict[str, Any]]]:
    """The tests of this kind that fail when run on their own for these days, with their rows."""
    days = json.dumps({"start_date": first, "end_date": last})
    gold.told_by_dbt("run", "--select", "config.materialized:view")  # an earlier test made the catalogue forget them
    told = gold.told_by_dbt("test", "--vars", days, "--select", f"test_name:{kind}")
    return {name: e["failing_rows"] for name, e in told.items() if e["data"]["node_info"]["node_status"] != "pass"}


def of_one_row(gold: GoldLake, name: str) -> str:
    """A predicate that only one row fulfils, of A_DAY where there are days, current where there are versions."""
    only = (
        {"is_current": True}
        if name == "dim_customers"
        else {DAILY[name]: date.fromisoformat(A_DAY)}
        if name in DAILY
        else {}
    )
    row = next(row for row in rows(gold.settings, "gold", name) if all(row[c] == v for c, v in only.items()))
    key = {"rpt_daily_revenue": ["store_id", "currency"], "rpt_web_funnel": ["device"]}.get(name, [next(iter(row))])
    return " and ".join(f"{column} = '{row[column]}'" for column in (*key, *([DAILY[name]] if name in DAILY else [])))


def test_a_lost_row_is_found_in_every_table_that_is_reconciled(gold, undone):
    """With the day, the measure and both figures; the other days agree."""
    checks = checks_of(gold, "reconciles")
    assert set(checks.values()) == {*DAILY, *WHOLE} - {"int_customer_metrics"}
    checks.pop("completeness__dim_campaigns__reconciles_with_silver")  # its report would lack the same campaign
    for name in checks.values():
        table(gold.settings, "gold", name).delete(of_one_row(gold, name))
    failures = tell_failures(gold, "reconciles", FIRST, LAST)
    assert set(failures) == set(checks)
    for check, name in checks.items():
        assert {row["day"] for row in failures[check]} == {date.fromisoformat(A_DAY) if name in DAILY else None}
    (orders,) = (r for r in failures["completeness__fct_orders__reconciles_with_silver"] if r["measure"] == "orders")
    on_the_day = table(gold.settings, "silver", "orders").to_pyarrow_table(
        filters=[("_event_date", "=", date.fromisoformat(A_DAY)), ("event_type", "!=", "deleted")]
    )
    assert (orders["expected"], orders["found"]) == (on_the_day.num_rows, on_the_day.num_rows - 1)


def test_only_the_days_of_the_run_are_reconciled(gold, undone):
    """The others were when they were built. Tables without days are compared as a whole."""
    for name in ("fct_order_items", "dim_campaigns"):
        table(gold.settings, "gold", name).delete(of_one_row(gold, name))
    assert set(tell_failures(gold, "reconciles", LAST, LAST)) == {
        "completeness__dim_campaigns__reconciles_with_silver",
        "completeness__rpt_campaign_performance__names_every_campaign",
    }


def test_a_row_that_breaks_a_rule_is_found(gold, undone):
    """Every rule between columns is broken once."""
    broken = {
        "fct_orders": {"discount_cents": "total_cents + 1"},
        "fct_payments": {"settled_cents": "-amount_cents - 1"},
        "dim_customers": {"valid_to": "valid_from"},
        "rpt_daily_revenue": {"cancelled_orders": "cancelled_orders + 1"},
        "rpt_web_funnel": {"sessions_with_purchase": "sessions + 1"},
    }
    assert set(checks_of(gold, "holds").values()) == set(broken)
    for name, changes in broken.items():
        table(gold.settings, "gold", name).update(predicate=of_one_row(gold, name), updates=changes)
    assert set(tell_failures(gold, "holds", A_DAY, A_DAY)) == set(checks_of(gold, "holds"))


def test_an_order_lost_on_the_way_stops_the_report(gold, undone):
    """The check of the fact compares with Silver and not with the model before, and says in words what is missing."""
    table(gold.settings, "gold", "int_orders_enriched").delete(of_one_row(gold, "int_orders_enriched"))
    run = gold.build(A_DAY, models=["fct_orders", "rpt_daily_revenue"])
    assert not run.success
    assert run.materialized == {"fct_orders"}
    check = run.checks["completeness__fct_orders__reconciles_with_silver"]
    assert re.fullmatch(rf"{A_DAY} \w+: [\d,]+ expected, [\d,]+ found", check.description)
    shown = check.metadata["failing rows"].records
    assert {record.data["measure"] for record in shown} >= {"orders", "total_cents"}


def test_an_odd_day_is_told_from_a_busy_weekday(gold, undone):
    """Saturdays sell twice as much; one day sells a third, one nothing; the first week has nothing to be held to."""
    days = [END - timedelta(days=back) for back in reversed(range(40))]
    usual = {day: (200 if day.weekday() == 5 else 100) + day.day % 5 for day in days}
    slump, closed = days[-4], days[-2]
    sold = {**usual, slump: 33, days[2]: 1000}
    report = table(gold.settings, "gold", "rpt_daily_revenue")
    row = rows(gold.settings, "gold", "rpt_daily_revenue")[0]
    made = [
        {**row, "orders": n, "revenue_cents": n * 5000, "order_date": day} for day, n in sold.items() if day != closed
    ]
    write_deltalake(report, pa.Table.from_pylist(made, report.to_pyarrow_table().schema), mode="overwrite")
    failures = tell_failures(gold, "in_line_with_history", days[0].isoformat(), END.isoformat())
    found = failures["distribution__rpt_daily_revenue__in_line_with_history"]
    assert {(row["day"], row["measure"], row["found"]) for row in found} == {
        (slump, "orders", 33), (slump, "revenue_cents", 165_000), (closed, "orders", 0), (closed, "revenue_cents", 0)
    }  # fmt: skip
    expected = {row["day"]: row["expected"] for row in found if row["measure"] == "orders"}
    for day, value in expected.items():
        assert float(value) == pytest.approx(median(sold[day - timedelta(weeks=n)] for n in range(1, 5)), abs=0.5)
    alone = tell_failures(gold, "in_line_with_history", slump.isoformat(), slump.isoformat())
    assert {row["day"] for row in alone["distribution__rpt_daily_revenue__in_line_with_history"]} == {slump}
