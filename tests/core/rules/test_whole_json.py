"""Statistics are used only if the whole text is JSON: the rule of the number of records, also for bounds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import hypothesis
import pyarrow as pa
import pytest

from deltasnap_core import DeltaLog, SnapshotOptions
from deltasnap_core.protocol.json_text import MAX_NESTING, parse_json
from deltasnap_core.replay.engine import EngineUse
from deltasnap_core.rules.texts.whole_json import whole_json_sql
from deltasnap_core.rules.totals.num_records import num_records, num_records_sql
from tests.builders import add, metadata, protocol, write_log
from tests.core.rules.num_records_builders import ODD_JSON, TEXTS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ENDS_OF_THE_ARRAY = [
    "[]",
    '{"other":1},{}]',
    '{"other":1},{}],',
    '{"other":1},{},{}],{}',
    '{"other":1,"b":2},{},{},{}],[{}',
    '{"other":1}]',
    '{"other":1}],{}',
    '{"other":[1,[2,3]]},{},{},{},{}]]',
]
"""Texts that end the array in which they are parsed."""
ONE_VALUE = ['{"other":[1,2,[3,"],"]],"b":"]]]"}', '{"other":"},{}]"}', '{"other":[]}']
NESTED = [f'{{"deep":{"[" * depth}{"]" * depth}}}' for depth in (MAX_NESTING - 1, MAX_NESTING)]
"""Objects as deep as allowed, and one level deeper."""

STATS = '{"numRecords":1,"minValues":{"id":5},"maxValues":{"id":5},"nullCount":{"id":0}}'


def is_object(text: str) -> bool:
    try:
        return isinstance(parse_json(text), dict)
    except ValueError:
        return False


@pytest.fixture(scope="module")
def odd_texts() -> list[str]:
    texts: list[str] = []

    @hypothesis.settings(max_examples=200, database=None)
    @hypothesis.given(ODD_JSON)
    def collect(text: str) -> None:
        texts.append(text)

    collect()
    return texts


@pytest.mark.spark
def test_sql_and_arrow_agree_on_odd_json(spark: SparkSession, odd_texts: list[str]) -> None:
    table = pa.table({"number": range(len(odd_texts)), "stats": odd_texts})
    found = spark.createDataFrame(table).selectExpr("number", f"{num_records_sql('stats')} as records").toArrow()
    in_sql = found.sort_by("number")["records"].to_pylist()
    in_arrow = num_records(table["stats"].combine_chunks()).to_pylist()
    assert {text: each for text, *each in zip(odd_texts, in_sql, in_arrow, strict=True) if each[0] != each[1]} == {}


@pytest.mark.spark
def test_only_texts_that_are_one_object_are_read(spark: SparkSession, odd_texts: list[str]) -> None:
    texts = [text for text in TEXTS if len(text) < 1000] + ENDS_OF_THE_ARRAY + ONE_VALUE + NESTED + odd_texts
    assert not any(map(is_object, ENDS_OF_THE_ARRAY))
    assert all(map(is_object, ONE_VALUE))
    assert list(map(is_object, NESTED)) == [True, False]
    frame = spark.createDataFrame(pa.table({"number": range(len(texts)), "stats": texts}))
    sql = f"{whole_json_sql('stats', 'struct<other: string>')} is not null as found"
    found = frame.selectExpr("number", sql).toArrow().sort_by("number")["found"].to_pylist()
    assert {text for text, each in zip(texts, found, strict=True) if each != is_object(text)} == set()


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_bounds_of_a_text_that_continues_after_the_json_are_not_used(
    spark: SparkSession, tmp_path: Path, engine: EngineUse
) -> None:
    texts = [STATS, *(STATS + end for end in (" xyz", "}", ',"x":6', ',{"x":6}', " {}", ",{}]"))]
    write_log(tmp_path, {0: [protocol(), metadata(), *(add(f"{n}", stats=text) for n, text in enumerate(texts))]})
    snapshot = DeltaLog.for_table(spark, tmp_path, options=SnapshotOptions(engine=engine)).snapshot
    assert sorted(row.path for row in snapshot.scan("id = 9").files.collect()) == ["1", "2", "3", "4", "5", "6"]


def test_parser_of_spark_is_as_strict_as_the_protocol() -> None:
    """One more level of nesting is the array around the text. Spark's own limits of lengths do not count."""
    options = dict(re.findall(r"'(\w+)', '(\w+)'", whole_json_sql("stats", "struct<a: int>").rpartition("map(")[2]))
    assert options == {
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
        "maxNestingDepth": "501",
        "maxNumLen": "2147483647",
        "maxStringLen": "2147483647",
    }
