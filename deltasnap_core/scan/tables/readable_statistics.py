"""Statistics of files as columns: for `files` as values of the columns' types, for `column_stats` their coverage."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.rules.texts.sql_text import let_sql, quoted
from deltasnap_core.rules.texts.statistics_schema import struct_type
from deltasnap_core.rules.texts.typed_texts import python_value_sql, typed_sql
from deltasnap_core.rules.texts.whole_json import whole_statistics_sql
from deltasnap_core.rules.totals.num_records import num_records_sql
from deltasnap_core.scan.skipping.bounds import bounds_of
from deltasnap_core.scan.table_columns import TableColumn, distinct_names

_BOUNDS = ("minValues", "maxValues")
_WITH_NULLS = "map('ignoreNullFields', 'false')"
_STATED = {"number": "int", "kind": "int", "low": "string", "high": "string", "nulls": "bigint"}
_NO_COLUMNS = "struct<numRecords: bigint>"


def readable_statistics_sql(columns: list[TableColumn]) -> str:
    """Return SQL over `stats` for a struct by column: min, max in the column's type, null_count; null: not stated."""
    return let_sql("s", _parsed(columns), _typed(columns))


def coverage_of_statistics(columns: list[TableColumn], files: DataFrame) -> DataFrame:
    """Return the coverage of the statistics of files, one row for each column, as `MetadataTables.column_stats`."""
    spark = files.sparkSession
    if not columns:
        return spark.range(0).selectExpr(*_COVERAGE_TYPES)
    # A row for each file and column. With expressions for each column, a plan would take minutes for thousands.
    kinds = {_kind(column): column for column in columns}
    places = {kind: place for place, kind in enumerate(kinds)}
    within: dict[tuple[str, ...], list[tuple[int, TableColumn]]] = {}
    for number, column in enumerate(columns):
        within.setdefault(column.physical_path[:-1], []).append((number, column))
    arrays = (_stated(fields, [places[_kind(column)] for _, column in fields]) for fields in within.values())
    each = f"inline(concat({', '.join(arrays)}))"
    # First, so that Spark does not count the records of a file again for each column.
    counted = files.selectExpr("stats", f"greatest({num_records_sql('stats')}, 0L) as records")
    rows = counted.selectExpr("records", each)
    found = aggregated(rows, ["number"], *map(F.expr, (*_TOTALS, *_extremes(kinds.values()))))
    leaves = pa.table(
        {
            "number": pa.array(range(len(columns)), pa.int32()),
            "column": pa.array(distinct_names(columns)),
            "type": pa.array([column.data_type for column in columns]),
        }
    )
    shown = arrow_rows(spark, leaves).join(found, "number", "left").orderBy("number")
    return shown.selectExpr("`column`", "type", *_COVERAGE)


def _typed(columns: list[TableColumn]) -> str:
    fields = []
    for name, column in zip(distinct_names(columns), columns, strict=True):
        path = ".".join(map(quoted, column.physical_path))
        texts = (_readable(column, f"s.{kind}.{path}") for kind in _BOUNDS)
        low, high = (python_value_sql(text, column.data_type) if _is_typed(column) else text for text in texts)
        value = f"struct({low} as min, {high} as max, s.nullCount.{path} as null_count)"
        fields.append(f"{value} as {quoted(name)}")
    return f"struct({', '.join(fields)})"


_COVERAGE_TYPES = (
    "cast(null as string) as `column`", "cast(null as string) as type",
    *(f"cast(null as bigint) as {name}" for name in (
        "files", "files_with_min", "files_with_max", "files_with_null_count", "records", "records_with_min",
        "records_with_null_count")),
    *(f"cast(null as double) as {name}" for name in ("share_of_files", "share_of_records")),
    "cast(null as bigint) as null_count", "cast(null as string) as min", "cast(null as string) as max",
)  # fmt: skip


