"""Deliveries as they really come: late, unfinished, repeated, torn, compressed, hostile, oddly named.

A file that cannot be read whole is set aside with its reason; its neighbours land, every record once.
"""

import gzip
import io
import os
import zlib
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_assets.bronze.land import Landing
from stream_assets.engine.ledger import Commit
from stream_assets.engine.restore import note
from stream_assets.errors import DeliveryError, LakeError
from stream_assets.settings import Settings
from stream_assets.sources.files import inspect_deliveries
from tests.documents import bend, contract, document
from tests.lakes import as_lines, deliver, forget_tables, lake_at, land_days, ledger, refine_days, rows, version

DAY = date(2025, 3, 2)


def day(number: int) -> date:
    return DAY + timedelta(days=number)


def readings(prefix: str, count: int = 2, at: date = DAY) -> list[dict[str, Any]]:
    return [{"reading_id": f"{prefix}-{n}", "taken_at": f"{at}T10:00:00Z", "pieces": n} for n in range(count)]


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def bomb() -> bytes:
    """70 MB of one letter and no line end, in 70 kB."""
    press = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(press.compress(b"a" * (1 << 20)) for _ in range(70)) + press.flush()


NAMES = (
    "with space.jsonl",
    "per%20cent%.jsonl",
    "ünïcödé-名前.jsonl",
    "plus+hash#question?.jsonl",
    "comma,semi;at@.jsonl",
    "bracket[1].jsonl",
    "brace{a,b}.jsonl",
    "star*.jsonl",
    "quote'double\".jsonl",
    "back\\slash.jsonl",
    "under/folder=1/nested.jsonl",
)


@dataclass(frozen=True)
class Landed:
    """One landing of everything odd at once."""

    lake: Settings
    landing: Landing
    sources: Counter[str]
    problems: dict[str, str]


