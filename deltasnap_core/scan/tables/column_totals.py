"""ColumnTotals: what the statistics and partition values of the files of a version add up to, column by column.

Files are added and removed: the totals of a version are those of an earlier one, plus the files that were added since
then, minus those that are gone. An extreme is lost if the last file that has it is removed (`is_settled`).

A number is only given if it is that of the rows. So it is unknown if a file does not state it, and if a bound that may
be wider than the values of its file reaches further than all others. Such bounds are
- those of a file with a deletion vector, or with `tightBounds` false: its rows may be deleted,
- texts of 32 bytes or more, which writers cut, and decimals of more than 15 digits, which some writers round.
With a deletion vector, a count of nulls is known if no row or every row of the file is null. Writers cut times to
milliseconds. They do not count NaN, or state it as the maximum: it is no extreme here.
Source: PROTOCOL.md, Per-file Statistics; Deletion Vectors; Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.rules.totals.num_records import possible_records
from deltasnap_core.scan.table_columns import TableColumn, TableColumns, distinct_names
from deltasnap_core.scan.tables.column_trends import ColumnTrend, Extreme, Trends
from deltasnap_core.scan.tables.stated_statistics import StatedStatistics, bound_type, typed

TREND_COLUMNS = ("path", "partitionValues", "modificationTime", "stats", "deletionVector")
"""The columns of AddFile that are read."""

_CUT_BYTES = 32
_ROUNDED = Decimal(10**15)
_EXACT = pa.decimal128(38, 0)  # a sum of rows may exceed 64 bits
_COLUMNS_AT_ONCE = 320_000  # of all files together
_HOUR_MS = 3_600_000
_LAST_HOUR = 1 << 20  # in 2089: times in other units than ms do not each get an hour


class ColumnTotals:
    """The totals of each column that is no struct, in the files that were added and not removed.

    New files are those written after a time, from the next full hour on. Their nulls are counted by the hour: so the
    totals of a version also lead to those of a later one, with a later time.
    """

    def __init__(self, columns: TableColumns, version: int, since_ms: int | None = None) -> None:
        """version: that of the files. since_ms: new files were written after this time; None: none is new."""
        self.version = version
        self._columns = [_Column(column) for column in columns.leaves]
        self._of_data = [each.column for each in self._columns if not each.column.is_partition]
        self._since = None if since_ms is None else since_ms // _HOUR_MS + 1
        self._count = _Count()
        self._hours = dict[int, _NewRows]()

    @property
    def num_files(self) -> int:
        """The number of files."""
        return self._count.files

    @property
    def is_settled(self) -> bool:
        """Whether `trends` are known. If not, all files must be added to new totals."""
        return all(side.is_settled for column in self._columns for side in column.sides)

    def trends(self) -> Trends:
        """Return the trend of each column, in schema order."""
        names, hours = distinct_names([each.column for each in self._columns]), list(self._hours.values())
        return tuple(
            column.trend(name, self._count, _share([hour.of(place) for hour in hours]))
            for place, (name, column) in enumerate(zip(names, self._columns, strict=True))
        )

    def add(self, files: pa.Table) -> None:
        """Add files, with TREND_COLUMNS."""
        self._change(files, 1)

    def update(self, version: int, before: pa.Table, after: pa.Table) -> None:
        """Continue with the files of a later version. before, after: those that differ, or more of the same files."""
        self._change(before, -1)
        self._change(after, 1)
        self.version = version

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "version": self.version,
            "count": asdict(self._count),
            "since": self._since,
            "columns": [column.to_json() for column in self._columns],
            "hours": {str(hour): asdict(rows) for hour, rows in self._hours.items()},
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any], columns: TableColumns, since_ms: int) -> ColumnTotals | None:
        """Return the totals from the result of `to_json`.

        since_ms: as for the constructor. None: they are of other columns, or of a later time, or another release wrote
        them.
        """
        found = cls(columns, -1, since_ms)
        try:
            if found._since is None or values["since"] > found._since:
                return None
            found.version = int(values["version"])
            found._count = _Count(**values["count"])
            for column, stated in zip(found._columns, values["columns"], strict=True):
                column.restore(stated)
            rows = {int(hour): _NewRows(**stated) for hour, stated in values["hours"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):  # ArrowInvalid is a ValueError
            return None
        found._hours = {hour: each for hour, each in rows.items() if hour >= found._since}
        return found

    def _change(self, files: pa.Table, sign: int) -> None:
        at_once = -(-_COLUMNS_AT_ONCE // max(len(self._columns), 1))
        for start in range(0, files.num_rows, at_once):
            self._change_piece(files.slice(start, at_once), sign)

    def _change_piece(self, files: pa.Table, sign: int) -> None:
        stated = StatedStatistics(files["stats"].combine_chunks(), self._of_data)
        rows = _rows_of(files, stated)
        self._count.files += sign * files.num_rows
        self._count.without_rows += sign * rows["records"].null_count
        self._count.records += sign * _total(rows["live"])
        nulls = [
            column.change_partition(rows, sign) if column.column.is_partition else column.change(stated, rows, sign)
            for column in self._columns
        ]
        if self._since is not None:
            self._change_hours(rows, nulls, sign)

    def _change_hours(self, rows: pa.RecordBatch, nulls: Sequence[pa.Array], sign: int) -> None:
        hours = pc.divide(rows["modificationTime"], _HOUR_MS)
        hours = pc.min_element_wise(hours, pa.scalar(_LAST_HOUR), skip_nulls=False)
        names = ["live", *map(str, range(len(nulls)))]
        table = pa.table([hours, rows["live"], *nulls], names=["hour", *names])
        new = table.filter(pc.greater_equal(table["hour"], self._since))
        new = pa.table([new["hour"], *(new[name].cast(_EXACT) for name in names)], names=["hour", *names])
        wanted = [(name, how) for name in names for how in ("sum", "count")]
        for row in new.group_by("hour").aggregate([*wanted, ([], "count_all")]).to_pylist():
            hour = self._hours.setdefault(row["hour"], _NewRows.none(len(nulls)))
            hour.change([int(row[f"{name}_sum"] or 0) for name in names], sign)
            hour.change_unknown([row["count_all"] - row[f"{name}_count"] for name in names], sign)


@dataclass(slots=True)
class _Count:
    """Files, their rows, and the files that do not state their number of rows."""

    files: int = 0
    records: int = 0
    without_rows: int = 0


@dataclass(slots=True)
class _NewRows:
    """The new rows of an hour: their number, then the nulls of each column. unknown: files that do not state them."""

    rows: list[int]
    unknown: list[int]

    @classmethod
    def none(cls, columns: int) -> _NewRows:
        return cls([0] * (columns + 1), [0] * (columns + 1))

    def change(self, rows: Sequence[int], sign: int) -> None:
        self.rows = [known + sign * each for known, each in zip(self.rows, rows, strict=True)]

    def change_unknown(self, files: Sequence[int], sign: int) -> None:
        self.unknown = [known + sign * each for known, each in zip(self.unknown, files, strict=True)]

    def of(self, column: int) -> tuple[int, int, int]:
        """Return the rows, the nulls of a column, and the number of files that do not state one of the two."""
        return self.rows[0], self.rows[column + 1], self.unknown[0] + self.unknown[column + 1]


def _share(hours: Sequence[tuple[int, int, int]]) -> float | None:
    rows, nulls, unknown = (sum(numbers) for numbers in zip(*hours, strict=True)) if hours else (0, 0, 0)
    return None if unknown or not rows else nulls / rows


@dataclass(slots=True)
class _Furthest:
    """The bound that reaches furthest, and how many files have it.

    files: 0: they were removed, and the others reach less far.
    """

    value: Any = None
    files: int = 0


@dataclass(slots=True)
class _Side:
    """The least, or the greatest, bound of a column. name: min or max. data_type: of the bounds.

    exact, wide: among the bounds that are values, and those that may be wider.
    unstated, may_be_wider: numbers of files.
    """

    name: str
    data_type: pa.DataType
    exact: _Furthest = field(default_factory=_Furthest)
    wide: _Furthest = field(default_factory=_Furthest)
    unstated: int = 0
    may_be_wider: int = 0

    def change(self, bounds: pa.Array, is_wide: pa.Array, sign: int) -> None:
        """Add (sign 1) or remove (-1) the bounds of files that have values. is_wide: whether they may be wider."""
        is_wide = pc.or_(is_wide, _is_inexact(bounds))
        self.unstated += sign * bounds.null_count
        if wide := is_wide.true_count:
            self.may_be_wider += sign * wide
            self._change(self.wide, bounds.filter(is_wide), sign)
            bounds = bounds.filter(pc.invert(is_wide))
        self._change(self.exact, bounds, sign)

    def change_values(self, values: pa.Array, sign: int) -> None:
        """Add or remove values of files; null: invalid."""
        self.unstated += sign * values.null_count
        self._change(self.exact, values, sign)

    @property
    def is_settled(self) -> bool:
        """Whether the removed bounds do not decide the result."""
        lost = [each.value is not None and each.files <= 0 for each in (self.exact, self.wide)]
        if self.unstated or lost == [False, False]:
            return True
        if lost == [True, True]:
            return False
        nearer, further = (self.exact, self.wide) if lost[0] else (self.wide, self.exact)
        return further.value is not None and not self._is_beyond(nearer.value, further.value)

    def result(self, count: _Count) -> tuple[Extreme | None, str]:
        """Return the extreme, and why it is unknown. count: of all files."""
        exact, wide = self.exact, self.wide
        is_wide = wide.value is not None and (exact.files <= 0 or self._is_beyond(wide.value, exact.value))
        reason = _reason(
            count,
            (self.unstated, "do not state its bounds"),
            (self.may_be_wider if is_wide else 0, "have bounds that may be wider than its values"),
        )
        value = exact.value + 0.0 if isinstance(exact.value, float) else exact.value  # Parquet's least zero is -0.0
        return None if reason else value, reason

    def to_json(self) -> dict[str, Any]:
        counts = {"unstated": self.unstated, "may_be_wider": self.may_be_wider}
        return {"exact": self._json_of(self.exact), "wide": self._json_of(self.wide), **counts}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Take over the result of `to_json`. Errors: KeyError, TypeError, ValueError."""
        self.unstated, self.may_be_wider = values["unstated"], values["may_be_wider"]
        for found, (text, files) in ((self.exact, values["exact"]), (self.wide, values["wide"])):
            found.value, found.files = pa.array([text], pa.string()).cast(self.data_type)[0].as_py(), files

    def _json_of(self, found: _Furthest) -> list[Any]:
        return [pa.array([found.value], self.data_type).cast(pa.string())[0].as_py(), found.files]

    def _change(self, known: _Furthest, bounds: pa.Array, sign: int) -> None:
        value = pc.min_max(bounds).as_py()[self.name]
        if value is None:
            return
        if known.value is None or self._is_beyond(value, known.value):
            known.value, known.files = value, 0
        if value == known.value:
            known.files += sign * pc.equal(bounds, pa.scalar(value, self.data_type)).true_count

    def _is_beyond(self, one: Any, other: Any) -> bool:
        return bool(one < other if self.name == "min" else one > other)


