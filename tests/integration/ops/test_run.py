"""What a run does when there is nothing to do, and when it is told to do it anyway."""

from pathlib import Path

from tests.integration.ops.conftest import law, reading
from tests.lakes import rows

GOLD = ["gold/by_reading", "gold/per_day"]


def test_gold_is_left_alone_until_there_is_a_reason(house_of) -> None:
    house = house_of("shop")
    house.ship(law())
    house.deliver(0, [reading(0, "a", 1), reading(0, "b", 2)])
    first = house.run(0, 0)
    assert (first.status, first.current) == ("success", [])
    before = house.contents()

    idle = house.run(0, 0)
    assert (idle.status, idle.current) == ("success", GOLD)
    assert house.contents() == before

    for file in Path(house.settings.table_path("silver", "readings")).glob("*/*.parquet"):
        file.unlink()
    mended = house.run(0, 0, again=True)
    assert (mended.status, mended.current) == ("success", [])
    assert sorted(row["reading_id"] for row in rows(house.settings, "silver", "readings")) == ["a", "b"]

    house.deliver(1, [reading(1, "c", 3)])
    assert house.run(0, 1).current == []
    assert sorted(row["pieces"] for row in rows(house.settings, "gold", "per_day")) == [3, 3]
