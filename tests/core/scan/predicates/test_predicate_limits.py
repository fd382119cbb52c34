"""A predicate is untrusted input: any text gives a result or a PredicateError, and Spark gets its meaning unchanged."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import hypothesis
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings, strategies as st
from sqlglot.dialects import Spark

from deltasnap_core.errors import PredicateError
from deltasnap_core.scan.predicates.predicate_limits import check_tokens
from deltasnap_core.scan.predicates.predicate_values import value_of
from deltasnap_core.scan.predicates.spark_text import place_in, spark_text
from deltasnap_core.scan.skipping.data_skipping import skipping_of
from tests.core.scan.scan_builders import file, ids, snapshot_of, stats
from tests.core.scan.skipping.skipping_builders import columns
from tests.thorough import one_in

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MAX_CHARACTERS, MAX_CONDITIONS, MAX_DEPTH = 256 << 10, 1_000, 100
"""The documented limits."""
NESTED = {
    "parentheses": ("(", "id = 1", ")"),
    "NOT": ("not ", "id = 1", ""),
    "exclamation marks": ("!", "(id = 1)", ""),
    "minus": ("- ", "id = 1", ""),
    "plus": ("", "id", " + 1"),
    "CASE": ("case when id = 1 then ", "true", " end"),
    "functions": ("coalesce(", "id", ")"),
    "casts": ("cast(", "id", " as int)"),
    "colons": ("", "id", "::bigint"),
    "right AND": ("(id = 1 and ", "true", ")"),
    "comparisons": ("", "id = 1", " = true"),
    "fields": ("", "s", ".a"),
    "subscripts": ("", "items", "[0]"),
    "types": ("cast(null as array<", "int", ">) is null"),
    "lambdas": ("exists(items, x -> ", "true", ")"),
    "comments": ("/*", "", "*/"),
    "no tokens": ("(", "'", ")"),
}


@pytest.mark.parametrize("shape", NESTED)
@pytest.mark.parametrize("times", [MAX_DEPTH + 1, 1_100])  # the second is beyond the stack
def test_predicate_nested_too_deeply_names_the_limit(shape: str, times: int) -> None:
    before, inner, after = NESTED[shape]
    with pytest.raises(PredicateError, match=r"expected at most [\d,]+ (levels|words|comments|conditions|char)"):
        skipping_of(before * times + inner + after * times, columns())


READS_OR_RUNS = {
    "reflect": "reflect('java.lang.System', 'getProperty', 'user.name') = 'root'",
    "try_reflect": "id = 1 or try_reflect('java.lang.System', 'exit', 1) is null",
    "java_method in quotes": "`java_method`/**/('java.lang.System', 'getProperty', 'user.name') = 'root'",
    "with its catalog": "system.builtin.REFLECT ('java.lang.System', 'getProperty', 'user.name') = 'root'",
    "a name that is a text": "identifier('ref' || 'lect')('java.lang.System', 'getProperty', 'user.name') = 'root'",
    "select": "(select count(*) from text.`/etc/passwd`) > 3",
    "negative number": "id > (select -1)",
    "exists": "exists(table text.`/etc/passwd`)",
    "table": "(table text.`/etc/passwd` limit 1) is not null",
    "pipe": "id in (from text.`/etc/passwd` |> select value)",
    "with": "id in ((with t as (values (1)) table t))",
    "values": "id in (values (1), (2))",
    "values without brackets": "id in (values -1 union table text.`/etc/passwd`)",
    "fractions": "id in (values .5 union table text.`/etc/passwd`)",
    "bits": "(select ~1 from text.`/etc/passwd` limit 1) = 1",
    "negation": "(select not true from text.`/etc/passwd` limit 1)",
    "table named like an operator": "exists(table div union table text.`/etc/passwd`)",
    "script that is a raw text": "exists(map id using r'cat' from text.`/etc/passwd`)",
    "script": "exists(map id using 'cat' from text.`/etc/passwd`)",
    "script with brackets": "exists(map (id) using 'cat' as (x) from text.`/etc/passwd`)",
}


@pytest.mark.parametrize("where", READS_OR_RUNS.values(), ids=READS_OR_RUNS)
def test_predicate_that_reads_another_table_or_runs_code_is_an_error(where: str) -> None:
    with pytest.raises(PredicateError, match=r"a (query|function that calls Java) cannot be used here"):
        skipping_of(where, columns())


def test_text_without_tokens_that_may_be_a_query_is_an_error() -> None:
    with pytest.raises(PredicateError, match="a query, or a function that calls Java, cannot be used here"):
        skipping_of("exists(table text.`/etc/passwd`) or '", columns())


@pytest.mark.parametrize(
    "where",
    [
        "map(1, id)[1] = 1",
        "(map(1, id)[1]) = 1",
        "(reduce(items, 0, (x, y) -> x + y)) = 3",
        "(`select` - 1) > 0",
        "(table = 1) or array_contains(values, 1) or size(values) > (from % 3) or `using` is null or using = 1",
        "a is distinct from b and extract(year from day) = 2026 and trim(both 'x' from s) = ''",
    ],
)
def test_names_of_columns_and_functions_are_no_queries(where: str) -> None:
    check_tokens(where, Spark().tokenize(where))


@pytest.mark.parametrize("word", ["and", "or"])
def test_predicate_of_too_many_conditions_names_the_limit(word: str) -> None:
    where = f" {word} ".join(["id <> 5"] * (MAX_CONDITIONS + 1))
    with pytest.raises(
        PredicateError, match=rf"expected at most {MAX_CONDITIONS:,} conditions, found 1,001"
    ) as failure:
        skipping_of(where, columns())
    assert failure.value.position == where.rindex(word)
    assert len(str(failure.value)) < 3_000


def test_predicate_of_too_many_characters_names_the_limit() -> None:
    where = f"name = '{'x' * (MAX_CHARACTERS - 9)}'"
    assert len(where) == MAX_CHARACTERS
    assert skipping_of(where, columns()).statistics is not None
    where = where.replace("name", " name")
    with pytest.raises(PredicateError, match=rf"expected at most {MAX_CHARACTERS:,} characters"):
        skipping_of(where, columns())


@pytest.mark.slow
@pytest.mark.parametrize("word", ["and", "or"])
def test_predicate_with_the_maximum_number_of_conditions_skips_files(word: str) -> None:
    where = f" {word} ".join(f"id = {number}" for number in range(MAX_CONDITIONS))
    assert skipping_of(where, columns()).statistics is not None


@pytest.mark.parametrize(
    "where",
    [
        "isnull()", "isnotnull(id, 1)", "cast(id as decimal(20)) = 10", "cast(id as decimal(x, y)) = 1",
        "cast(id as decimal) = 1", "cast(id as decimal(99999999999)) = 1", "id in ()", "id between", "startswith()",
        "equal_null(id)", "", " ", "-- x", "/*", "id = '", "\x00", "id = \ud800", "{# id #}", "{% id %}", "id = 1;",
        "; id = 1", "id = 1; id = 2", "cast() = 1",
    ],
)  # fmt: skip
def test_odd_text_gives_a_predicate_error_or_a_result(where: str) -> None:
    assert_answered(where)


WORDS = (
    "id", "x", "name", "at", "on_day", "wall", "price", "huge", "day", "region", "s", "a", "s.a", "must.a",
    "items", "flag", "raw", "no_such", "`Region`", "`", "'", "\"", "'a'", "'5'", "'2026-01-01'", "5", "-", "2.5",
    "1e0", "999999999999999999999999999999", "0x1F", "X'61'", "X'6'", "null", "true", "false", "(", ")", "(", ")",
    "[", "]", "{", "}", ",", ".", ";", ":", "::", "->", "=>", "?", ":p", "@v", "$", "#", "%", "\\", "/*", "*/",
    "--", "\n", "/*+", "and", "or", "not", "!", "=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=", "+", "*", "/",
    "||", "|", "&", "^", "~", "<<", ">>", "is", "is null", "is not", "distinct from", "in", "between", "like",
    "ilike", "rlike", "like any", "escape", "case", "when", "then", "else", "end", "cast(", "try_cast(", "as",
    "int", "decimal(20)", "decimal(10,2)", "decimal", "decimal(-1,)", "date", "timestamp", "timestamp_ntz",
    "array<int>", "struct<a:int>", "interval", "day", "isnull(", "isnotnull(", "isnull()", "coalesce(", "if(",
    "nullif(", "startswith(", "upper(", "equal_null(", "exists(", "count(", "sum(", "over (", "select", "from",
    "where", "values", "lateral view", "explode(", "to_date(", "year(", "substring(", "date_add(", "extract(",
    "position(", "trim(both", "current_date", "now()", "rand()", "collate", "at time zone", "with", "union",
    "limit", "order by", "group by", "unnest(", "map(", "named_struct(", "x -> x", "r'a'", "b'a'", "u&'a'",
    "\u00e9", "\u00a0",
)  # fmt: skip


@settings(max_examples=80)
@given(st.lists(st.sampled_from(WORDS), max_size=14), st.sampled_from(["", " ", " ", " "]))
def test_random_tokens_give_a_predicate_error_or_a_result(words: list[str], between: str) -> None:
    assert_answered(between.join(words))


@given(st.text(max_size=40))
def test_any_text_gives_a_predicate_error_or_a_result(where: str) -> None:
    assert_answered(where)


def assert_answered(where: str) -> None:
    with contextlib.suppress(PredicateError):
        skipping_of(where, columns())


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("nested", one_in(4, ["functions", "parentheses", "NOT", "CASE"]))
def test_predicate_of_the_maximum_depth_is_evaluated_by_spark(nested: str, spark: SparkSession, tmp_path: Path) -> None:
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "a.parquet", ids(1))])
    before, inner, after = NESTED[nested]
    times = next(times for times in range(MAX_DEPTH, 0, -1) if is_within(before * times + inner + after * times))
    assert times > MAX_DEPTH / 3
    where = f"{before * times}{inner}{after * times}"
    snapshot.scan(where if "=" in where else f"{where} = 1").to_df().collect()


def is_within(where: str) -> bool:
    try:
        check_tokens(where, Spark().tokenize(where))
    except PredicateError:
        return False
    return True


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
def test_stack_overflow_despite_the_limits_is_a_predicate_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "a.parquet", ids(1))])
    monkeypatch.setattr("deltasnap_core.scan.predicates.predicate.check_tokens", lambda where, tokens: None)
    with pytest.raises(PredicateError, match="StackOverflowError"):
        snapshot.scan("(" * 3_000 + "id = 1" + ")" * 3_000)


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
def test_decimal_without_a_scale_is_compared(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "a.parquet", ids(1, 10), stats=stats(1, 10))])
    assert snapshot.scan("cast(id as decimal(20)) = 10").to_df().count() == 1


@pytest.mark.parametrize(("before", "after"), [("(", ")"), ("case when 1 then ", " end"), ("! ", "")])
def test_predicate_nested_up_to_the_limit_is_accepted(before: str, after: str) -> None:
    for times, is_accepted in ((MAX_DEPTH, True), (MAX_DEPTH + 1, False)):
        where = before * times + "1" + after * times
        with contextlib.nullcontext() if is_accepted else pytest.raises(PredicateError, match="levels"):
            check_tokens(where, Spark().tokenize(where))


def test_parts_of_a_predicate_do_not_add_to_its_depth() -> None:
    nested = "(" * (MAX_DEPTH - 1) + "1" + ")" * (MAX_DEPTH - 1)
    where = f"{nested} and {nested} or coalesce({nested[1:-1]}, {nested[1:-1]}) = 1"
    check_tokens(where, Spark().tokenize(where))
    where = f"1, ({nested})"  # of the maximum depth, after a comma
    check_tokens(where, Spark().tokenize(where))


def test_conditions_up_to_the_limit_are_accepted() -> None:
    where = " and ".join(["a"] * MAX_CONDITIONS)
    check_tokens(where, Spark().tokenize(where))


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


@pytest.mark.parametrize(("digits", "is_exact"), [(34, True), (35, False)])
def test_negative_number_is_a_constant_only_with_the_digits_that_spark_keeps(digits: int, is_exact: bool) -> None:
    found = value_of(sqlglot.parse_one("-" + "9" * digits, read="spark"))
    assert (found is not None) == is_exact
