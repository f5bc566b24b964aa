"""Digits are looked for in the text of a record, whatever it holds: of a line of CSV no reader has limited the length."""

from pyspark.sql import functions as F

from stream_assets.quality.evaluate import violations
from stream_assets.quality.rules import Rule
from tests.documents import contract

RULE = Rule("validity__amount__type", "type", "amount")


def test_a_million_digits_do_not_take_the_stack(spark, tmp_path) -> None:
    """The first sixteen of them tell that the number has too many."""
    found = spark.range(1).select(
        F.concat(F.lit('1.5,x"amount":'), F.repeat(F.lit("1"), 1_000_000), F.lit(".5")).alias("_raw"),
        F.lit("1.5").alias("text"),
        F.expr("1.5bd").alias("amount"),
    )
    broken = found.select(violations([RULE], contract(tmp_path), {"amount": F.col("text")}).alias("broken"))
    assert [row["broken"] for row in broken.collect()] == [[RULE.id]]