@pytest.fixture(scope="module")
def odd(engine_settings, spark, tmp_path_factory) -> Landed:
    """Return the one run over deliveries of every kind."""
    folder = tmp_path_factory.mktemp("deliveries")
    lake = lake_at(engine_settings, folder)
    sound = as_lines(readings("r", 50)).encode()
    files = {
        "plain.jsonl": sound,
        "no_last_line_end.jsonl": sound.removesuffix(b"\n"),
        "zipped.jsonl.gz": gzip.compress(sound),
        "zipped_twice.jsonl.gz": gzip.compress(sound) + gzip.compress(sound),
        "zstd.jsonl.zst": zstd(sound),
        "empty.jsonl": b"",
        "empty.jsonl.gz": gzip.compress(b""),
        "corrupt.jsonl.gz": b"this is no gzip",
        "zero_bytes.jsonl.gz": b"",
        "truncated.jsonl.gz": gzip.compress(os.urandom(3000).hex().encode() + sound)[:-40],
        "damaged.jsonl.zst": zstd(os.urandom(3000).hex().encode())[:-9] + b"123456789",
        "bomb.jsonl.gz": bomb(),
        "other.csv": b"a,b\n1,2\n",
        "at 10:30.jsonl": sound,
        "writing.jsonl.tmp": sound,
        ".hidden.jsonl": sound,
        "_notes.jsonl": sound,
        **{name: as_lines(readings(f"n{place}", 1)) for place, name in enumerate(NAMES)},
    }
    for name, content in files.items():
        deliver(lake, f"readings/{DAY}/{name}", content)
    outside = folder / "outside.jsonl"
    outside.write_bytes(sound)
    (Path(lake.landing) / f"readings/{DAY}/link.jsonl").symlink_to(outside)
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "part.jsonl").write_bytes(sound)
    (Path(lake.landing) / f"readings/{day(1)}").symlink_to(folder / "elsewhere")
    deliver(lake, f"readings/{day(2)}/part.jsonl", sound)
    deliver(lake, f"readings/{day(2)}/_STARTED", b"")
    deliver(lake, f"readings/{day(3)}/part.jsonl", sound)
    deliver(lake, f"readings/{day(3)}/_STARTED", b"")
    deliver(lake, f"readings/{day(3)}/_SUCCESS", b"")
    (Path(lake.landing) / f"readings/{day(4)}").mkdir()
    deliver(lake, f"readings/{day(5)}/part.jsonl", b"")
    deliver(lake, f"readings/{day(6)}/part.jsonl.gz", b"torn")
    forget_tables(spark)
    landing = land_days(spark, lake, contract(folder), *[day(n) for n in range(9)])
    forget_tables(spark)
    sources = Counter(row["_source"].removeprefix("readings/") for row in rows(lake, "bronze", "readings", ["_source"]))
    problems = {file.source.removeprefix("readings/"): str(file.problem) for file in landing.problems}
    return Landed(lake, landing, sources, problems)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("plain.jsonl", 50),
        ("no_last_line_end.jsonl", 50),
        ("zipped.jsonl.gz", 50),
        ("zipped_twice.jsonl.gz", 100),
        ("zstd.jsonl.zst", 50),
        ("empty.jsonl", 0),
        ("empty.jsonl.gz", 0),
        ("zero_bytes.jsonl.gz", 0),
        *[(name, 1) for name in NAMES],
    ],
)
def test_a_sound_file_lands_whole(name: str, count: int, odd: Landed) -> None:
    """Compressed or not, whatever its name, beside whatever neighbours: each of its records once."""
    assert f"{DAY}/{name}" not in odd.problems
    assert odd.sources[f"{DAY}/{name}"] == count


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("corrupt.jsonl.gz", "cannot be read"),
        ("truncated.jsonl.gz", "cannot be read"),
        ("damaged.jsonl.zst", "cannot be read"),
        ("bomb.jsonl.gz", "a line of more than 64 MB"),
        ("other.csv", "is not a .jsonl file"),
        ("at 10:30.jsonl", "has a colon in its name"),
        ("link.jsonl", "leaves the landing zone"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_set_aside(name: str, said: str, odd: Landed) -> None:
    """Nothing of it lands, not even the part before the damage, and the reason is told."""
    assert said in odd.problems[f"{DAY}/{name}"]
    assert odd.sources[f"{DAY}/{name}"] == 0


@pytest.mark.parametrize("name", ["writing.jsonl.tmp", ".hidden.jsonl", "_notes.jsonl"])
def test_a_file_in_the_making_is_not_looked_at(name: str, odd: Landed) -> None:
    assert f"{DAY}/{name}" not in odd.problems
    assert odd.sources[f"{DAY}/{name}"] == 0


def test_a_folder_that_is_a_link_out_of_the_landing_zone_is_refused(odd: Landed) -> None:
    assert "leaves the landing zone" in odd.problems[f"{day(1)}/part.jsonl"]
    assert odd.sources[f"{day(1)}/part.jsonl"] == 0


def test_an_unfinished_delivery_waits(odd: Landed) -> None:
    """`_STARTED` without `_SUCCESS` is a producer at work; with it, the delivery is whole."""
    assert odd.landing.incomplete == (day(2),)
    assert day(2) not in odd.landing.landed
    assert odd.sources[f"{day(2)}/part.jsonl"] == 0
    assert odd.sources[f"{day(3)}/part.jsonl"] == 50


def test_a_day_is_landed_when_something_arrived(odd: Landed) -> None:
    """An empty file or a torn one is a delivery, of nothing; an empty or missing folder is none."""
    assert odd.landing.landed == (day(0), day(1), day(3), day(5), day(6))
    assert [odd.landing.rows[day(n)] for n in (2, 4, 5, 6, 7)] == [0] * 5


def test_what_landed_is_what_the_files_hold(odd: Landed) -> None:
    """Counted without Spark before, and in Bronze after."""
    assert {d: n for d, n in odd.landing.rows.items() if d in odd.landing.expected} == odd.landing.expected
    assert sum(odd.sources.values()) == sum(odd.landing.expected.values())


def test_positions_are_line_numbers(odd: Landed) -> None:
    """From 1, without gaps, in every file: a rejected record can be found in the file it came in."""
    found: dict[str, list[tuple[int, str]]] = {}
    for row in rows(odd.lake, "bronze", "readings", ["_source", "_position", "_raw"]):
        found.setdefault(row["_source"], []).append((row["_position"], row["_raw"]))
    for source, lines in found.items():
        assert [position for position, _ in sorted(lines)] == list(range(1, len(lines) + 1)), source
    first = sorted(found[f"readings/{DAY}/plain.jsonl"])
    assert [raw for _, raw in first] == as_lines(readings("r", 50)).splitlines()


def test_a_name_that_is_no_text_stops_the_landing_loudly(lake: Settings, spark, tmp_path: Path) -> None:
    """It can be neither read nor named, so it is not passed over either."""
    folder = deliver(lake, f"readings/{DAY}/part.jsonl", as_lines(readings("r"))).parent
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.jsonl")).write_bytes(b"{}")
    with pytest.raises(DeliveryError, match="not UTF-8"):
        inspect_deliveries(lake, contract(tmp_path), [DAY])


def test_a_delivery_again(lake: Settings, spark, tmp_path: Path) -> None:
    """Unchanged: nothing is written. Changed: exactly its day is replaced, in one commit. Gone: Bronze keeps it.

    A day that loses its late record is touched as much as one that gets some: its Silver is out of date.
    """
    law = contract(tmp_path)
    deliver(lake, f"readings/{day(0)}/part-0.jsonl", as_lines(readings("d0", 2) + readings("late", 1, day(-1))))
    deliver(lake, f"readings/{day(1)}/part-0.jsonl", as_lines(readings("d1", 3)))
    assert land_days(spark, lake, law, day(0), day(1)).landed == (day(0), day(1))
    before = version(lake, "bronze", "readings")

    again = land_days(spark, lake, law, day(0), day(1))
    assert (again.landed, again.rows, version(lake, "bronze", "readings")) == ((), {day(0): 3, day(1): 3}, before)

    file = deliver(lake, f"readings/{day(0)}/part-0.jsonl", as_lines(readings("new", 2)))
    (file.parent.parent / str(day(1)) / "part-0.jsonl").unlink()
    changed = land_days(spark, lake, law, day(0), day(1))
    assert (changed.landed, changed.rows) == ((day(0),), {day(0): 2, day(1): 3})
    assert changed.touched == (day(-1), day(0))
    assert version(lake, "bronze", "readings") == before + 1
    kept = Counter(row["_raw"][16:19] for row in rows(lake, "bronze", "readings", ["_raw"]))
    assert kept == {"new": 2, "d1-": 3}


def follow_a_topic(spark, lake: Settings, number: int, landed_by: str) -> None:
    """Let a topic bring something to a day whose files were landed by other code."""
    entry = ledger(lake, "bronze", "readings")[str(day(number))]
    delivered = f"{landed_by}:{entry['files'].rpartition(':')[2]}"
    page = {str(day(number)): {**entry, "files": "kafka:1", "delivered": delivered, "from_topic": True}}
    note(spark, lake.table_path("bronze", "readings"), Commit("follower", "readings", "bronze", "1.0.0", page))


def test_a_day_of_files_and_a_topic_is_landed_as_long_as_its_files_are_the_same(
    lake: Settings, spark, tmp_path: Path
) -> None:
    """Newer code would land them anew, and what the topic brought would be gone: so only other files are a reason, and refused."""
    law = contract(tmp_path)
    for number in (0, 1):
        deliver(lake, f"readings/{day(number)}/part.jsonl", as_lines(readings(f"d{number}", 2)))
    land_days(spark, lake, law, day(0))
    follow_a_topic(spark, lake, 0, landed_by="an older version")
    assert land_days(spark, lake, law, day(0), day(1)).landed == (day(1),)
    deliver(lake, f"readings/{day(0)}/more.jsonl", as_lines(readings("more", 1)))
    with pytest.raises(LakeError, match=f"{day(0)} holds records that came from a topic"):
        land_days(spark, lake, law, day(0), day(1))


HEADER = "reading_id,taken_at,amount,text"


def test_csv_as_people_write_it(lake: Settings, spark, tmp_path: Path) -> None:
    """Each line is read by the header of its own file: columns in any order, quotes, Windows line ends, a byte-order mark."""
    law = contract(tmp_path, bend(document(), "servers.0.format", "csv"))
    time = "2025-03-02T10:00:00Z"
    files = {
        "plain.csv": f'{HEADER}\np1,{time},1.50,"a, ""b"" c"\np2,{time},,\n',
        "reordered.csv.gz": gzip.compress(f"text,amount,reading_id,taken_at\nx,2.50,r1,{time}\n".encode()),
        "windows.csv": f"\ufeff{HEADER}\r\nw1,{time},3.50,x\r\n".encode(),
        "wider.csv": f"{HEADER},colour\nc1,{time},4.50,x,red\n",
        "narrower.csv": f"reading_id,taken_at\nn1,{time}\n",
        "odd_lines.csv": f'{HEADER}\no1,{time},1\no2,{time},1,x,y\n\no3,{time},1,"torn\no4",{time},1,x\no5,{time},1,x\n',
        "only_header.csv": f"{HEADER}\n",
        "nothing.csv": "",
        "no_header.csv": f"\nh1,{time},1,x\n",
        "twice.csv": f"reading_id,taken_at,text,text\nt1,{time},a,b\n",
        "noise.csv": "x" * 200_000 + f"\nz1,{time}\n",
    }
    for name, content in files.items():
        deliver(lake, f"readings/{DAY}/{name}", content)
    landing = land_days(spark, lake, law, DAY)
    problems = {Path(file.source).name: file.problem for file in landing.problems}
    assert problems.keys() == {"no_header.csv", "twice.csv", "noise.csv"}
    assert landing.rows == landing.expected == {DAY: 12}

    refine_days(spark, lake, law, DAY)
    found = {row["reading_id"]: row for row in rows(lake, "silver", "readings")}
    assert found.keys() == {"p1", "p2", "r1", "w1", "c1", "n1", "o5"}
    assert {key: (str(row["amount"]), row["text"]) for key, row in found.items() if key != "o5"} == {
        "p1": ("1.50", 'a, "b" c'),
        "p2": ("None", None),
        "r1": ("2.50", "x"),
        "w1": ("3.50", "x"),
        "c1": ("4.50", "x"),
        "n1": ("None", None),
    }
    aside = {row["_position"]: row["_violations"] for row in rows(lake, "quarantine", "readings")}
    malformed, empty = ["validity__record__malformed"], ["validity__record__empty"]
    assert aside == {2: malformed, 3: malformed, 4: empty, 5: malformed, 6: malformed}


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def damaged_page(content: bytes) -> bytes:
    """A file whose footer is fine and whose data is not."""
    return content[:4] + bytes(b ^ 0xFF for b in content[4:400]) + content[400:]


def test_parquet_as_tools_write_it(lake: Settings, spark, tmp_path: Path) -> None:
    """Typed values keep their exact text; what Spark cannot read is set aside instead of failing its neighbours."""
    law = contract(tmp_path, bend(document(), "servers.0.format", "parquet"))
    moment = datetime(2025, 3, 2, 10)
    base = {"reading_id": ["a", "b"], "taken_at": pa.array([moment, moment], pa.timestamp("us", "UTC"))}
    many = {
        "reading_id": [f"m{n}" for n in range(500)],
        "taken_at": pa.array([moment] * 500, pa.timestamp("us", "UTC")),
    }
    files = {
        "plain.parquet": parquet(pa.table(base | {"amount": ["1.50", None]})),
        "typed.parquet": parquet(
            pa.table(
                {
                    "reading_id": ["t1"],
                    "taken_at": base["taken_at"][:1],
                    "ratio": [0.1 + 0.2],
                    "pieces": pa.array([2**63 - 1]),
                }
                | {
                    "amount": pa.array(["12.34"]).cast(pa.decimal128(20, 2)),
                    "due_date": pa.array([DAY]),
                    "is_final": [True],
                }
            )
        ),
        "odd_columns.parquet": parquet(
            pa.table({"reading_id": ["o1"], "taken_at": base["taken_at"][:1], "a`b": [1], "c.d": [2]})
        ),
        "empty.parquet": parquet(pa.table(base).slice(0, 0)),
        "corrupt.parquet": b"PAR1 and nothing more",
        "zero_bytes.parquet": b"",
        "torn.parquet": parquet(pa.table(many))[:-20],
        "damaged.parquet": damaged_page(parquet(pa.table(many), compression="zstd")),
        "nanoseconds.parquet": parquet(pa.table({"reading_id": ["n1"], "taken_at": pa.array([1], pa.timestamp("ns"))})),
        "clock.parquet": parquet(pa.table({"reading_id": ["k1"], "taken_at": pa.array([1], pa.time64("us"))})),
        "twins.parquet": parquet(pa.table({"reading_id": ["w1"], "Reading_Id": ["w2"]})),
    }
    for name, content in files.items():
        deliver(lake, f"readings/{DAY}/{name}", content)
    landing = land_days(spark, lake, law, DAY)
    aside = {Path(file.source).name for file in landing.problems}
    sound = {"plain.parquet", "typed.parquet", "odd_columns.parquet", "empty.parquet"}
    assert aside == files.keys() - sound
    assert landing.rows == landing.expected == {DAY: 4}

    refine_days(spark, lake, law, DAY)
    found = {row["reading_id"]: row for row in rows(lake, "silver", "readings")}
    assert found.keys() == {"a", "b", "t1", "o1"}
    exact = {name: str(found["t1"][name]) for name in ("amount", "pieces", "ratio", "due_date", "is_final")}
    assert exact == {
        "amount": "12.34",
        "pieces": "9223372036854775807",
        "ratio": "0.30000000000000004",
        "due_date": "2025-03-02",
        "is_final": "True",
    }


def test_a_time_without_a_date_is_of_the_day_it_was_delivered_on(lake, spark, tmp_path) -> None:
    """A time alone says nothing of the day, and least of all that it is the one on which somebody lands it."""
    law, yesterday = contract(tmp_path), datetime.now(UTC).date() - timedelta(days=1)
    record = {"reading_id": "x", "taken_at": "10:00:00.000Z"}
    deliver(lake, f"readings/{yesterday}/part-0.jsonl", as_lines([record]))
    assert land_days(spark, lake, law, yesterday).touched == (yesterday,)
