"""The files that a predicate on rows keeps, case by case."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core.errors import DeltaSnapError, PredicateError
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.rules.texts.statistics_schema import bound_sql
from deltasnap_core.scan.planning import condition_on_files
from deltasnap_core.scan.skipping.bounds import _keeps_order, bounds_of
from deltasnap_core.scan.skipping.data_skipping import Skipping, skipping_of
from deltasnap_core.scan.table_columns import TableColumn, TableColumns
from tests.builders import field
from tests.core.scan.skipping.skipping_builders import FIELDS, columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


DAYS = {1: "2025-12-28", 4: "2025-12-31", 5: "2026-01-01", 6: "2026-01-02", 9: "2026-01-05"}
NAMES = {1: "aaa", 4: "abb", 5: "abc", 6: "abd", 9: "b"}
COUNTED = ("id", "x", "name", "at", "wall", "on_day", "price", "huge", "flag", "raw", "widened", "single")


def bounds(number: int, **changed: str) -> dict[str, Any]:
    """The same value in all columns that have bounds, from 1 to 9."""
    day, midnight = DAYS[number], f"{DAYS[number]}T00:00:00.000"
    numbers = {**dict.fromkeys(("id", "x", "widened", "single"), number), "price": number - 4, "huge": number - 4}
    times = {"at": f"{midnight}Z", "wall": midnight, "on_day": day}
    inner = {"s": {"a": number, "b.c": NAMES[number]}, "must": {"a": number}}
    return {**numbers, **times, **inner, "name": NAMES[number], **changed}


def statistics(low: int, high: int, *, nulls: int = 0, **changed: str) -> str:
    ends = {"minValues": bounds(low, **changed), "maxValues": bounds(high, **changed)} if nulls < 2 else {}
    counts = {**dict.fromkeys(COUNTED, nulls), "s": {"a": nulls, "b.c": nulls}, "must": {"a": nulls}}
    return json.dumps({"numRecords": 2, **ends, "nullCount": counts})


FileFacts = tuple[str | None, Mapping[str, str | None]]

EU = {"region": "eu", "day": DAYS[5]}
FILES: dict[str, FileFacts] = {
    "b": (statistics(1, 4), EU),  # below 5
    "e": (statistics(5, 5), EU),  # equal to 5
    "a": (statistics(6, 9), EU),  # above 5
    "x": (statistics(4, 6), EU),  # across 5
    "c": (statistics(5, 5, name="ab"), EU),  # a name that was cut
    "s": (statistics(5, 5, nulls=1), EU),  # some null
    "n": (statistics(5, 5, nulls=2), EU),  # nulls only
    "u": (None, EU),  # unknown
    "p": (statistics(1, 4), {"region": "us", "day": None}),  # of another partition
    "m": (statistics(6, 9), {"region": None, "day": "x"}),  # malformed partition value
}
"""Statistics and partition values of the files, by one letter each."""


def kept(
    spark: SparkSession,
    wheres: Collection[str],
    table: TableColumns | None = None,
    files: Mapping[str, FileFacts] = FILES,
) -> dict[str, str]:
    """Return the letters of the files that each predicate keeps."""
    found = [condition_on_files(skipping_of(each, table or columns()), parsed=False) for each in wheres]
    rows = [(name, values, stats) for name, (stats, values) in files.items()]
    frame = spark.createDataFrame(rows, "name string, partitionValues map<string, string>, stats string")
    tested = frame.selectExpr("name", *(f"{each or 'true'} as c{number}" for number, each in enumerate(found)))
    answers = tested.collect()
    return {where: "".join(row.name for row in answers if row[f"c{number}"]) for number, where in enumerate(wheres)}


KEPT = {
    "id = 5": "excsu",
    "ID = 5": "excsu",
    "5 < id": "axum",
    "not id > 5": "bexcsup",
    "id != 5": "baxupm",
    "id <=> 5": "excsu",
    "equal_null(id, 5)": "excsu",
    "not id <=> 5": "baxsnupm",
    "not (not id <=> 5)": "excsu",
    "id <=> null": "snu",
    "id < 9223372036854775807": "beaxcsupm",
    "id is null": "snu",
    "isnull(id)": "snu",
    "id is not null": "beaxcsupm",
    "not (id is null)": "beaxcsupm",
    "id = null": "",
    "id > 5 or false": "axum",
    "not (id <= 5 and true)": "axum",
    "(id > 5 and not true) or id = 1": "bup",
    "id > 5 or true": "beaxcsnupm",
    "not false": "beaxcsnupm",
    "id in (1, null)": "bup",
    "id not in (1, null)": "",
    "id not in (1, current_date())": "beaxcsnupm",
    "name in ('b', date'2026-01-01')": "beaxcsnupm",
    "name not in ('b', 1)": "beaxcsnupm",
    "huge > -0.12345678901234567890123456789012345678BD": "beaxcsnupm",
    "id > -5": "beaxcsupm",
    "id between 1 and 3": "bup",
    "id not between 1 and 3": "beaxcsupm",
    "cast(id as decimal(38,2)) > 3.5": "beaxcsupm",
    "(id) = (5)": "excsu",
    "id > cast(5 as int)": "axum",
    "id > 5L": "axum",
    "id >= cast(5.5 as decimal(3,1))": "axum",
    "(id > 5) is true": "axum",
    "(id > 5) is false": "bexcsup",
    "id > 5 or null": "axum",
    "isnotnull(id)": "beaxcsupm",
    "not isnotnull(id)": "snu",
    # A number above the maximum may be NaN, which not every writer counts.
    "x > 5": "beaxcsupm",
    "x <= 5": "bexcsup",
    "x = 5": "excsu",
    "single <= 5": "bexcsup",
    # A maximum may be truncated: longer values may start with it.
    "name > 'abc'": "eaxcsum",
    "name = 'abc'": "excsu",
    "name != 'abc'": "beaxcsupm",
    "name like 'ab%'": "beaxcsupm",
    "name not like 'ab%'": "baupm",
    "name not like 'ab%c'": "beaxcsupm",
    "name like '%b'": "beaxcsupm",
    "name like 'ab'": "bcup",
    # Two times may have the same text where clocks are put back.
    "at like '2020-10-25 02:30:00'": "beaxcsupm",
    "at not like '2020-10-25 02:30:00'": "beaxcsupm",
    "on_day like '2026-01-01'": "beaxcsupm",
    "startswith(on_day, '2026')": "beaxcsupm",
    # A maximum is truncated to milliseconds.
    "wall >= '2026-01-01'": "eaxcsum",
    # If a constant may be null, null is equal to it.
    "on_day <=> 'x'": "beaxcsnupm",
    "wall <=> 'x'": "beaxcsnupm",
    "not on_day <=> 'x'": "beaxcsnupm",
    "id <=> 'x'": "beaxcsnupm",
    "day = date'x' or id is null": "beaxcsnum",
    "wall < '2026-01-01'": "bxup",
    "at < '2026-01-01'": "bxup",
    "at < timestamp_ltz'2026-01-01'": "bxup",
    "cast(wall as date) <= '2026-01-01'": "bexcsup",
    # Where clocks are set back over midnight, a later time has an earlier date.
    "date(at) <= '2026-01-01'": "beaxcsupm",
    "cast(at as date) > '2026-01-01'": "axum",
    "on_day in (date'2026-01-01', null)": "excsu",
    "on_day in ('2026-01-01')": "excsu",
    "price < 1.5": "bexcsup",
    "huge < 1.5": "bexcsup",
    # Types without minimum and maximum: null does not compare.
    "flag": "beaxcsupm",
    "not flag": "beaxcsupm",
    "raw = X'00'": "beaxcsnupm",
    "raw = 'a'": "beaxcsupm",
    "on_day = 5": "beaxcsupm",
    "widened = 1": "beaxcsupm",
    # In a struct that may be null, nulls may not be counted.
    "s.a = 1": "bup",
    "s.a is null": "beaxcsnupm",
    "must.a is null": "snu",
    "s is null": "beaxcsnupm",
    "items is null": "beaxcsnupm",
    "id = 1 and length(name) > 3": "bup",
    "id = 1 or length(name) > 3": "beaxcsnupm",
    "day = '2026-01-01' and id = 1": "bu",
    "(region = 'eu' and id > 5) or region = 'us'": "axup",
    "id > 5 or region is null": "axum",
    "id > 5 or region is not null": "beaxcsnupm",
    "case when id = 1 and flag then true else false end and id > 5": "axum",
    # An invalid value keeps the file, so that the scan reports it.
    "day >= '2026-03-01'": "m",
    "upper(region) = 'EU' and id = 1": "bu",
    "`Region` = 'a' or day is null": "pm",
    "not (region = 'eu' or id > 5)": "p",
    "(region like 'e%' and id > 5) or region not like 'u%'": "beaxcsnu",
    "region = 'eu' or id > 5": "beaxcsnum",
    "1 = 1": "beaxcsnupm",
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

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<=>": operator.eq,
}


FORMS = ("id {} 5", "5 {} id", "not id {} 5", "not 5 {} id")


def test_file_is_kept_if_and_only_if_a_row_matches(spark: SparkSession) -> None:
    def matches(form: str, symbol: str, value: int) -> bool:
        sides = (5, value) if form.endswith("id") else (value, 5)
        return COMPARISONS[symbol](*sides) is not form.startswith("not")

    files = {"b": (4, 4), "e": (5, 5), "a": (6, 6), "x": (4, 5), "y": (5, 6)}
    wanted = {
        form.format(symbol): "".join(
            name for name, ends in files.items() if any(matches(form, symbol, value) for value in ends)
        )
        for form in FORMS
        for symbol in COMPARISONS
    }
    described = {name: (statistics(*ends), EU) for name, ends in files.items()}
    assert kept(spark, wanted, files=described) == wanted


def test_files_that_may_match_are_kept(spark: SparkSession) -> None:
    assert kept(spark, KEPT) == KEPT


@pytest.mark.parametrize("where", NOTHING)
def test_uncertain_conditions_skip_no_files_and_are_reported(where: str) -> None:
    assert skipping_of(where, columns()) == Skipping(unused=(where,))


def test_partition_conditions_that_may_fail_can_be_excluded() -> None:
    where = "cast(region as int) = 5 and region = 5 and region like 'e%'"
    sure = skipping_of(where, columns()).sure
    assert sure is not None
    assert (sure.sure, sure.used) == (None, ("region like 'e%'",))
    assert skipping_of("region in ('eu', 'us') and day < '2026-01-01'", columns()).sure is None


@pytest.mark.parametrize("where", ["items.a is null", "items.a[0] = 1 and id = 5", "labels.colour = 'red'"])
def test_fields_inside_arrays_and_maps_are_resolved_by_spark(where: str) -> None:
    strings = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    skipping = skipping_of(where, columns([*FIELDS, field("labels", strings)]))
    assert "id = 5" in where or skipping == Skipping(unused=(where,))


@pytest.mark.parametrize(
    "where",
    [
        "id = ",
        "id = 1 or\n\n(id = ",
        ") = 1",
        "select 1",
        "id = 1; drop table t",
        "id = 'x",
        "",
        f"{'(' * 90}id = 1{')' * 90}",
    ],
)
def test_text_that_the_parser_rejects_is_left_to_spark(where: str) -> None:
    assert skipping_of(where, columns()) == Skipping(unused=(where,))


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


def test_condition_after_or_is_seen_behind_a_column_named_like_a_bracket(spark: SparkSession) -> None:
    table = columns([field("id", "long"), field("end", "boolean")])
    wanted = {"id = 1 and end or id = 5": "bexcsup", "id = 1 and end and id < 3": "bup"}
    assert kept(spark, wanted, table) == wanted


def test_comments_are_removed_from_a_predicate(spark: SparkSession) -> None:
    where = "day = '2026-01-01' -- the first\n and /* or */ region = 'eu' -- and no more"
    assert kept(spark, [where]) == {where: "beaxcsnum"}
    skipping = skipping_of(where, columns())
    assert skipping.used == ("day = '2026-01-01'", "region = 'eu'")


def test_only_requested_statistics_are_read() -> None:
    skipping = skipping_of("id > 5 and s.`b.c` is not null", columns())
    assert skipping.schema == (
        "struct<`maxValues`: struct<`id`: string>, `nullCount`: struct<`id`: bigint, `s`: struct<`b.c`: bigint>>, "
        "`numRecords`: bigint>"
    )


def test_statistics_and_partition_values_use_physical_names(spark: SparkSession) -> None:
    fields = [
        field("id", "long", **{"delta.columnMapping.physicalName": "col-1"}),
        field("region", "string", **{"delta.columnMapping.physicalName": "col-2"}),
    ]
    mapped = columns(fields, configuration={"delta.columnMapping.mode": "name"})
    ends = {"numRecords": 1, "maxValues": {"col-1": 6, "id": 1}, "nullCount": {"col-1": 0, "id": 1}}
    files = {region: (json.dumps(ends), {"col-2": region}) for region in ("eu", "us")}
    wanted = {"id > 5 and region = 'eu'": "eu", "id > 6": "", "region = 'us'": "us"}
    assert kept(spark, wanted, mapped, files) == wanted


def test_string_of_the_caller_is_no_sql(spark: SparkSession) -> None:
    wanted = {'name = "x\' or 1 = 1 --"': "u", "region = 'x\\' or 1 = 1 --'": "", "name = '{}'": "u"}
    assert kept(spark, wanted) == wanted


@pytest.mark.parametrize(
    ("where", "position", "reported"),
    [
        ("nope = 1", 0, "no column nope"),
        ("id = 1 and\n s.z > 2", 12, "no column s.z"),
        ("nope.q.r.t.u = 2", 0, "no column nope.q.r.t.u; it has id, x, name, "),
        ("sum(id) > 1", 4, "aggregate"),
        ("sum(named_struct('a', id).a) > 1", 22, "aggregate"),
        ("id in (select 1)", None, "query"),
        ("row_number() over (order by id) = 1", None, "window"),
        ("id = ?", None, "parameter"),
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


def test_many_alternatives_select_files_by_the_least_and_the_greatest(spark: SparkSession) -> None:
    lists = {f"{column} in ({', '.join(values)})": same for column, values, same in MANY.values()}
    found, wanted = kept(spark, lists), kept(spark, lists.values())
    assert found == {where: wanted[same] for where, same in lists.items()}
    assert all(skipping_of(where, columns()).used for where in lists)


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


@pytest.mark.parametrize("kind", ["float", "double"])
def test_minimum_that_is_no_number_is_no_bound(spark: SparkSession, kind: str) -> None:
    """Writers may state NaN, which is greater than every number in Spark."""
    stats = '{"numRecords": 1, "minValues": {"x": "NaN"}, "maxValues": {"x": "NaN"}, "nullCount": {"x": 0}}'
    wanted = {"x < 5": "f", "x > 5": "f"}
    assert kept(spark, wanted, columns([field("x", kind)]), {"f": (stats, EU)}) == wanted


@pytest.mark.parametrize(
    ("kind", "stated", "lower", "upper"),
    [
        ("date", "1582-10-14", None, None),
        ("date", "1582-10-15", "1582-10-15", "1582-10-15"),
        ("timestamp_ntz", "1900-01-02 23:59:59", None, None),
        ("timestamp_ntz", "1900-01-03 00:00:00", "1900-01-03 00:00:00", "1900-01-03 00:00:00.001"),
        ("timestamp", "1900-01-02 23:59:59Z", None, None),
        ("timestamp", "1972-01-07 00:44:59Z", "1972-01-07 00:43:59", "1972-01-07 00:45:59.001"),
        ("timestamp", "1972-01-07 00:45:01Z", "1972-01-07 00:45:01", "1972-01-07 00:45:01.001"),
    ],
)
def test_bounds_of_early_dates_and_times_are_not_used_or_widened(
    spark: SparkSession, kind: str, stated: str, lower: str | None, upper: str | None
) -> None:
    found = bounds_of(TableColumn(path=("x",), physical_path=("x",), data_type=kind))
    assert found is not None
    assert found.lower is not None
    assert found.upper is not None
    value = f"named_struct('x', '{stated}')"
    frame = spark.range(1).selectExpr(f"named_struct('minValues', {value}, 'maxValues', {value}) as s")
    ends = frame.selectExpr(*(f"cast({end.text} as string)" for end in (found.lower, found.upper)))
    assert tuple(ends.collect()[0]) == (lower, upper)


@pytest.mark.parametrize(("digits", "is_widened"), [(15, False), (16, True)])
def test_bound_with_more_digits_than_a_float_has_is_widened(spark: SparkSession, digits: int, is_widened: bool) -> None:
    sql = bound_sql("'9000000000000'", f"decimal({digits},2)", "minValues")
    (row,) = spark.range(1).selectExpr(f"{sql} < 9000000000000 as is_widened").collect()
    assert row.is_widened == is_widened


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
