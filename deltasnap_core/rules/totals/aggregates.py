"""The aggregates of the computed state: the contribution of a group of files to each field. In SQL and in Arrow.

One query groups the measures of files by GROUPED_BY and sums SUMS. Each row of the result is a MeasureGroup. AGGREGATES
and HISTOGRAMS have one entry for each field: the value that a group adds to it. All are sums, so they can be added and
subtracted.
Delta's `aggregationsToComputeState` (SnapshotState.scala).
A new aggregate is one entry. If it needs another field of the action, it also needs an entry in `measures`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltasnap_core.protocol.state.deleted_record_counts_histogram import BIN_STARTS
from deltasnap_core.protocol.state.file_size_histogram import DEFAULT_BIN_BOUNDARIES
from deltasnap_core.rules.totals.num_records import possible_records, possible_records_sql

_TOMBSTONE = -1
_NO_VECTOR = -1
_NO_BIN = -2
# Too few bits are harmless, too many are not: the logarithm of a number just below a power of two may be rounded up.
_MORE_BITS = "greatest(cast(log2(size) - 1e-9d as int) - 5, 0)"
_DELETED_BIN = " ".join(f"when deleted >= {start} then {i}" for i, start in reversed(list(enumerate(BIN_STARTS))))

GROUPED_BY: Mapping[str, str] = {
    "size_class": (
        f"case when deleted_at is not null then {_TOMBSTONE} when size < 0 then {_NO_BIN}"
        f" else shiftleft(shiftright(size, {_MORE_BITS}), {_MORE_BITS}) end"
    ),
    "deleted_bin": f"case when deleted is null then {_NO_VECTOR} {_DELETED_BIN} else {_NO_BIN} end",
}
"""SQL for the columns that measures are grouped by. Null only for a live file without a size, which means damage.

size_class:  a size in the same bin of the histogram. In Arrow: the lower boundary of the bin. In SQL: the size rounded
             down to its six or seven leading bits. No boundary has more than six, and 95 comparisons would be slower.
deleted_bin: the bin of the histogram of deleted records. (Grouping by nulls is slow in Spark.)
Source: PROTOCOL.md, File Size Histogram Schema; Deleted Record Counts Histogram Schema.
"""

_LOW_BITS = (1 << 32) - 1
_RECORDS = possible_records_sql("records", "coalesce(deleted, 0)")
_SUMMED = {"size": "size", "records": _RECORDS, "deleted": "deleted"}

SUMS: Mapping[str, str] = {
    "rows": "1",
    "rows_without_records": f"if({_RECORDS} is null, 1, 0)",
    **{f"high_{name}": f"shiftright({sql}, 32)" for name, sql in _SUMMED.items()},
    **{f"low_{name}": f"{sql} & {_LOW_BITS}L" for name, sql in _SUMMED.items()},
}
"""SQL for the values of a row that are summed in its group.

A measure is summed in two halves of 32 bits, so that the sum cannot overflow. A number of records counts
if it is possible (`possible_records_sql`).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureGroup:
    """Files or tombstones in the same bins, counted and summed. Negative for a subtraction."""

    size_class: int | None
    deleted_bin: int
    rows: int
    rows_without_records: int
    size: int
    records: int
    deleted: int

    @classmethod
    def of_row(cls, row: Mapping[str, Any], *, sign: int = 1) -> MeasureGroup:
        """Return a group from a row with the columns of GROUPED_BY and SUMS. Null sums count as 0."""
        wholes = {name: ((row[f"high_{name}"] or 0) << 32) + (row[f"low_{name}"] or 0) for name in _SUMMED}
        counts = {name: row[name] or 0 for name in ("rows", "rows_without_records")}
        sums = {name: sign * value for name, value in (counts | wholes).items()}
        return cls(size_class=row["size_class"], deleted_bin=row["deleted_bin"], **sums)

    @property
    def is_live(self) -> bool:
        """Whether the group consists of live files."""
        return self.size_class != _TOMBSTONE

    @property
    def has_vector(self) -> bool:
        """Whether the group consists of live files with a deletion vector."""
        return self.is_live and self.deleted_bin != _NO_VECTOR

    @property
    def size_bin(self) -> int:
        """The bin of the histogram of sizes; negative: none, as for a negative size."""
        return _NO_BIN if self.size_class is None else bisect_right(DEFAULT_BIN_BOUNDARIES, self.size_class) - 1


