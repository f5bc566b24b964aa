"""Corrected records: a person's delivery into Bronze, beside the originals.

A correction has the position of the record it stands in for, and a `_source` that names the export it was edited in, a
digest of the original and where that came from. Bronze keeps both, under one delivery day; Silver takes the newest correction
and counts what it replaces as a duplicate. If the producer delivers the line anew with other text, the correction no longer
stands in for it.
"""

from __future__ import annotations

import hashlib
import re

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

PREFIX = "correction/"
_DIGITS = 16
_PARTS = rf"^{PREFIX}([^/]+)/([0-9a-f]{{{_DIGITS}}})/(.*)$"


def correction_source(export: str, source: str, raw: str) -> str:
    """The `_source` of a correction. What corrects a correction stands in for the same original."""
    found = re.match(_PARTS, source, re.DOTALL)
    digest, original = (found[2], found[3]) if found else (hashlib.sha256(raw.encode()).hexdigest()[:_DIGITS], source)
    return f"{PREFIX}{export}/{digest}/{original}"


def is_correction() -> Expr:
    """Whether a row of Bronze came from a person."""
    return F.startswith(F.col("_source"), F.lit(PREFIX))


def split_superseded(bronze: DataFrame, elsewhere: DataFrame | None = None) -> tuple[DataFrame, DataFrame]:
    """The records that count, and those that a correction stands in for: one among them, or one of those `elsewhere`."""
    source = F.col("_source")
    original = F.when(is_correction(), F.regexp_extract(source, _PARTS, 3)).otherwise(source)
    own = F.left(F.sha2(F.col("_raw"), 256), F.lit(_DIGITS))
    digest = F.when(is_correction(), F.regexp_extract(source, _PARTS, 2)).otherwise(own)
    newest = Window.partitionBy("_o_source", "_position", "_o_digest").orderBy(
        is_correction().desc(), F.col("_ingested_at").desc(), source.desc()
    )
    place = {"_o_source": original, "_o_digest": F.coalesce(digest, F.lit(""))}
    rows = bronze if elsewhere is None else bronze.unionByName(elsewhere)
    marks = rows.where(is_correction()).select("_position").distinct()
    # Only positions that have any correction are compared at all: these are few, and so is what is hashed.
    near = rows.join(F.broadcast(marks), "_position", "left_semi").withColumns(place)
    ranked = near.withColumn("_rank", F.row_number().over(newest))
    old = ranked.where((F.col("_rank") > 1) & (F.col("_o_digest") != "")).select(*bronze.columns)
    keys = old.select("_source", "_position", "_ingested_at").distinct()
    return bronze.join(F.broadcast(keys), ["_source", "_position", "_ingested_at"], "left_anti").select(
        *bronze.columns
    ), old
