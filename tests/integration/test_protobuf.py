"""Protobuf into text by Spark's workers: every message judged on its own, whatever stands beside it."""

import json
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from stream_assets.sources.framed import Schema, schema_ids
from stream_assets.sources.protobuf import decode
from stream_assets.sources.records import with_record
from tests.documents import contract
from tests.protos import LATER, PLACE, READING, compiled, framed, schema, type_of

MANY = 3_000


def test_messages_are_read_by_workers(spark: SparkSession, tmp_path: Path) -> None:
    """Of several schemas, with poison among them; and no more of them than there were."""
    pool = compiled(tmp_path / "protos", lab__place=PLACE, lab__reading=LATER)
    reading = type_of(pool, "lab.Reading")
    moment = datetime(2026, 11, 16, 8, 0, 0, 123_456, UTC)
    sound = {n: reading(reading_id=f"r{n}", taken_at=moment, pieces=n, is_final=n % 2 == 1) for n in range(MANY)}
    values = [framed(2 if n % 2 else 1, _older(one) if n % 2 == 0 else one, (1,)) for n, one in sound.items()]
    poison = {
        None: "empty", b'{"reading_id": "r1"}': "unframed", framed(3, b"", (1,)): "unknown_schema",
        framed(4, b"", (1,)): "unsupported_schema", values[0][:-1]: "undecodable", b"\x00\x00\x00\x00\x01": "undecodable",
    }  # fmt: skip
    rows = list(enumerate([*values, *poison]))
    messages = spark.createDataFrame(rows, "n bigint, value binary").repartition(4)
    assert schema_ids(messages) == {1, 2, 3, 4}
    texts = {1: READING, 2: LATER}
    known = {id_: schema(text, lab__place=PLACE) for id_, text in texts.items()} | {3: None, 4: Schema('"string"')}
    judged = {row["n"]: row for row in with_record(decode(messages, known), contract(tmp_path)).collect()}
    assert [bytes(judged[n]["_raw_bytes"]) if value else judged[n]["_raw_bytes"] for n, value in rows] == [
        v for _, v in rows
    ]
    for n in range(MANY):
        told = {"reading_id": f"r{n}", "taken_at": "2026-11-16T08:00:00.123456Z", "amount": "", "pieces": str(n)}
        later = {"is_final": True, "text": "LOW", "detail": {}}
        assert json.loads(judged[n]["_raw"]) == (told | later if n % 2 else told)
        assert (judged[n]["_problem"], judged[n]["_record"]["pieces"]) == (None, str(n))
    problems = [judged[n]["_problem"] for n in range(MANY, len(rows))]
    assert problems == [f"validity__record__{rule}" for rule in poison.values()]


def _older(message):
    """As it was written before it had more fields."""
    older = type(message)()
    older.CopyFrom(message)
    for name in ("is_final", "text", "detail"):
        older.ClearField(name)
    return older