AGGREGATES: Mapping[str, Callable[[MeasureGroup], int]] = {
    "num_of_files": lambda group: group.rows if group.is_live else 0,
    "size_in_bytes": lambda group: group.size if group.is_live else 0,
    "num_known_records": lambda group: group.records if group.is_live else 0,
    "num_files_without_records": lambda group: group.rows_without_records if group.is_live else 0,
    "num_deletion_vectors": lambda group: group.rows if group.has_vector else 0,
    "num_deleted_records": lambda group: group.deleted if group.has_vector else 0,
    "num_of_removes": lambda group: 0 if group.is_live else group.rows,
}
"""The value that a group adds to each number of the computed state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """The values that a group of live files adds to a histogram. bins: the number of bins. bin_of: negative: no bin."""

    bins: int
    bin_of: Callable[[MeasureGroup], int]
    value: Callable[[MeasureGroup], int]


HISTOGRAMS: Mapping[str, Histogram] = {
    "file_counts": Histogram(
        bins=len(DEFAULT_BIN_BOUNDARIES), bin_of=lambda group: group.size_bin, value=lambda group: group.rows
    ),
    "total_bytes": Histogram(
        bins=len(DEFAULT_BIN_BOUNDARIES), bin_of=lambda group: group.size_bin, value=lambda group: group.size
    ),
    "deleted_record_counts": Histogram(
        bins=len(BIN_STARTS),
        bin_of=lambda group: group.deleted_bin if group.has_vector else 0,
        value=lambda group: group.rows,
    ),
}
"""The histograms of the computed state."""


def grouping_sql() -> list[str]:
    """Return the columns to group measures by, as SQL."""
    return [f"{sql} as {name}" for name, sql in GROUPED_BY.items()]


def sums_sql(sign: str | None = None, summed: Mapping[str, str] = SUMS) -> list[str]:
    """Return the sums of a group, as SQL.

    sign: SQL for the factor of each row, 1 or -1; None: 1 for all rows. summed: by name, the SQL to sum.
    """
    times = "" if sign is None else f"{sign} * "
    return [f"sum({times}({sql})) as {name}" for name, sql in summed.items()]


def groups_of(rows: pa.Table, *, sign: int = 1) -> list[MeasureGroup]:
    """Return the groups of rows with MEASURES, in Arrow. sign: the factor of all rows, 1 or -1."""
    return [MeasureGroup.of_row(row, sign=sign) for row in _grouped(rows, {})]


def groups_by_version(rows: pa.Table, versions: NDArray[np.int64], *, sign: int = 1) -> dict[int, list[MeasureGroup]]:
    """Return the groups of rows by version, in one pass. versions: the version of each row. sign: as `groups_of`."""
    found: dict[int, list[MeasureGroup]] = {}
    for row in _grouped(rows, {"version": pa.array(versions)}):
        found.setdefault(row["version"], []).append(MeasureGroup.of_row(row, sign=sign))
    return found


def _grouped(rows: pa.Table, others: Mapping[str, pa.Array]) -> list[dict[str, Any]]:
    """Return rows with the columns of GROUPED_BY and SUMS. others: more columns to group by."""
    keys = [*others, *GROUPED_BY]
    columns = {**others, "size_class": _size_classes(rows), "deleted_bin": _deleted_bins(rows), **_summed(rows)}
    grouped = pa.table(columns).group_by(keys).aggregate([(name, "sum") for name in SUMS])
    names = [*keys, *(f"{name}_sum" for name in SUMS)]
    found: list[dict[str, Any]] = grouped.select(names).rename_columns([*keys, *SUMS]).to_pylist()
    return found


def _size_classes(rows: pa.Table) -> pa.Array:
    sizes = pc.fill_null(rows["size"], 0).to_numpy()
    bins = np.searchsorted(DEFAULT_BIN_BOUNDARIES, sizes, side="right") - 1
    classes = pa.array(np.where(bins < 0, _NO_BIN, np.take(DEFAULT_BIN_BOUNDARIES, bins)))
    of_live = pc.if_else(rows["size"].is_valid(), classes, None)
    return pc.if_else(rows["deleted_at"].is_valid(), _TOMBSTONE, of_live)


def _deleted_bins(rows: pa.Table) -> pa.Array:
    deleted = pc.fill_null(rows["deleted"], 0).to_numpy()
    bins = np.searchsorted(BIN_STARTS, deleted, side="right") - 1
    return pc.if_else(rows["deleted"].is_valid(), pa.array(np.where(bins < 0, _NO_BIN, bins)), _NO_VECTOR)


def _summed(rows: pa.Table) -> dict[str, pa.Array]:
    records = possible_records(rows["records"], pc.fill_null(rows["deleted"], 0))
    summed = {"size": rows["size"], "records": records, "deleted": rows["deleted"]}
    return {
        "rows": pa.array(np.ones(rows.num_rows, np.int64)),
        "rows_without_records": pc.cast(records.is_null(), pa.int64()),
        **{f"high_{name}": pc.shift_right(values, np.int64(32)) for name, values in summed.items()},
        **{f"low_{name}": pc.bit_wise_and(values, _LOW_BITS) for name, values in summed.items()},
    }


class MissingSizeError(ValueError):
    """Raised for a live file without a size. The protocol requires it, so the checkpoint with the file is damaged."""


class FileTotals:
    """Running totals of live files and tombstones: a number for each of AGGREGATES, bins for each of HISTOGRAMS."""

    def __init__(self, groups: Iterable[MeasureGroup] = ()) -> None:
        """Errors: MissingSizeError."""
        self._numbers = dict.fromkeys(AGGREGATES, 0)
        self._bins = {name: [0] * histogram.bins for name, histogram in HISTOGRAMS.items()}
        for group in groups:
            self.add(group)

    def add(self, group: MeasureGroup) -> None:
        """Add a group. Errors: MissingSizeError."""
        if group.size_class is None:
            raise MissingSizeError("expected add.size to be an integer, found null")
        for name, added in AGGREGATES.items():
            self._numbers[name] += added(group)
        if group.is_live:
            for name, histogram in HISTOGRAMS.items():
                if (index := histogram.bin_of(group)) >= 0:
                    self._bins[name][index] += histogram.value(group)

    def __add__(self, other: FileTotals) -> FileTotals:
        """Return the sum of both."""
        made = FileTotals()
        made._numbers = {name: value + other._numbers[name] for name, value in self._numbers.items()}
        made._bins = {
            name: [one + two for one, two in zip(bins, other._bins[name], strict=True)]
            for name, bins in self._bins.items()
        }
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileTotals) and (self._numbers, self._bins) == (other._numbers, other._bins)

    def __hash__(self) -> int:
        return hash(tuple(self._numbers.values()))

    def __repr__(self) -> str:
        return f"FileTotals({self._numbers})"

    def __getitem__(self, name: str) -> int:
        """Return one total of AGGREGATES."""
        return self._numbers[name]

    @property
    def numbers(self) -> dict[str, int]:
        """The totals of AGGREGATES, by name."""
        return dict(self._numbers)

    def bins(self, name: str) -> tuple[int, ...]:
        """Return the totals of one of HISTOGRAMS, one per bin."""
        return tuple(self._bins[name])

    @classmethod
    def of(cls, numbers: Mapping[str, int], bins: Mapping[str, Iterable[int]]) -> FileTotals:
        """Return totals from the results of `numbers` and `bins`."""
        made = cls()
        made._numbers = {name: numbers[name] for name in AGGREGATES}
        made._bins = {name: list(bins[name]) for name in HISTOGRAMS}
        return made