def _parsed(columns: list[TableColumn]) -> str:
    parts = [f"{kind}: {_nested(columns, 'string')}" for kind in _BOUNDS]
    schema = f"struct<{', '.join(parts)}, nullCount: {_nested(columns, 'bigint')}>"
    return whole_statistics_sql("stats", schema if columns else _NO_COLUMNS)


def _stated(fields: Sequence[tuple[int, TableColumn]], places: Sequence[int]) -> str:
    """Return SQL for the statistics of the fields of one struct, or of columns, as an array of structs.

    fields: each with its number. places: of their kinds. The struct is converted to the array of its values as text.
    """
    columns = [column for _, column in fields]
    above = list(map(quoted, columns[0].physical_path[:-1]))
    values = []
    for kind, name in ((_BOUNDS[0], "low"), (_BOUNDS[1], "high"), ("nullCount", "nulls")):
        text = f"to_json({'.'.join(['s', kind, *above])}, {_WITH_NULLS})"
        values.append(f"map_values(from_json({text}, 'map<string, string>')) as {name}")
    lists = [(",".join(str(number) for number, _ in fields), "number"), (",".join(map(str, places)), "kind")]
    values += [f"split('{numbers}', ',') as {name}" for numbers, name in lists]
    each = ", ".join(f"cast(get(t.{name}, i) as {kind}) as {name}" for name, kind in _STATED.items())
    array = f"transform(sequence(0, {len(fields) - 1}), i -> struct({each}))"
    return let_sql("s", _parsed(columns), let_sql("t", f"struct({', '.join(values)})", array))


def _extremes(kinds: Collection[TableColumn]) -> Iterator[str]:
    """Yield SQL for the least and the greatest bound. kinds: a column of each kind, in the order of their places."""
    for name, bound in (("min", "low"), ("max", "high")):
        each = (
            f"cast({name}(if(kind = {place}, {_readable(column, bound)}, null)) as string)"
            for place, column in enumerate(kinds)
        )
        yield f"coalesce({', '.join(each)}) as {name}"


def _total(condition: str) -> str:
    """Return SQL for the records of the files that meet a condition; null beyond 64 bits."""
    return f"try_sum(if({condition}, records, 0L))"


_BOTH = "low is not null and high is not null"
_TOTALS = (
    "count(1) as files", "count(low) as files_with_min", "count(high) as files_with_max",
    "count(nulls) as files_with_null_count", f"count_if({_BOTH}) as files_with_both", f"{_total('true')} as records",
    f"{_total('low is not null')} as records_with_min", f"{_total('nulls is not null')} as records_with_null_count",
    f"{_total(_BOTH)} as records_with_both", "try_sum(nulls) as null_count",
)  # fmt: skip
_SUMS = ("records", "records_with_min", "records_with_null_count")
_COVERAGE = (
    *(f"coalesce({name}, 0L) as {name}" for name in ("files", "files_with_min", "files_with_max")),
    "coalesce(files_with_null_count, 0L) as files_with_null_count",
    *(f"if(files is null, 0L, {name}) as {name}" for name in _SUMS),
    "try_divide(files_with_both, files) as share_of_files",
    "try_divide(records_with_both, records) as share_of_records",
    "null_count", "min", "max",
)  # fmt: skip


def _kind(column: TableColumn) -> str | None:
    """Return the type as which bounds are compared; None: as text."""
    return column.data_type if _is_typed(column) else None


def _is_typed(column: TableColumn) -> bool:
    """Return whether bounds are shown as values of the column's type."""
    bounds = bounds_of(column)
    return bounds is not None and bounds.lower is not None and typed_sql("", column.data_type) is not None


def _readable(column: TableColumn, text: str) -> str:
    """Return SQL for showing a bound: a value of the column's type if it has bounds, otherwise the text. text: SQL."""
    return (typed_sql(text, column.data_type) or text) if _is_typed(column) else text


def _nested(columns: list[TableColumn], kind: str) -> str:
    return struct_type({column.physical_path: kind for column in columns})
