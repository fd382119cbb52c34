"""The text of a predicate for Spark: nothing in it is replaced, and its meaning and places stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from deltasnap_core.scan.predicates.spark_text import place_in, spark_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = {
    "s = '${env:HOME}'": "s = '$' '' '{env:HOME}'",
    "s = 'it''s ${a}' or s = 'b'": "s = 'it''s $' '' '{a}' or s = 'b'",
    r"s = 'it\'s ${a}'": r"s = 'it\'s $' '' '{a}'",
    r"s = '\\${a}${b}'": r"s = '\\$' '' '{a}$' '' '{b}'",
    's = "a${b}"': 's = "a$" \'\' "{b}"',
    r"s = r'\${a}'": r"s = r'\$' '' r'{a}'",
    r"s = R'\' or s = '${a}'": r"s = R'\' or s = '$' '' '{a}'",
    r"bar'\'${a}'": r"bar'\'$' '' '{a}'",
    "s = /* '${a} /* ' */ */ '${b}'": "s = /* '$ {a} /* ' */ */ '$' '' '{b}'",
    "s = 'a' -- '${b}'": "s = 'a' -- '$ {b}'",
    "s = 'a' -- '\n or s = '${b}'": "s = 'a' -- '\n or s = '$' '' '{b}'",
    "`a'${b}` = '${c}'": "`a'${b}` = '$' '' '{c}'",
    "s = ${a}": "s = $ {a}",
    "s = 'a${b": "s = 'a$ {b",
    "s = '$ {a}' or s = '$$'": "s = '$ {a}' or s = '$$'",
}
PIECES = ["${env:HOME}", "${", "$", "{", "}", "a", " ", "''", '""', "\\\\", "\\n", "\\'", "--", "/*", "*/", "\n"]


@pytest.mark.parametrize("where", TEXTS)
def test_each_variable_is_divided_where_it_stands(where: str) -> None:
    assert spark_text(where) == TEXTS[where]


@hypothesis.given(st.lists(st.sampled_from([*PIECES, "'", '"', "r'", "=", "or"])).map("".join))
def test_no_variable_stays_outside_of_quoted_names_and_places_are_kept(where: str) -> None:
    found = spark_text(where)
    assert "${" not in found
    kept = [place_in(where, place) for place in range(len(found))]
    assert kept == sorted(kept)
    assert all(where[place] == found[at] for at, place in enumerate(kept) if kept.count(place) == 1)


@pytest.mark.spark
def test_literals_have_the_value_that_they_have_without_replacement(spark: SparkSession) -> None:
    literals: list[str] = []

    @hypothesis.settings(max_examples=150, database=None)
    @hypothesis.given(st.lists(st.sampled_from(PIECES), min_size=1).map("".join), st.sampled_from(["'", '"', "r'"]))
    def collect(text: str, begin: str) -> None:
        quote = begin[-1]
        text = text.replace(quote, "") if begin == "r'" else text.replace("\\'", "").replace('"', '""')
        literals.append(f"{begin}{text.replace(quote, '') if quote == chr(34) else text}{quote}")

    collect()
    found = spark.range(1).selectExpr(*map(spark_text, literals)).toDF(*map(str, range(len(literals)))).toArrow()
    spark.conf.set("spark.sql.variable.substitute", "false")
    try:
        wanted = spark.range(1).selectExpr(*literals).toDF(*map(str, range(len(literals)))).toArrow()
    finally:
        spark.conf.unset("spark.sql.variable.substitute")
    assert found.to_pylist() == wanted.to_pylist()
    assert pa.types.is_string(found.schema[0].type)
