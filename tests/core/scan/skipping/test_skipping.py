"""The conditions on files for a predicate on rows, case by case. Compares text, without Spark."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_core.errors import DeltaSnapError, PredicateError
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.rules.texts.statistics_schema import bound_sql
from deltasnap_core.scan.predicates.predicate import NotParsedError
from deltasnap_core.scan.skipping.bounds import _keeps_order, bounds_of
from deltasnap_core.scan.skipping.data_skipping import Skipping, skipping_of
from deltasnap_core.scan.table_columns import TableColumn, TableColumns
from tests.builders import field
from tests.core.scan.skipping.skipping_builders import FIELDS, columns
from tests.plain_sql import evaluated


def with_texts(sql: str) -> str:
    """SQL with readable strings."""
    return re.sub(r"cast\(X'([0-9a-f]*)' as string\)", lambda hexed: f"'{bytes.fromhex(hexed[1]).decode()}'", sql)


def plain(sql: str | None) -> str | None:
    """Readable SQL."""
    if sql is None:
        return None
    sql = with_texts(sql)
    cast = r"try_cast\(\1 as [\w(),]+?\), null\)"
    sql = re.sub(rf"if\((\S+) rlike '[^']+', {cast}", r"\1", sql)
    sql = re.sub(rf"if\(\((\S+) rlike '[^']+' and .*? <= \d+\), {cast}", r"\1", sql)
    sql = re.sub(r"try_cast\((s\.[`\w.]+|partitionValues\['\w+'\]) as (?:big|small|tiny)?int\)", r"\1", sql)
    sql = re.sub(r"\(coalesce\((\S+), ''\) != '' and \1 is null\)", "malformed", sql)
    sql = re.sub(r"\(partitionValues\['\w+'\] is null and coalesce\(exists\(.*?\)\), true\)\) or ", "misspelled ", sql)
    if found := re.fullmatch(r"\((?:misspelled )+(.*)\)", sql):
        sql = f"({found[1]})" if found[1].startswith("malformed") else found[1]
    sql = re.sub(r"(?:nullif\()?partitionValues\['(\w+)'\](?:, ''\))?", r"\1", sql)
    for kind, short in (("minValues", "min"), ("maxValues", "max"), ("nullCount", "nulls")):
        sql = re.sub(rf"s\.{kind}\.", f"{short}.", sql)
    sql = re.sub(r"if\((\w+\.`\w+`) rlike '[^']+', \1, null\)", r"\1", sql).replace("`", "")
    sql = re.sub(r"if\(([\w.]+) < '1[\d-]+', null, \1\)", r"\1", sql)
    sql = re.sub(r"if\(([\w.]+) < timestamp_ltz'[^']*', try_add\(\1, interval '(-?1)' minute\), \1\)", r"\1", sql)
    sql = re.sub(
        r"try_cast\(('[^']*') as \w+\)", r"\1", re.sub(r"nullif\(([\w.]+), (?:\w+\('NaN'\)|-?\d+D)\)", r"\1", sql)
    )
    sql = re.sub(r"trim\(trailing '[^']*' from ([\w.]+)\)", r"prefix(\1)", sql)
    return sql.replace("s.numRecords", "rows")


STATISTICS = {
    "id = 5": "((nulls.id < rows) and ((min.id <= 5) and (max.id >= 5)))",
    "ID = 5": "((nulls.id < rows) and ((min.id <= 5) and (max.id >= 5)))",
    "5 < id": "((nulls.id < rows) and (max.id > 5))",
    "not id > 5": "((nulls.id < rows) and (min.id <= 5))",
    "id != 5": "((nulls.id < rows) and (min.id < 5 or max.id > 5))",
    "id <=> 5": "((nulls.id < rows) and ((min.id <= 5) and (max.id >= 5)))",
    "equal_null(id, 5)": "((nulls.id < rows) and ((min.id <= 5) and (max.id >= 5)))",
    "not id <=> 5": "((nulls.id > 0) or (min.id < 5 or max.id > 5))",
    "not (not id <=> 5)": "((nulls.id < rows) and ((min.id <= 5) and (max.id >= 5)))",
    "id <=> null": "(nulls.id > 0)",
    "id < 9223372036854775807": "((nulls.id < rows) and (min.id < 9223372036854775807))",
    "id is null": "(nulls.id > 0)",
    "isnull(id)": "(nulls.id > 0)",
    "id is not null": "(nulls.id < rows)",
    "not (id is null)": "(nulls.id < rows)",
    "id = null": "false",
    "id > 5 or false": "((nulls.id < rows) and (max.id > 5))",
    "not (id <= 5 and true)": "((nulls.id < rows) and (max.id > 5))",
    "(id > 5 and not true) or id = 1": "((nulls.id < rows) and ((min.id <= 1) and (max.id >= 1)))",
    "id > 5 or true": None,
    "not false": None,
    "id in (1, null)": "((nulls.id < rows) and ((min.id <= 1) and (max.id >= 1)))",
    "id not in (1, null)": "false",
    "id not in (1, current_date())": None,
    "name in ('b', date'2026-01-01')": None,
    "name not in ('b', 1)": None,
    "huge > -0.12345678901234567890123456789012345678BD": None,
    "id > -5": "((nulls.id < rows) and (max.id > (-5)))",
    "id between 1 and 3": "(((nulls.id < rows) and (max.id >= 1)) and ((nulls.id < rows) and (min.id <= 3)))",
    "id not between 1 and 3": "(((nulls.id < rows) and (min.id < 1)) or ((nulls.id < rows) and (max.id > 3)))",
    "cast(id as decimal(38,2)) > 3.5": "((nulls.id < rows) and (try_cast(max.id as decimal(38,2)) > 3.5))",
    "(id) = (5)": "((nulls.id < rows) and ((min.id <= 5) and (max.id >= 5)))",
    "id > cast(5 as int)": "((nulls.id < rows) and (max.id > try_cast(5 as int)))",
    "id > 5L": "((nulls.id < rows) and (max.id > try_cast(5 as bigint)))",
    "id >= cast(5.5 as decimal(3,1))": "((nulls.id < rows) and (max.id >= try_cast(5.5 as decimal(3,1))))",
    "(id > 5) is true": "((nulls.id < rows) and (max.id > 5))",
    "(id > 5) is false": "((nulls.id < rows) and (min.id <= 5))",
    "id > 5 or null": "((nulls.id < rows) and (max.id > 5))",
    "isnotnull(id)": "(nulls.id < rows)",
    "not isnotnull(id)": "(nulls.id > 0)",
    # A number above the maximum may be NaN, which not every writer counts.
    "x > 5": "(nulls.x < rows)",
    "x <= 5": "((nulls.x < rows) and (min.x <= 5))",
    "x = 5": "((nulls.x < rows) and ((min.x <= 5) and (max.x >= 5)))",
    "single <= 5": "((nulls.single < rows) and (min.single <= 5))",
    # A maximum may be truncated: longer values may start with it.
    "name > 'abc'": "((nulls.name < rows) and (max.name > 'abc' or startswith('abc', prefix(max.name))))",
    "name = 'abc'": (
        "((nulls.name < rows) and ((prefix(min.name) <= 'abc') "
        "and (max.name >= 'abc' or startswith('abc', prefix(max.name)))))"
    ),
    "name != 'abc'": "(nulls.name < rows)",
    "name like 'ab%'": (
        "((nulls.name < rows) and (left(prefix(min.name), 2) <= 'ab' and "
        "(left(max.name, 2) >= 'ab' or startswith('ab', prefix(max.name)))))"
    ),
    "name not like 'ab%'": (
        "((nulls.name < rows) and (not (startswith(prefix(min.name), 'ab') and startswith(prefix(max.name), 'ab'))))"
    ),
    "name not like 'ab%c'": "(nulls.name < rows)",
    "name like '%b'": "(nulls.name < rows)",
    "name like 'ab'": (
        "((nulls.name < rows) and ((prefix(min.name) <= 'ab') "
        "and (max.name >= 'ab' or startswith('ab', prefix(max.name)))))"
    ),
    # Two times may have the same text where clocks are put back.
    "at like '2020-10-25 02:30:00'": "(nulls.at < rows)",
    "at not like '2020-10-25 02:30:00'": "(nulls.at < rows)",
    "on_day like '2026-01-01'": "(nulls.on_day < rows)",
    "startswith(on_day, '2026')": "(nulls.on_day < rows)",
    # A maximum is truncated to milliseconds.
    "wall >= '2026-01-01'": "((nulls.wall < rows) and (try_add(max.wall, interval 1 millisecond) >= '2026-01-01'))",
    # If a constant may be null, null is equal to it.
    "on_day <=> 'x'": "('x' is null or ((nulls.on_day < rows) and ((min.on_day <= 'x') and (max.on_day >= 'x'))))",
    "wall <=> 'x'": (
        "('x' is null or ((nulls.wall < rows) and "
        "((min.wall <= 'x') and (try_add(max.wall, interval 1 millisecond) >= 'x'))))"
    ),
    "not on_day <=> 'x'": "((nulls.on_day > 0) or (min.on_day < 'x' or max.on_day > 'x'))",
    "id <=> 'x'": None,
    "day = date'x' or id is null": ("(malformed or (coalesce((day = 'x'), (day is not null)) or (nulls.id > 0)))"),
    "wall < '2026-01-01'": "((nulls.wall < rows) and (min.wall < '2026-01-01'))",
    "at < '2026-01-01'": "((nulls.at < rows) and (min.at < '2026-01-01'))",
    "at < timestamp_ltz'2026-01-01'": "((nulls.at < rows) and (min.at < '2026-01-01'))",
    "cast(wall as date) <= '2026-01-01'": "((nulls.wall < rows) and (try_cast(min.wall as date) <= '2026-01-01'))",
    # Where clocks are set back over midnight, a later time has an earlier date.
    "date(at) <= '2026-01-01'": (
        "((nulls.at < rows) and (try_cast(try_add(min.at, interval '-3' hour) as date) <= '2026-01-01'))"
    ),
    "cast(at as date) > '2026-01-01'": (
        "((nulls.at < rows) and (try_cast(try_add(try_add(max.at, interval 1 millisecond), interval '3' hour) as date)"
        " > '2026-01-01'))"
    ),
    "on_day in (date'2026-01-01', null)": (
        "((nulls.on_day < rows) and ((min.on_day <= '2026-01-01') and (max.on_day >= '2026-01-01')))"
    ),
    "on_day in ('2026-01-01')": (
        "((nulls.on_day < rows) and ((min.on_day <= '2026-01-01') and (max.on_day >= '2026-01-01')))"
    ),
    "price < 1.5": "((nulls.price < rows) and (min.price < 1.5))",
    "huge < 1.5": "((nulls.huge < rows) and (try_cast((min.huge - abs(min.huge) * 1e-15D) as decimal(20,2)) < 1.5))",
    # Types without minimum and maximum: null does not compare.
    "flag": "(nulls.flag < rows)",
    "not flag": "(nulls.flag < rows)",
    "raw = X'00'": None,
    "raw = 'a'": "(nulls.raw < rows)",
    "on_day = 5": "(nulls.on_day < rows)",
    "widened = 1": "(nulls.widened < rows)",
    # In a struct that may be null, nulls may not be counted.
    "s.a = 1": "((nulls.s.a < rows) and ((min.s.a <= 1) and (max.s.a >= 1)))",
    "s.a is null": None,
    "must.a is null": "(nulls.must.a > 0)",
    "s is null": None,
    "items is null": None,
    "id = 1 and length(name) > 3": "((nulls.id < rows) and ((min.id <= 1) and (max.id >= 1)))",
    "id = 1 or length(name) > 3": None,
    "day = '2026-01-01' and id = 1": "((nulls.id < rows) and ((min.id <= 1) and (max.id >= 1)))",
    "(region = 'eu' and id > 5) or region = 'us'": (
        "((coalesce((region = 'eu'), false) and ((nulls.id < rows) and (max.id > 5)))"
        " or coalesce((region = 'us'), false))"
    ),
    "id > 5 or region is null": "(((nulls.id < rows) and (max.id > 5)) or (region is null))",
    "id > 5 or region is not null": "(((nulls.id < rows) and (max.id > 5)) or (region is not null))",
    "case when id = 1 and flag then true else false end and id > 5": "((nulls.id < rows) and (max.id > 5))",
}

NOTHING = [
    "id < 9223372036854775808",
    f"id < {'9' * 5000}",
    "-9223372036854775809 < id",
    "id < cast(9223372036854775808 as decimal(20,0))",
    "id + 1 = 5",
    "cast(id as int) = 5",
    "cast(id as string) = '5'",
    "name = upper(name)",
    "id = 1 is not true",
    "not (flag is true)",
    "id > cast('5' as int)",
    "id = cast(5 as string)",
    "id > -null",
    "id > 0x1F",
    "name = 'a\\tb'",
    "name like 'a' escape '/'",
    "rand() > 0.5",
    "day < current_date()",
    "day = date'today'",
    "day = date'tomorrow'",
    "day = date'yesterday'",
    "at < timestamp'now'",
    "at < timestamp' Today  Europe/Berlin'",
    "on_day in ('2026-01-01', timestamp'2026-01-01 00:00:00')",
    "on_day in ('2026-01-01', '2026-1-2')",
    "at in ('2026-01-01')",
    "id in (9007199254740993, 1e0)",
    "price in (0.5, 12345678901234567890123456789012345678)",
    "id in (0.5, 12345678901234567890123456789012345678)",
    "exists(items, x -> x > 1)",
    "name like any ('a%', 'b%')",
]

PARTITIONS = {
    # An invalid value keeps the file, so that the scan reports it.
    "day >= '2026-03-01'": "(malformed or coalesce(((day) >= '2026-03-01'), false))",
    "upper(region) = 'EU' and id = 1": "coalesce((upper((region)) = 'EU'), false)",
    "`Region` = 'a' or day is null": "(malformed or coalesce(((region) = 'a' or (day) is null), false))",
    "(region = 'eu' and id > 5) or region = 'us'": (
        "(coalesce((region = 'eu'), false) or coalesce((region = 'us'), false))"
    ),
    "not (region = 'eu' or id > 5)": "coalesce((region != 'eu'), false)",
    "(region like 'e%' and id > 5) or region not like 'u%'": (
        "(coalesce((startswith(region, 'e')), false) or coalesce((not startswith(region, 'u')), false))"
    ),
    "region = 'eu' or id > 5": None,
    "1 = 1": "coalesce((1 = 1), false)",
}


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<=>": operator.eq,
}


@pytest.mark.parametrize("symbol", COMPARISONS)
@pytest.mark.parametrize("form", ["id {} 5", "5 {} id", "not id {} 5", "not 5 {} id"])
def test_file_is_kept_if_and_only_if_a_row_matches(form: str, symbol: str) -> None:
    condition = plain(skipping_of(form.format(symbol), columns()).statistics) or ""
    is_negated, is_mirrored = form.startswith("not"), form.endswith("id")

    def matches(value: int) -> bool:
        sides = (5, value) if is_mirrored else (value, 5)
        return COMPARISONS[symbol](*sides) is not is_negated

    for low, high in [(4, 4), (5, 5), (6, 6), (4, 5), (5, 6)]:
        bounds = {"min": SimpleNamespace(id=low), "max": SimpleNamespace(id=high)}
        is_kept = eval(condition, {**bounds, "nulls": SimpleNamespace(id=0), "rows": 2})
        assert is_kept is any(map(matches, range(low, high + 1))), (low, high, condition)


@pytest.mark.parametrize("where", STATISTICS)
def test_statistics_select_files_that_may_match(where: str) -> None:
    assert plain(skipping_of(where, columns()).statistics) == STATISTICS[where]


@pytest.mark.parametrize("where", PARTITIONS)
def test_partition_values_select_files_that_may_match(where: str) -> None:
    assert plain(skipping_of(where, columns()).partitions) == PARTITIONS[where]


@pytest.mark.parametrize("where", NOTHING)
def test_uncertain_conditions_skip_no_files_and_are_reported(where: str) -> None:
    assert skipping_of(where, columns()) == Skipping(unused=(where,))


def test_partition_conditions_that_may_fail_can_be_excluded() -> None:
    where = "cast(region as int) = 5 and region = 5 and region like 'e%'"
    assert skipping_of(where, columns()).may_fail
    assert plain(skipping_of(where, columns(), may_fail=False).partitions) == "coalesce(((region) like 'e%'), false)"
    assert not skipping_of("region in ('eu', 'us') and day < '2026-01-01'", columns()).may_fail


@pytest.mark.parametrize("where", ["items.a is null", "items.a[0] = 1 and id = 5", "labels.colour = 'red'"])
def test_fields_inside_arrays_and_maps_are_resolved_by_spark(where: str) -> None:
    strings = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    skipping = skipping_of(where, columns([*FIELDS, field("labels", strings)]))
    assert "id = 5" in where or skipping == Skipping(unused=(where,))


def test_predicate_nested_deeper_than_the_parser_limit_is_evaluated_by_spark() -> None:
    with pytest.raises(NotParsedError):
        skipping_of("(" * 90 + "id = 1" + ")" * 90, columns())


def test_conditions_are_reported_as_written() -> None:
    skipping = skipping_of("day = '2026-01-01'  AND id between 1 and 2 and (id + 1 = 2)", columns())
    assert skipping.used == ("day = '2026-01-01'", "id between 1 and 2")
    assert skipping.unused == ("(id + 1 = 2)",)


@pytest.mark.parametrize("name", ["date", "timestamp", "comment", "pivot", "value", "key", "order", "user", "set"])
def test_column_may_be_named_like_a_keyword(name: str) -> None:
    named = TableColumns(
        Metadata(id="t", schema_string=json.dumps({"type": "struct", "fields": [field(name, "long")]}))
    )
    for where in (f"{name} > 5", f"not {name} in (5)", f"{name} between 1 and 2", f"5 = {name} and {name} is not null"):
        assert skipping_of(where, named).unused == (), where


def test_comments_are_removed_from_a_predicate() -> None:
    skipping = skipping_of("day = '2026-01-01' -- the first\n and /* or */ region = 'eu' -- and no more", columns())
    assert skipping.used == ("day = '2026-01-01'", "region = 'eu'")
    assert "--" not in (skipping.partitions or "")


def test_only_requested_statistics_are_read() -> None:
    skipping = skipping_of("id > 5 and s.`b.c` is not null", columns())
    assert skipping.schema == (
        "struct<`maxValues`: struct<`id`: string>, `nullCount`: struct<`id`: bigint, `s`: struct<`b.c`: bigint>>, "
        "`numRecords`: bigint>"
    )


def test_statistics_and_partition_values_use_physical_names() -> None:
    fields = [
        field("id", "long", **{"delta.columnMapping.physicalName": "col-1"}),
        field("region", "string", **{"delta.columnMapping.physicalName": "col-2"}),
    ]
    mapped = columns(fields, configuration={"delta.columnMapping.mode": "name"})
    skipping = skipping_of("id > 5 and region = 'eu'", mapped)
    assert "s.maxValues.`col-1`" in (skipping.statistics or "")
    assert "partitionValues['col-2']" in (plain(skipping.partitions) or "")


def test_constant_is_never_sql_of_the_caller() -> None:
    statistics = skipping_of('name = "x\' or 1 = 1 --"', columns()).statistics or ""
    assert "or 1 = 1" not in statistics
    assert b"x' or 1 = 1 --".hex() in statistics


@pytest.mark.parametrize(
    ("where", "position", "reported"),
    [
        ("nope = 1", 0, "no column nope"),
        ("id = 1 and\n s.z > 2", 12, "no column s.z"),
        ("nope.q.r.t.u = 2", 0, "no column nope.q.r.t.u; it has id, x, name, "),
        ("id = ", 3, "missing"),
        ("id = 1 or\n\n(id = ", 15, "missing"),
        ("sum(id) > 1", 4, "aggregate"),
        ("sum(named_struct('a', id).a) > 1", 22, "aggregate"),
        (") = 1", 0, "Unexpected token"),
        ("id in (select 1)", None, "query"),
        ("row_number() over (order by id) = 1", None, "window"),
        ("id = ?", None, "parameter"),
        ("select 1", None, ""),
        ("id = 1; drop table t", None, ""),
        ("id = 'x", None, ""),
        ("", None, "empty"),
        ("name = 'a\ud800'", 9, "half of a character"),
    ],
)
def test_invalid_predicate_is_a_value_error_with_the_position(where: str, position: int | None, reported: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reported) or None) as raised:
        skipping_of(where, columns())
    error: Any = raised.value
    assert isinstance(error, DeltaSnapError)
    assert isinstance(error, PredicateError)
    assert error.predicate == where
    assert where.rpartition("\n")[2] in str(error)
    if position is not None:
        assert error.position == position


@pytest.mark.parametrize("where", ["exists(items, v -> w > 1)", "my_function(nope = 1)"])
def test_names_inside_lambdas_and_unknown_functions_are_left_to_spark(where: str) -> None:
    assert skipping_of(where, columns()).unused


MANY = {
    "number": ("id", map(str, range(-7, 300)), "id between (-7) and 299"),
    "null": ("id", ["null", *map(str, range(250))], "id between 0 and 249"),
    "string": ("name", [f"'{number}'" for number in range(10, 300)], "name between '10' and '99'"),
    "date": ("on_day", [f"'2026-01-01', '2025-{month:02}-{day:02}'" for month in range(1, 11) for day in range(1, 25)],
             "on_day between '2025-01-01' and '2026-01-01'"),
}  # fmt: skip


@pytest.mark.parametrize("case", MANY)
def test_many_alternatives_select_files_by_the_least_and_the_greatest(case: str) -> None:
    column, values, same = MANY[case]
    found = skipping_of(f"{column} in ({', '.join(values)})", columns())
    assert found.statistics is not None
    assert found.statistics == skipping_of(same, columns()).statistics
    assert found.used


@pytest.mark.parametrize(
    "where",
    [
        f"id not in ({', '.join(map(str, range(300)))})",
        f"id in ({', '.join(['null'] * 300)})",
        f"id in ({', '.join(map(str, range(300)))}, 1e3)",
        f"id in ({', '.join(['null'] * 300)}, 5L)",
        f"id in ({', '.join(['null'] * 300)}, -(-5))",
        f"flag in ({', '.join(['true', 'false'] * 150)})",
    ],
)
def test_other_long_lists_only_select_rows(where: str) -> None:
    assert skipping_of(where, columns()).statistics is None


@pytest.mark.parametrize(("kind", "is_checked"), [("float", True), ("double", True), ("long", False)])
def test_minimum_that_is_no_number_is_no_bound(kind: str, is_checked: bool) -> None:
    """Writers may state NaN, which is greater than every number in Spark."""
    bounds = bounds_of(TableColumn(path=("x",), physical_path=("x",), data_type=kind))
    assert bounds is not None
    lower = bounds.lower or ""
    assert (lower.startswith("nullif("), lower.endswith(f", {kind}('NaN'))")) == (is_checked, is_checked)


@pytest.mark.parametrize(
    ("kind", "stated", "lower", "upper"),
    [
        ("date", "1582-10-14", None, None),
        ("date", "1582-10-15", "1582-10-15", "1582-10-15"),
        ("timestamp_ntz", "1900-01-02 23:59:59", None, None),
        ("timestamp_ntz", "1900-01-03 00:00:00", "1900-01-03 00:00:00", "1900-01-03 00:00:00.001000"),
        ("timestamp", "1900-01-02 23:59:59", None, None),
        ("timestamp", "1972-01-07 00:44:59", "1972-01-07 00:43:59", "1972-01-07 00:45:59.001000"),
        ("timestamp", "1972-01-07 00:45:01", "1972-01-07 00:45:01", "1972-01-07 00:45:01.001000"),
    ],
)
def test_bounds_of_early_dates_and_times_are_not_used_or_widened(
    kind: str, stated: str, lower: str | None, upper: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def try_add(at: str | None, interval: str) -> str | None:
        number, unit = interval.split()
        return at and str(datetime.fromisoformat(at) + timedelta(**{f"{unit}s": int(number)}))

    def value(sql: str | None) -> Any:
        sql = re.sub(r"s\.\w+\.`x`", "stated", sql or "").replace("timestamp_ltz", "")
        sql = re.sub(r"interval '?(-?\d+)'? (\w+)", r"'\1 \2'", sql)
        return evaluated(sql, functions={"try_add": try_add}, stated=stated)

    monkeypatch.setattr("deltasnap_core.scan.skipping.bounds.bound_sql", lambda text, *_: text)
    found = bounds_of(TableColumn(path=("x",), physical_path=("x",), data_type=kind))
    assert found is not None
    assert (value(found.lower), value(found.upper)) == (lower, upper)


@pytest.mark.parametrize(("digits", "is_widened"), [(15, False), (16, True)])
def test_bound_with_more_digits_than_a_float_has_is_widened(digits: int, is_widened: bool) -> None:
    assert ("1e-15D" in (bound_sql("stated", f"decimal({digits},2)", "minValues") or "")) == is_widened


CASTS = {
    "byte": {"byte": True, "short": True, "double": True, "decimal(3,0)": True, "decimal(4,2)": False, "float": False},
    "short": {"byte": False, "integer": True, "decimal(5)": True, "decimal(4,0)": False, "decimal(7,2)": True},
    "integer": {"short": False, "long": True, "decimal(10,0)": True, "decimal(9,0)": False, "decimal(11,2)": False},
    "long": {"integer": False, "long": True, "decimal(20,0)": True, "decimal(19,0)": False, "string": False},
    "float": {"double": True, "float": False, "decimal(38,2)": False},
    "double": {"float": False},
    "date": {"timestamp": True, "timestamp_ntz": True, "string": False},
    "timestamp": {"date": True, "timestamp_ntz": False},
    "timestamp_ntz": {"date": True, "timestamp": False},
    "string": {"date": False, "long": False},
    "decimal(3,0)": {"decimal(5,0)": False, "long": False},
}


@pytest.mark.parametrize("source", CASTS)
def test_bounds_are_cast_only_if_their_order_and_values_are_kept(source: str) -> None:
    assert {target: _keeps_order(source, target) for target in CASTS[source]} == CASTS[source]