class _Column:
    """The nulls and the bounds of a column."""

    def __init__(self, column: TableColumn) -> None:
        self.column = column
        self.type = bound_type(column)
        self.nulls = self._unstated = self._with_vectors = 0
        self.sides = () if self.type is None else (_Side("min", self.type), _Side("max", self.type))

    def change(self, stated: StatedStatistics, rows: pa.RecordBatch, sign: int) -> pa.Array:
        """Add or remove the statistics of files. Return their numbers of nulls; null: unknown. rows: see `_rows_of`."""
        nulls = _at(stated.nulls(self.column), rows["place"])
        known = nulls
        if pc.any(rows["is_wide"]).as_py():
            none, every = pc.equal(nulls, 0), pc.equal(nulls, rows["records"])
            with_vector = pc.if_else(none, 0, pc.if_else(every, rows["live"], None))
            known = pc.if_else(rows["is_wide"], with_vector, nulls)
        self.nulls += sign * _total(known)
        self._unstated += sign * nulls.null_count
        self._with_vectors += sign * (known.null_count - nulls.null_count)
        if self.type is not None:
            has_values = pc.fill_null(pc.not_equal(nulls, rows["records"]), True)
            place, is_wide = rows["place"].filter(has_values), rows["is_wide"].filter(has_values)
            for bounds, side in zip(stated.bounds(self.column), self.sides, strict=True):
                side.change(_at(bounds, place), is_wide, sign)
        return known

    def change_partition(self, rows: pa.RecordBatch, sign: int) -> pa.Array:
        """Add or remove the partition values of files, as `change`. An empty text is null."""
        key = pa.scalar(self.column.physical_name)
        texts = pc.map_lookup(rows["partitionValues"], query_key=key, occurrence="first")
        texts = pc.if_else(pc.equal(texts, ""), None, texts)
        nulls = pc.if_else(texts.is_null(), rows["live"], 0)
        self.nulls += sign * _total(nulls)
        if self.type is not None:
            texts = texts.drop_null()
            values = typed(texts, self.column, pc.match_substring(texts, "inf", ignore_case=True))
            for side in self.sides:
                side.change_values(values, sign)
        return nulls

    def trend(self, name: str, count: _Count, new_null_share: float | None) -> ColumnTrend:
        """Return the result. count: of all files."""
        no_nulls = _reason(
            count,
            (count.without_rows, "do not state their number of rows"),
            (self._unstated, "do not state its nulls"),
            (self._with_vectors, "do not state its nulls in the rows that their deletion vectors leave"),
        )
        results = [side.result(count) for side in self.sides] or [(None, "bounds of its type are not read")] * 2
        return ColumnTrend(
            column=name,
            data_type=self.column.data_type,
            records=None if count.without_rows else count.records,
            nulls=None if no_nulls else self.nulls,
            least=results[0][0],
            greatest=results[1][0],
            no_nulls=no_nulls,
            no_extremes=results[0][1] or results[1][1],
            new_null_share=new_null_share,
        )

    def to_json(self) -> dict[str, Any]:
        return self._identity | {
            "nulls": [self.nulls, self._unstated, self._with_vectors],
            "sides": [side.to_json() for side in self.sides],
        }

    def restore(self, values: Mapping[str, Any]) -> None:
        """Take over the result of `to_json`. Errors: KeyError, TypeError; ValueError, also for another column."""
        if any(values[name] != value for name, value in self._identity.items()):
            raise ValueError(f"expected {self._identity}")
        self.nulls, self._unstated, self._with_vectors = values["nulls"]
        for side, found in zip(self.sides, values["sides"], strict=True):
            side.restore(found)

    @property
    def _identity(self) -> dict[str, Any]:
        column = self.column
        return {"path": [*column.physical_path], "type": column.data_type, "is_partition": column.is_partition}


