"""The nulls and the extremes of each column of a version, from the statistics and partition values of its files.

A number is only given if it is that of the rows. So it is unknown if a file does not state it, and if a bound that may
be wider than the values of its file reaches further than all others. Such bounds are
- those of a file with a deletion vector, or with `tightBounds` false: its rows may be deleted,
- texts of 32 bytes or more, which writers cut, and decimals of more than 15 digits, which some writers round.
With a deletion vector, a count of nulls is known if no row or every row of the file is null. Writers cut times to
milliseconds. They do not count NaN, or state it as the maximum: it is no extreme here.
Source: PROTOCOL.md, Per-file Statistics; Deletion Vectors; Partition Value Serialization.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.protocol.json_text import parse_json
from deltasnap_core.redaction import safe_repr
from deltasnap_core.rules.texts.json_lines import parse_texts
from deltasnap_core.rules.texts.statistics_schema import fields_at
from deltasnap_core.scan.table_columns import TableColumn, TableColumns, distinct_names
from deltasnap_core.scan.version import Rows

TREND_COLUMNS = ("path", "partitionValues", "modificationTime", "stats", "deletionVector")
"""The columns of AddFile that are read."""

Extreme: TypeAlias = int | float | Decimal | str | date | datetime

_TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), pa.int64()),
    **dict.fromkeys(("float", "double"), pa.float64()),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\(\d+(?:,(\d+))?\)")
_BOUNDS = ("minValues", "maxValues")
_CUT_BYTES = 32
_ROUNDED = Decimal(10**15)
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_COLUMNS_AT_ONCE, _COLUMNS_OF_SPARK_AT_ONCE = 160_000, 1_600_000  # of all files together


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTrend:
    """The nulls and the extremes of a column that is no struct, in all rows of a version. None: unknown.

    records: the number of rows of the version, the same for every column.
    least, greatest: as values of the type; a time with a zone in UTC. Also None if there are only nulls.
    no_nulls, no_extremes: why the number of nulls, or one of the extremes, is unknown, as text; empty: known.
    """

    column: str
    data_type: str
    records: int | None
    nulls: int | None
    least: Extreme | None
    greatest: Extreme | None
    no_nulls: str
    no_extremes: str

    @property
    def null_share(self) -> float | None:
        """The share of rows that are null; None: unknown, or there are no rows."""
        return self.nulls / self.records if self.nulls is not None and self.records else None


TREND_ROWS = pa.schema(
    [
        *((name, pa.string()) for name in ("column", "type")),
        *((name, pa.int64()) for name in ("records", "null_count")),
        ("null_share", pa.float64()),
        *((name, pa.string()) for name in ("min", "max", "null_count_unknown", "extremes_unknown")),
    ]
)


def trend_rows(trends: Iterable[ColumnTrend]) -> pa.Table:
    """Return trends as rows, see `MetadataTables.column_trends`."""
    rows = [
        (each.column, each.data_type, each.records, each.nulls, each.null_share, _text(each.least),
         _text(each.greatest), each.no_nulls or None, each.no_extremes or None)
        for each in trends
    ]  # fmt: skip
    return pa.Table.from_pylist([dict(zip(TREND_ROWS.names, row, strict=True)) for row in rows], TREND_ROWS)


def _text(value: Extreme | None) -> str | None:
    return None if value is None else str(value)


Trends: TypeAlias = tuple[ColumnTrend, ...]


def column_trends(columns: TableColumns, files: Rows, since_ms: int | None = None) -> tuple[Trends, Trends]:
    """Return the trend of each column that is no struct, in schema order: in all files, and in the new ones.

    files: with TREND_COLUMNS. since_ms: new files were written after this time; None: none is new.
    """
    every, new = _Totals(columns), _Totals(columns)
    for piece in _pieces(files, every.files_at_once(_COLUMNS_OF_SPARK_AT_ONCE)):
        every.add(piece)
        if since_ms is not None:
            new.add(piece.filter(pc.field("modificationTime") > since_ms))
    return every.trends(), new.trends()


def _pieces(files: Rows, at_once: int) -> Iterator[pa.Table]:
    """Yield the files in pieces that the driver can hold: their statistics are the largest part of most logs.

    at_once: about as many files of Spark are in a piece.
    """
    if isinstance(files, pa.Table):
        yield files
        return
    number = -(-files.count() // at_once)
    for piece in range(number):
        yield files.where(f"pmod(xxhash64(path), {number}) = {piece}").toArrow()


@dataclass(slots=True)
class _Count:
    """The files and the rows that are counted so far. without_rows: files that do not state their number of rows."""

    files: int = 0
    records: int = 0
    without_rows: int = 0


class _Side:
    """The least, or the greatest, bound of a column in the files that are counted so far.

    exact, wide: the bound that reaches furthest, among those that are values, and those that may be wider.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._exact: Any = None
        self._wide: Any = None
        self._unstated = self._may_be_wider = 0

    def add(self, bounds: pa.Array, is_wide: pa.Array) -> None:
        """Add the bounds of files that have values. is_wide: whether they may be wider."""
        is_wide = pc.or_(is_wide, _is_inexact(bounds))
        self._unstated += bounds.null_count
        self._may_be_wider += pc.sum(is_wide).as_py() or 0
        self._exact = self._further(self._exact, self._furthest(bounds.filter(pc.invert(is_wide))))
        self._wide = self._further(self._wide, self._furthest(bounds.filter(is_wide)))

    def add_values(self, values: pa.Array) -> None:
        """Add values of files; null: invalid."""
        self._unstated += values.null_count
        self._exact = self._further(self._exact, self._furthest(values))

    def result(self, count: _Count) -> tuple[Extreme | None, str]:
        """Return the extreme, and why it is unknown. count: of all files."""
        is_wide = self._further(self._exact, self._wide) != self._exact
        reason = _reason(
            count,
            (self._unstated, "do not state its bounds"),
            (self._may_be_wider if is_wide else 0, "have bounds that may be wider than its values"),
        )
        return None if reason else self._exact, reason

    def _furthest(self, bounds: pa.Array) -> Any:
        return pc.min_max(bounds).as_py()[self._name]

    def _further(self, one: Any, other: Any) -> Any:
        if one is None or other is None:
            return other if one is None else one
        return min(one, other) if self._name == "min" else max(one, other)


