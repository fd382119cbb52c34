from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deltasnap_core.rules.key_hash import xxhash64

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HASHES = {
    "": -7444071767201028348,
    "a": -8582455328737087284,
    "abc": 1423657621850124518,
    "part": -3765306098603253786,
    "part-00": 9087963231745716947,
    "part-000": -758707339694798916,
    "part-00001-c": -370641623938960404,
    "part-00001-c000": -3245568890243850280,
    "day=2026-01-01/ä€😀": 7080374832167578516,
    "x" * 31: -1716462135722163746,
    "x" * 32: 1299777543150008824,
    "x" * 37: -1711886875604265694,
    "date=2026-01-01/part-00000-3b2a1c4d.c000.snappy.parquet": 2355191648571754421,
    "0123456789abcdef" * 4: 6907118658063106616,
}
"""What Spark's `xxhash64` returns: texts of 0 to 64 bytes, with and without a rest of 8, 4 and 1 bytes."""


@pytest.mark.parametrize("text", HASHES)
def test_hash_of_a_text_is_stable(text: str) -> None:
    assert xxhash64(text) == HASHES[text]


@pytest.mark.usefixtures("compiled")
def test_hash_matches_spark(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    texts = [*HASHES, *("part-0001-ä€😀.snappy.parquet "[:length] * (1 + length // 30) for length in range(32))]
    rows = spark.createDataFrame([(text,) for text in texts], "text string").select("text", F.xxhash64("text"))
    assert {text: xxhash64(text) for text in texts} == dict(rows.collect())
