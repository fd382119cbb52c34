"""Statistics of files as columns: for `files` as values of the columns' types, for `column_stats` their coverage."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from deltasnap_core.rules.texts.sql_text import let_sql, quoted, string_sql
from deltasnap_core.rules.texts.statistics_schema import struct_type
from deltasnap_core.rules.texts.typed_texts import typed_sql
from deltasnap_core.rules.texts.whole_json import whole_statistics_sql
from deltasnap_core.rules.totals.num_records import num_records_sql
from deltasnap_core.scan.skipping.bounds import bounds_of
from deltasnap_core.scan.table_columns import TableColumn

_BOUNDS = ("minValues", "maxValues")
_NO_COLUMNS = "struct<numRecords: bigint>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableStatistics:
    """The statistics of some data columns, parsed from the JSON text `stats` of a file."""

    columns: list[TableColumn]

    @property
    def values(self) -> str:
        """SQL: a struct by column: min, max in the column's type, null_count; null: not stated."""
        return let_sql("s", self._parsed, self._typed)

    def coverage(self, files: DataFrame) -> DataFrame:
        """Return the coverage of the statistics of files, one row for each column, as `MetadataTables.column_stats`."""
        parsed = files.selectExpr(f"{self._parsed} as s", f"coalesce({num_records_sql('stats')}, 0L) as records")
        totals = parsed.selectExpr(*(_coverage(column, number) for number, column in enumerate(self.columns)))
        rows = ", ".join(
            f"named_struct('column', {string_sql(column.name)}, 'type', {string_sql(column.data_type)}, 'c', c{number})"
            for number, column in enumerate(self.columns)
        )
        if not rows:
            return files.sparkSession.range(0).selectExpr(*_COVERAGE_TYPES)
        return totals.selectExpr(f"inline(array({rows}))").selectExpr("`column`", "type", *_COVERAGE)

    @property
    def _parsed(self) -> str:
        parts = [f"{kind}: {_nested(self.columns, 'string')}" for kind in _BOUNDS]
        counts = _nested(self.columns, "bigint")
        schema = f"struct<{', '.join(parts)}, nullCount: {counts}>"
        return whole_statistics_sql("stats", schema if self.columns else _NO_COLUMNS)

    @property
    def _typed(self) -> str:
        fields = []
        for column in self.columns:
            path = ".".join(map(quoted, column.physical_path))
            low, high = (_readable(column, f"s.{kind}.{path}") for kind in _BOUNDS)
            value = f"struct({low} as min, {high} as max, s.nullCount.{path} as null_count)"
            fields.append(f"{value} as {quoted(column.name)}")
        return f"struct({', '.join(fields)})"


_COVERAGE = (
    "c.files", "c.files_with_min", "c.files_with_max", "c.files_with_null_count", "c.records", "c.records_with_min",
    "c.records_with_null_count", "try_divide(c.files_with_both, c.files) as share_of_files",
    "try_divide(c.records_with_both, c.records) as share_of_records", "c.null_count", "c.min", "c.max",
)  # fmt: skip
_COVERAGE_TYPES = (
    "cast(null as string) as `column`", "cast(null as string) as type",
    *(f"cast(null as bigint) as {name}" for name in (
        "files", "files_with_min", "files_with_max", "files_with_null_count", "records", "records_with_min",
        "records_with_null_count")),
    *(f"cast(null as double) as {name}" for name in ("share_of_files", "share_of_records")),
    "cast(null as bigint) as null_count", "cast(null as string) as min", "cast(null as string) as max",
)  # fmt: skip


def _coverage(column: TableColumn, number: int) -> str:
    path = ".".join(map(quoted, column.physical_path))
    low, high, nulls = (f"s.{kind}.{path}" for kind in (*_BOUNDS, "nullCount"))
    both = f"{low} is not null and {high} is not null"
    return (
        "named_struct('files', count(1)"
        f", 'files_with_min', count({low}), 'files_with_max', count({high}), 'files_with_null_count', count({nulls})"
        f", 'files_with_both', count_if({both})"
        f", 'records', {_total('true')}"
        f", 'records_with_min', {_total(f'{low} is not null')}"
        f", 'records_with_null_count', {_total(f'{nulls} is not null')}"
        f", 'records_with_both', {_total(both)}"
        f", 'null_count', try_sum({nulls})"
        f", 'min', cast(min({_readable(column, low)}) as string)"
        f", 'max', cast(max({_readable(column, high)}) as string)) as c{number}"
    )


def _total(condition: str) -> str:
    """Return SQL for the records of the files that meet a condition; null beyond 64 bits."""
    return f"if(count(1) = 0, 0L, try_sum(if({condition}, records, 0L)))"


def _readable(column: TableColumn, text: str) -> str:
    """Return SQL for showing a bound: a value of the column's type if it has bounds, otherwise the text. text: SQL."""
    bounds = bounds_of(column)
    typed = typed_sql(text, column.data_type)
    return text if typed is None or bounds is None or bounds.lower is None else typed


def _nested(columns: list[TableColumn], kind: str) -> str:
    return struct_type({column.physical_path: kind for column in columns})
