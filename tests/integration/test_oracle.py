"""Silver against an independent computation from the same landing files, row by row and column by column."""

from pathlib import Path

import duckdb
import pytest

from tests.integration.oracle import read_law, silver
from tests.lakes import SALT, ledger, rows, table

DATASETS = ["campaigns", "customers", "order_items", "orders", "payments", "stores", "web_events"]
NOT_COMPARED = {"_run_id", "_key", "_ingested_at"}


@pytest.mark.parametrize("name", DATASETS)
def test_silver_is_what_the_files_say(name: str, refined_sample) -> None:
    """Every column of every row, personal data protected, duplicates resolved, versions dated: nothing more, nothing less."""
    lake = refined_sample.lake
    law = read_law(lake.contracts / f"{name}.odcs.yaml")
    expected = {(row["_source"], row["_position"]): row for row in silver(law, Path(lake.landing), SALT)}
    found = {
        (row["_source"], row["_position"]): {k: v for k, v in row.items() if k not in NOT_COMPARED}
        for row in rows(lake, "silver", name)
    }
    assert found.keys() == expected.keys()
    assert [found[place] for place in sorted(found)] == [expected[place] for place in sorted(expected)]
    assert len(found) > 5


@pytest.mark.parametrize("name", DATASETS)
def test_rows_say_when_their_file_arrived(name: str, refined_sample) -> None:
    landing = Path(refined_sample.lake.landing)
    arrived = {row["_source"]: row["_ingested_at"].timestamp() for row in rows(refined_sample.lake, "silver", name)}
    assert arrived == pytest.approx({source: (landing / source).stat().st_mtime for source in arrived}, abs=0.001)


def test_every_dataset_is_compared(refined_sample) -> None:
    assert sorted(refined_sample.contracts) == DATASETS


@pytest.mark.parametrize("name", DATASETS)
def test_other_engines_count_the_same(name: str, refined_sample) -> None:
    """The lake is plain Delta: DuckDB counts the rows that the ledger says were accepted."""
    lake = refined_sample.lake
    dataset = table(lake, "silver", name).to_pyarrow_dataset()
    (counted,) = duckdb.from_arrow(dataset).count("*").fetchall()[0]
    days = ledger(lake, "silver", name)
    accepted = [days[day]["accepted"] for day in sorted(days)]
    # Of reference data only the last delivery stays.
    assert counted == (accepted[-1] if refined_sample.contracts[name].kind == "reference" else sum(accepted))
