"""Statistics are used only if the whole text is JSON. The number of records is the same in SQL and in Arrow."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from deltasnap_core import DeltaLog, SnapshotOptions
from deltasnap_core.protocol.json_text import MAX_NESTING, parse_json
from deltasnap_core.replay.engine import EngineUse
from deltasnap_core.rules.texts.json_lines import are_safe, parse_lines, parse_texts
from deltasnap_core.rules.texts.whole_json import whole_json_sql
from deltasnap_core.rules.totals.num_records import num_records, num_records_sql
from tests.builders import add, metadata, protocol, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TEXTS: Mapping[str, int | None] = {
    '{"numRecords":7}': 7,
    '{"\\ud800":1,"numRecords":7}': 7,
    '{"numRecords":7,"minValues":{}}': 7,
    '{"numRecords":-7,"minValues":{}}': -7,
    '{"numRecords":9223372036854775807,"minValues":{}}': 2**63 - 1,
    '{"numRecords":9223372036854775808,"minValues":{}}': None,
    '{"numRecords": 7,"minValues":{}}': 7,
    '{"minValues":{"a":1},"numRecords":7}': 7,
    '{"numRecords":"7","minValues":{}}': 7,
    '{"numRecords":"a:5,b"}': None,
    '{"numRecords":"5,b"}': None,
    '{"numRecords":{"a":1,"b":2}}': None,
    '{"numRecords":[1],"numRecords":2}': 2,
    '{"numRecords":[\0001],"numRecords":2}': None,
    '{"numRecords":[x],"numRecords":2}': None,
    '{"numRecords":[1,2]}': None,
    '{"numRecords":null,"minValues":{}}': None,
    '{"minValues":{}}': None,
    "{": None,
    "": None,
    "null": None,
    '[{"numRecords":5}]': None,
    '{"numRecords":5': None,
    '{"numRecords":5} x': None,
    '{"numRecords":5}}': None,
    '{"numRecords":5},{"numRecords":6}': None,
    '{"numRecords":5},"x":6': None,
    '{"numRecords":5}],[{}': None,
    '{"numRecords":007}': None,
    '{"numRecords":+5}': None,
    '{"numRecords":+5,"a":1}': None,
    '{"numRecords":5\x00,"a":1}': None,
    '{"numRecords":5.0,"a":1}': None,
    '{"numRecords":1e5}': None,
    '{"numRecords":1e400}': None,
    '{"numRecords":true}': None,
    '{"numRecords":-0}': 0,
    '{"numRecords":-0,"numRecords":{a:1}}': None,
    '{"numRecords":1234567890123456789,"x":{a:1}}': None,
    '{"numRecords":1234567890123456789,"x":1}': 1234567890123456789,
    '{"numRecords":-999999999999999999,"x":1}': -999999999999999999,
    '{"numRecords":" +5 "}': 5,
    '{"numRecords":"5\\n"}': 5,
    '{"numRecords":"5\\u2028"}': None,
    '{"numRecords":"9223372036854775808"}': None,
    '{"numRecords":"00000000000000000000005","x":1}': None,
    '{"a":1,"numRecords":"\\u00005"}': None,
    '{"num\\u0052ecords":5}': 5,
    '{"NUMRECORDS":5}': None,
    "{'numRecords':5}": None,
    '{a:1,"numRecords":5}': None,
    '{"a":NaN,"numRecords":5}': None,
    '{"a":01,"numRecords":5}': None,
    '{"a":"\t","numRecords":5}': None,
    '{"a":"\\q","numRecords":5}': None,
    '{"a":1,"numRecords":5,}': None,
    '{"a":1,"numRecords":5\n}': 5,
    '{"a":"\\ud800","numRecords":5}': 5,
    '\ufeff{"numRecords":5}': None,
    '{"a":1,"numRecords":1,"numRecords":2}': 2,
    '{"numRecords":"5","numRecords":6,"a":1}': 6,
    '{"a":1,"numRecords":5,"numRecords":null}': None,
    '{"a":1,"numRecords":tru,"numRecords":5}': None,
    '{"numRecords":"5","a":{"numRecords":7}}': 5,
    f'{{"a":{"1" * 1001},"numRecords":5}}': 5,
    f'{{"a":{"1" * 5001},"numRecords":"5"}}': 5,
    f'{{"a":"{"v" * 60_000}","numRecords":5}}': 5,
    f'{{"{"k" * 50_000}":1,"numRecords":5}}': 5,
    f'{{"{"k" * 50_001}":1,"numRecords":5}}': None,
    f'{{"{"😀" * 25_000}":1,"numRecords":5}}': 5,
    f'{{"{"😀" * 25_001}":1,"numRecords":5}}': None,
    f'{{"{chr(92)}u0041{"k" * 49_999}":1,"numRecords":5}}': 5,
    f'{{"{chr(92)}u0041{"k" * 50_000}":1,"numRecords":5}}': None,
    f'{{"a":{"[" * 499}{"]" * 499},"numRecords":5}}': 5,
    f'{{"a":{"[" * 500}{"]" * 500},"numRecords":5}}': None,
}


def _objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(['"numRecords"', '"numRecords"', '"a"', '"num\\u0052ecords"', "'numRecords'", "numRecords"])
    fields = st.lists(st.tuples(names, st.sampled_from([":", ":", " : "]), values).map("".join), max_size=4)
    return fields.map(lambda texts: f"{{{','.join(texts)}}}")


def _cut(text: str, at: int, put: str) -> str:
    return text[: at % (len(text) + 1)] + put + text[at % (len(text) + 1) :]


_JSON = st.recursive(
    st.sampled_from(
        ["0", "-0", "5", "-7", "1e5", "5.0", "01", "tru", "true", "null", "NaN", '"5"', '" 5"', "'5'", '"\\u0035"']
    )
    | st.integers(-(2**65), 2**65).map(str)
    | st.text(max_size=4).map(json.dumps)
    | st.text(alphabet='\\"{}[],:\n\t5', max_size=3).map(lambda text: f'"{text}"'),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]") | _objects(inner),
    max_leaves=6,
)


ODD_JSON = st.one_of(
    _objects(_JSON),
    st.builds(_cut, _objects(_JSON), st.integers(0, 200), st.sampled_from([*',:{}[]"5x \n\0\\', "\ufeff", "\u2028"])),
    st.tuples(_objects(_JSON), st.integers(0, 200)).map(lambda each: each[0][: each[1]]),
    st.tuples(_objects(_JSON), st.lists(st.sampled_from([",", "{}", "]", "[", "}", " "]), max_size=8)).map(
        lambda each: each[0] + "".join(each[1])
    ),
)

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
def test_bounds_of_a_text_beyond_its_json_are_not_used(spark: SparkSession, tmp_path: Path, engine: EngineUse) -> None:
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


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("stats", TEXTS, ids=lambda stats: ascii(stats[:60]))
def test_arrow_finds_the_number_of_records(stats: str) -> None:
    assert num_records(pa.array([stats])).to_pylist() == [TEXTS[stats]]


def test_arrow_finds_the_same_numbers_in_many_texts_at_once() -> None:
    assert num_records(pa.array([*TEXTS, None])).to_pylist() == [*TEXTS.values(), None]


@pytest.mark.spark
def test_sql_and_arrow_find_the_same_number_of_records(spark: SparkSession) -> None:
    found = spark.createDataFrame(pa.table({"stats": list(TEXTS)})).selectExpr("stats", num_records_sql("stats"))
    assert {row[0]: row[1] for row in found.collect()} == TEXTS


NUMBER = pa.schema([("a", pa.int64())])


def nested(levels: int) -> str:
    return '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"a":1}\n', True),
        ('\t {"a":1} \r\n', True),
        ('"a"\n', False),
        ('{"a":1}x\n', False),
        ('~{"a":1}\n', False),
        (f'{{"a":"{"x" * 4 * MAX_NESTING}"}}\n', True),
        ('{"a":NaN}\n', False),
        ('{"a":1}null\n', False),
        (nested(MAX_NESTING), True),
        (nested(MAX_NESTING + 1), False),
    ],
    ids=[
        "an object",
        "blanks",
        "no object",
        "something after it",
        "something before it",
        "long",
        "not a number",
        "null after it",
        "deep",
        "too deep",
    ],
)
def test_arrow_reads_objects_that_are_not_too_deep(line: str, expected: bool) -> None:
    assert are_safe(pa.chunked_array([['{"b":2}\n', line]])) is expected


def test_texts_are_parsed_if_each_is_one_object() -> None:
    found = parse_texts(pa.array(['{"a":1}', '{"b":"x"}', '{"a":null}']), NUMBER)
    assert found is not None
    assert (found.schema, found["a"].to_pylist()) == (NUMBER, [1, None, None])
    for other in ('{"a":2}\n{"a":3}', '{"a":1}\n', "null", '{"a":"x"}', '{"a":1'):
        assert parse_texts(pa.array(['{"a":1}', other]), NUMBER) is None
    assert parse_texts(pa.array(["\n", '{"a":4}', "\n"]).slice(1, 1), NUMBER) == pa.table({"a": [4]})


def test_lines_with_other_fields_are_parsed_unless_all_must_be_known() -> None:
    lines = pa.chunked_array([['{"a":1,"b":2}\n'], ['{"a":3}\n']])
    assert parse_lines(lines, NUMBER, is_all=True) is None
    found = parse_lines(lines, NUMBER)
    assert found is not None
    assert found.to_pylist() == [{"a": 1}, {"a": 3}]
    assert parse_lines(pa.chunked_array([['{"a":1}\n{"a":2}\n']]), NUMBER) is None
