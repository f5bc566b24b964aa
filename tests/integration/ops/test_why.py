"""`stream why` tells every record with a key, its verdict and reason, and where it ended up."""

import json

import pytest

from stream_assets.contracts.load import load_contracts
from stream_assets.errors import StreamError
from stream_assets.ops.quarantine.records import MASK
from stream_assets.ops.why import explain
from tests.integration.ops.conftest import day, law, reading
from tests.integration.ops.test_replay import personal
from tests.lakes import version


def test_a_record_is_told_from_its_arrival_to_gold(house_of, spark) -> None:
    """Three versions of one key came: one was rejected, one lost, one won. The oracle is what was delivered."""
    house = house_of("house")
    house.ship(personal(law()))
    house.deliver(0, [reading(0, "a", 1, text="Ada Lovelace"), reading(0, "a", -5, hour=12), reading(0, "b", 9)])
    house.deliver(1, [reading(0, "a", 2, hour=11, text="Ada Lovelace"), reading(1, "ab", 3)])
    house.run(0, 1)
    contract = load_contracts(house.settings.contracts)["readings"]
    story = explain(spark, house.settings, contract, ["a"], ["per_day", "by_reading"])
    told = {(r["delivery_date"], r["position"]): r for r in story["records"]}
    assert {place: r["verdict"] for place, r in told.items()} == {
        (str(day(0)), 1): "duplicate", (str(day(0)), 2): "quarantined", (str(day(1)), 1): "accepted",
    }  # fmt: skip
    assert told[str(day(0)), 2]["broken"] == ["consistency__record__pieces_positive"]
    winner = told[str(day(1)), 1]
    assert told[str(day(0)), 1]["lost_to"].startswith(f"{winner['source']}:1 (its taken_at is later")
    assert winner["bronze"]["version"] == version(house.settings, "bronze", "readings")
    assert [row["row"]["pieces"] for row in story["silver"]] == [2]
    assert story["silver"][0]["commit"]["version"] == version(house.settings, "silver", "readings")
    assert {table["table"]: len(table["rows"]) for table in story["gold"]} == {"gold/by_reading": 1}
    assert "Ada" not in json.dumps(story)
    assert winner["record"]["text"] == MASK
    with pytest.raises(StreamError, match="no record"):
        explain(spark, house.settings, contract, ["nobody"], [])
    with pytest.raises(StreamError, match="known by reading_id"):
        explain(spark, house.settings, contract, ["a", "b"], [])