class _Total:
    """The nulls and the bounds of a column in the files that are counted so far."""

    def __init__(self, column: TableColumn) -> None:
        self.column = column
        self.type = None if column.was_float else _type_of(column.data_type)
        self.nulls = self._unstated = self._with_vectors = 0
        self.sides = (_Side("min"), _Side("max"))

    def add_nulls(self, nulls: pa.Array, rows: pa.Table) -> None:
        """Add the numbers of nulls. rows: of the files, see `_rows_of`."""
        none, every = pc.equal(nulls, 0), pc.equal(nulls, rows["records"])
        with_vector = pc.if_else(none, 0, pc.if_else(every, rows["live"], None))
        known = pc.if_else(rows["is_wide"], with_vector, nulls)
        self.nulls += pc.sum(known).as_py() or 0
        self._unstated += nulls.null_count
        self._with_vectors += known.null_count - nulls.null_count

    def trend(self, name: str, count: _Count) -> ColumnTrend:
        """Return the result. count: of all files."""
        no_nulls = _reason(
            count,
            (count.without_rows, "do not state their number of rows"),
            (self._unstated, "do not state its nulls"),
            (self._with_vectors, "do not state its nulls in the rows that their deletion vectors leave"),
        )
        (least, no_least), (greatest, no_greatest) = (side.result(count) for side in self.sides)
        return ColumnTrend(
            column=name,
            data_type=self.column.data_type,
            records=None if count.without_rows else count.records,
            nulls=None if no_nulls else self.nulls,
            least=least,
            greatest=greatest,
            no_nulls=no_nulls,
            no_extremes=no_least or no_greatest or ("" if self.type else "bounds of its type are not read"),
        )


