"""A run that ended half way is taken up by the next: late records that were landed reach the days they belong to, up to Gold."""

from typing import Any

import pytest

from stream_assets.errors import LakeError
from stream_assets.gold import assets as gold
from stream_assets.silver import assets as silver
from tests.integration.ops.conftest import House, day, law, reading
from tests.integration.test_backfill import made_since
from tests.lakes import land_days, rows, version

DELIVERED = {
    0: [reading(0, "a", 1)],
    1: [reading(1, "b", 2)],
    2: [reading(2, "c", 4)],
    3: [reading(3, "d", 8), reading(1, "late", 16)],
}


@pytest.fixture
def house(house_of) -> House:
    """Three days that are made up to Gold, and a delivery whose second record is two days late."""
    house = house_of("house")
    house.ship(law(maxLateness=3))
    for number, records in DELIVERED.items():
        house.deliver(number, records)
    assert house.run(0, 2).status == "success"
    return house


def found(house: House) -> dict[str, set[tuple[Any, ...]]]:
    settings = house.settings
    refined = {(row["reading_id"], row["pieces"], row["_event_date"]) for row in rows(settings, "silver", "readings")}
    per_day = {(row["day"], row["pieces"]) for row in rows(settings, "gold", "per_day")}
    return {"silver": refined, "gold": per_day}


def expected() -> dict[str, set[tuple[Any, ...]]]:
    """Told from what was delivered alone."""
    told = [(r["reading_id"], r["pieces"], r["taken_at"][:10]) for records in DELIVERED.values() for r in records]
    sums = {(day(number), sum(p for _, p, when in told if when == str(day(number)))) for number in DELIVERED}
    return {"silver": {(n, p, d) for n, p, when in told for d in map(day, DELIVERED) if str(d) == when}, "gold": sums}


def test_killed_after_landing(house: House, spark) -> None:
    """Bronze has the delivery, nobody was told which days it touched: the run of that day makes these too, and no others."""
    assert land_days(spark, house.settings, house.contract, day(3)).touched == (day(1), day(3))
    before = version(house.settings, "silver", "readings")
    done = house.run(3, 3)
    assert (done.status, done.days) == ("success", [str(day(1)), str(day(3))])
    assert found(house) == expected()
    assert made_since(house.settings, before) == {str(day(1)): 1, str(day(3)): 1}
    assert house.run(3, 3).days == [str(day(3))]


@pytest.mark.parametrize("step", ["refine", "run_dbt"])
def test_a_layer_that_failed(step: str, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silver or Gold fails once: the next run of the same day makes all that is missing of that layer."""
    module = {"refine": silver, "run_dbt": gold}[step]

    def fail(*args: Any, **kwargs: Any) -> None:
        raise LakeError("The disk is full.")

    with monkeypatch.context() as failing:
        failing.setattr(module, step, fail)
        assert house.run(3, 3).status == "failure"
    assert found(house)["gold"] != expected()["gold"]
    assert house.run(3, 3).status == "success"
    assert found(house) == expected()