def _reason(count: _Count, *problems: tuple[int, str]) -> str:
    """Return the first problem that some files have, as text; empty: none. problems: the number of files, and what."""
    return next((f"{files:,} of {count.files:,} files {what}" for files, what in problems if files), "")


def _rows_of(files: pa.Table, stated: StatedStatistics) -> pa.RecordBatch:
    """Return the rows of each file that may have some.

    place: of the file. records: as stated, live: without deleted rows (null: unknown, also if more are deleted),
    is_wide: whether bounds may be wider. Also modificationTime and partitionValues.
    """
    vectors = files["deletionVector"].combine_chunks()
    has_vector = pc.is_valid(pc.struct_field(vectors, "storageType"))
    deleted = pc.if_else(has_vector, pc.struct_field(vectors, "cardinality"), 0)
    records = possible_records(stated.records, deleted)
    live = pc.subtract(records, deleted)
    rows = {
        "place": pa.array(range(files.num_rows), pa.int32()),
        "records": records,
        "live": live,
        "is_wide": pc.or_(pc.fill_null(pc.not_equal(deleted, 0), True), pc.invert(pc.fill_null(stated.is_tight, True))),
        **{name: files[name].combine_chunks() for name in ("modificationTime", "partitionValues")},
    }
    found = pa.RecordBatch.from_arrays(list(rows.values()), list(rows))
    return found.filter(pc.fill_null(pc.greater(live, 0), True))


def _at(values: pa.Array, place: pa.Array) -> pa.Array:
    """Return values at ascending places."""
    return values if len(place) == len(values) else values.take(place)


def _total(values: pa.Array) -> int:
    return int(pc.sum(values.cast(_EXACT)).as_py() or 0)


def _is_inexact(bound: pa.Array) -> pa.Array:
    """Return whether a bound may be cut or rounded."""
    if pa.types.is_string(bound.type):
        return pc.fill_null(pc.greater_equal(pc.binary_length(bound), _CUT_BYTES), False)
    if pa.types.is_decimal(bound.type):
        limit = _ROUNDED.scaleb(-bound.type.scale)
        return pc.fill_null(pc.greater_equal(pc.abs(bound), pa.scalar(limit)), False)
    return pa.array(np.zeros(len(bound), np.bool_))