def _reason(count: _Count, *problems: tuple[int, str]) -> str:
    """Return the first problem that some files have, as text; empty: none. problems: the number of files, and what."""
    return next((f"{files:,} of {count.files:,} files {what}" for files, what in problems if files), "")


def _type_of(data_type: str) -> pa.DataType | None:
    """Return the type of the bounds of a column; None: they have no order, or no writer states them."""
    decimal = _DECIMAL.fullmatch(data_type)
    return _TYPES.get(data_type) if decimal is None else pa.decimal128(38, int(decimal[1] or 0))


class _Totals:
    """The totals of all columns in the files that are counted so far."""

    def __init__(self, columns: TableColumns) -> None:
        self._columns = [_Total(column) for column in columns.leaves]
        self._of_data = [total for total in self._columns if not total.column.is_partition]
        self._count = _Count()

    def files_at_once(self, columns: int) -> int:
        """Return the number of files that together have about as many columns."""
        return -(-columns // max(len(self._columns), 1))

    def trends(self) -> Trends:
        """Return the trend of each column."""
        names = distinct_names([total.column for total in self._columns])
        return tuple(total.trend(name, self._count) for name, total in zip(names, self._columns, strict=True))

    def add(self, files: pa.Table) -> None:
        """Add files, with TREND_COLUMNS."""
        at_once = self.files_at_once(_COLUMNS_AT_ONCE)
        for start in range(0, files.num_rows, at_once):
            self._add(files.slice(start, at_once))

    def _add(self, files: pa.Table) -> None:
        found = _Statistics(files["stats"].combine_chunks(), self._of_data)
        rows, has_rows = _rows_of(files, found)
        self._count.files += files.num_rows
        self._count.without_rows += rows["records"].null_count
        self._count.records += pc.sum(rows["live"]).as_py() or 0
        values = files["partitionValues"].combine_chunks().filter(has_rows)
        for total in self._columns:
            if total.column.is_partition:
                _add_partition(total, values, rows)
                continue
            nulls = found.of("nullCount", total).filter(has_rows)
            total.add_nulls(nulls, rows)
            if total.type is not None:
                has_values = pc.fill_null(pc.not_equal(nulls, rows["records"]), True)
                is_wide = rows["is_wide"].filter(has_values)
                for kind, side in zip(_BOUNDS, total.sides, strict=True):
                    side.add(found.of(kind, total).filter(has_rows).filter(has_values), is_wide)


def _rows_of(files: pa.Table, found: _Statistics) -> tuple[pa.Table, pa.Array]:
    """Return the rows of each file that may have some, and which files these are.

    records: as stated, live: without deleted rows (null: unknown), is_wide: whether bounds may be wider.
    """
    vectors = files["deletionVector"].combine_chunks()
    deleted = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0)
    live = pc.subtract(found.records, deleted)
    is_wide = pc.or_(pc.greater(deleted, 0), pc.equal(pc.fill_null(found.is_tight, True), False))
    has_rows = pc.fill_null(pc.greater(live, 0), True)
    rows = pa.table({"records": found.records, "live": live, "is_wide": is_wide}).filter(has_rows).combine_chunks()
    return rows, has_rows


def _add_partition(total: _Total, values: pa.MapArray, rows: pa.Table) -> None:
    """Add the value of a partition column in each file: an empty text is null."""
    texts = pc.map_lookup(values, query_key=pa.scalar(total.column.physical_name), occurrence="first")
    texts = pc.if_else(pc.equal(texts, ""), None, texts)
    total.nulls += pc.sum(rows["live"].filter(texts.is_null())).as_py() or 0
    if total.type is not None:
        typed = _cast(texts.drop_null(), total.type)
        for side in total.sides:
            side.add_values(typed)


class _Statistics:
    """The statistics of files as columns."""

    def __init__(self, stats: pa.StringArray, totals: Sequence[_Total]) -> None:
        self._totals = totals
        texts = pc.fill_null(stats, "{}")
        parsed = parse_texts(texts, self._schema)
        columns = (self._exactly(texts) if parsed is None else parsed).combine_chunks()
        self.records, self.is_tight = (columns[name].combine_chunks() for name in ("numRecords", "tightBounds"))
        self._structs = {name: columns[name].combine_chunks() for name in ("nullCount", *_BOUNDS)}

    def of(self, kind: str, total: _Total) -> pa.Array:
        """Return a statistic of a column in each file; null: not stated, or invalid."""
        found = reduce(pc.struct_field, total.column.physical_path, self._structs[kind])
        if kind == "nullCount" or total.type is None:
            return found
        found = _cast(found, total.type)
        return pc.if_else(pc.is_nan(found), None, found) if pa.types.is_floating(total.type) else found

    @property
    def _schema(self) -> pa.Schema:
        counts = {total.column.physical_path: pa.int64() for total in self._totals}
        bounds = {total.column.physical_path: _stated_type(total.type) for total in self._totals if total.type}
        fields = [
            ("numRecords", pa.int64()),
            ("tightBounds", pa.bool_()),
            ("nullCount", _struct(counts, fields_at(counts))),
        ]
        return pa.schema([*fields, *((kind, _struct(bounds, fields_at(bounds))) for kind in _BOUNDS)])

    def _exactly(self, texts: pa.StringArray) -> pa.Table:
        """Return the same for texts that Arrow does not parse, for example with NaN. Invalid values become null."""
        rows = [_valid(_decoded(text), pa.struct(list(self._schema))) or {} for text in texts.to_pylist()]
        return pa.Table.from_pylist(rows, self._schema)


def _stated_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a bound in JSON: dates and times are texts."""
    return pa.string() if pa.types.is_temporal(kind) else kind


def _struct(
    types: Mapping[tuple[str, ...], pa.DataType], fields: Mapping[str, Any], above: tuple[str, ...] = ()
) -> pa.StructType:
    """Return the type of a struct. fields: those at the paths of `types` below one, see `fields_at`."""
    return pa.struct(
        [
            (name, _struct(types, inner, (*above, name)) if inner else types[*above, name])
            for name, inner in fields.items()
        ]
    )


def _decoded(text: str) -> Any:
    try:
        return parse_json(text, parse_float=Decimal)
    except ValueError:
        return None


def _valid(value: Any, kind: pa.DataType) -> Any:
    """Return a decoded value as one of a type; None: it is none."""
    if pa.types.is_struct(kind):
        fields = value if isinstance(value, dict) else {}
        return {field.name: _valid(fields.get(field.name), field.type) for field in kind}
    try:
        if isinstance(value, bool) != pa.types.is_boolean(kind) or (isinstance(value, str) and kind != pa.string()):
            value = float(value) if pa.types.is_floating(kind) and value in _NO_NUMBERS else None
        elif pa.types.is_floating(kind) and value is not None:
            value = float(value)
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values, or texts of them, as a type. An invalid text becomes null. Times without a zone are in UTC."""
    if values.type == kind:
        return values
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return _in_utc(values) if kind == _TYPES["timestamp"] else pa.nulls(1, kind)
    distinct = values.unique()
    cast = pa.concat_arrays([_cast(distinct.slice(place, 1), kind) for place in range(len(distinct))])
    return cast.take(pc.index_in(values, distinct))


def _in_utc(text: pa.Array) -> pa.Array:
    found = _cast(text, _TYPES["timestamp_ntz"])
    return found.cast(_TYPES["timestamp"])


def _is_inexact(bound: pa.Array) -> pa.Array:
    """Return whether a bound may be cut or rounded."""
    if pa.types.is_string(bound.type):
        return pc.fill_null(pc.greater_equal(pc.binary_length(bound), _CUT_BYTES), False)
    if pa.types.is_decimal(bound.type):
        limit = _ROUNDED.scaleb(-bound.type.scale)
        return pc.fill_null(pc.greater_equal(pc.abs(bound), pa.scalar(limit)), False)
    return pa.array([False] * len(bound), pa.bool_())
