"""What the computed state sums over the files of a version: one table, and all that follows from it.

The table stands for Delta's `aggregationsToComputeState` (SnapshotState.scala): a field of the computed state, what
one file action adds to it, and into which bin of a histogram. From it come the columns of the digest (see
`file_action_layout`), the grouping and the sums of the one query, in Spark or in Arrow, and the arithmetic of
FileTotals. A new aggregate is one line of AGGREGATES; if it needs a field of the action that no other aggregate needs,
one of DIGESTED and one of `rules/measures.py` too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.protocol.deleted_record_counts_histogram import BIN_STARTS
from deltasnap_core.protocol.file_size_histogram import DEFAULT_BIN_BOUNDARIES

DELETED_AT = "case when remove.path is not null then coalesce(remove.deletionTimestamp, 0) end"
"""When (ms) a tombstone was made, one without a time in 1970; null: no tombstone."""

# `substring` would count the characters of the whole text first.
_NUM_RECORDS_FIRST = """startswith(add.stats, '{"numRecords":') and contains(add.stats, ',')"""
_RECORDS = (
    f"coalesce(case when {_NUM_RECORDS_FIRST}"
    " then try_cast(substring_index(substring_index(add.stats, ',', 1), ':', -1) as bigint) end,"
    " try_cast(get_json_object(add.stats, '$.numRecords') as bigint))"
)

DIGESTED: Mapping[str, str] = {
    "size": "add.size",
    "records": _RECORDS,
    "deleted": (
        "case when add.deletionVector.storageType is not null then coalesce(add.deletionVector.cardinality, 0) end"
    ),
    "deleted_at": DELETED_AT,
}
"""The columns of the digest, each a long: its name, and SQL over add and remove. `rules/measures.py` has it for Arrow.

size:       bytes of a live file; null for a tombstone.
records:    rows that its statistics say it has, before deletion vectors; null: they do not say. Cut out of the JSON
            where writers put `numRecords`, at the front, for a tenth of a JSON parser's cost.
deleted:    rows that its deletion vector deletes; null: it has none.
deleted_at: when (ms) a tombstone was made; null for a live file.
Source: PROTOCOL.md, Add File and Remove File; Per-file Statistics; Deletion Vectors.
"""

_HALF = np.int64(32)
_LOW_BITS = (1 << 32) - 1
_TOMBSTONE = -1
_NO_VECTOR = -1
_NO_BIN = -2
# Rather a bit too few than too many: the logarithm of a number just below a power of two may be rounded up to it.
_MORE_BITS = "greatest(cast(log2(size) - 1e-9d as int) - 5, 0)"
_DELETED_BIN = " ".join(f"when deleted >= {start} then {i}" for i, start in reversed(list(enumerate(BIN_STARTS))))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """A column to group a digest by, in Spark and in Arrow."""

    sql: str
    of: Callable[[pa.Table], pa.Array]


GROUPS: Mapping[str, Grouping] = {
    "size_class": Grouping(
        sql=(
            f"case when deleted_at is not null then {_TOMBSTONE} when size < 0 then {_NO_BIN}"
            f" else shiftleft(shiftright(size, {_MORE_BITS}), {_MORE_BITS}) end"
        ),
        of=_size_classes,
    ),
    "deleted_bin": Grouping(
        sql=f"case when deleted is null then {_NO_VECTOR} {_DELETED_BIN} else {_NO_BIN} end", of=_deleted_bins
    ),
}
"""What a digest is grouped by. Never null but for a live file without a size, which is damage.

size_class:  a size no larger than that of the file, and in the same bin of the histogram. In SQL the size rounded down
             to its six or seven leading bits: no boundary has more than six, and comparing each size with 95 boundaries
             would cost many times that. In Arrow the boundary.
deleted_bin: the bin of the histogram of deleted records. (Spark is slow to group by what is null.)
Source: PROTOCOL.md, File Size Histogram Schema; Deleted Record Counts Histogram Schema.
"""

Group = Mapping[str, Any]
"""One row of the query: the columns of GROUPS and of `sums`, by name."""


def _size_bin(group: Group) -> int:
    return bisect_right(DEFAULT_BIN_BOUNDARIES, group["size_class"]) - 1  # -1: a negative size is in no bin


def _deleted_bin(group: Group) -> int:
    return 0 if group["deleted_bin"] == _NO_VECTOR else int(group["deleted_bin"])


_ROWS: Mapping[str, Callable[[Group], bool]] = {
    "live": lambda group: group["size_class"] != _TOMBSTONE,
    "with_vector": lambda group: group["size_class"] != _TOMBSTONE and group["deleted_bin"] != _NO_VECTOR,
    "tombstones": lambda group: group["size_class"] == _TOMBSTONE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """A column of the query: what each row adds to it, in Spark and in Arrow."""

    sql: str
    of: Callable[[pa.Table], pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """How a field of the computed state sums over the rows of a digest.

    of:     which rows.
    total:  the column (of DIGESTED) that is summed, null for nothing; None: rows are counted.
    null:   the column that is null in the rows that are counted; None: all are.
    bin_of: the bin of a histogram that a row falls into, below 0 for none; None: the field is one number.
    bins:   how many bins there are.
    """

    of: Literal["live", "with_vector", "tombstones"] = "live"
    total: str | None = None
    null: str | None = None
    bin_of: Callable[[Group], int] | None = None
    bins: int = 1

    @property
    def sums(self) -> Mapping[str, Sum]:
        """Return the columns of the query that the field is made of, by name.

        A total is summed in two halves of 32 bits, of which no table has enough files to overflow a long.
        """
        if (total := self.total) is not None:
            high = Sum(sql=f"shiftright({total}, 32)", of=lambda rows: pc.shift_right(rows[total], _HALF))
            low = Sum(sql=f"{total} & {_LOW_BITS}L", of=lambda rows: pc.bit_wise_and(rows[total], _LOW_BITS))
            return {f"high of {total}": high, f"low of {total}": low}
        if (null := self.null) is not None:
            sql = f"if({null} is null, 1, 0)"
            return {self._count: Sum(sql=sql, of=lambda rows: pc.cast(rows[null].is_null(), pa.int64()))}
        return {self._count: Sum(sql="1", of=lambda rows: pa.array(np.ones(rows.num_rows, np.int64)))}

    @property
    def _count(self) -> str:
        return "rows" if self.null is None else f"rows without {self.null}"

    def value(self, group: Group) -> int:
        """Return what a group adds to the field."""
        if self.total is None:
            return int(group[self._count] or 0)
        return ((group[f"high of {self.total}"] or 0) << 32) + (group[f"low of {self.total}"] or 0)


AGGREGATES: Mapping[str, Aggregate] = {
    "num_of_files": Aggregate(),
    "size_in_bytes": Aggregate(total="size"),
    "num_known_records": Aggregate(total="records"),
    "num_files_without_records": Aggregate(null="records"),
    "num_deletion_vectors": Aggregate(of="with_vector"),
    "num_deleted_records": Aggregate(of="with_vector", total="deleted"),
    "num_of_removes": Aggregate(of="tombstones"),
    "file_counts": Aggregate(bin_of=_size_bin, bins=len(DEFAULT_BIN_BOUNDARIES)),
    "total_bytes": Aggregate(total="size", bin_of=_size_bin, bins=len(DEFAULT_BIN_BOUNDARIES)),
    "deleted_record_counts": Aggregate(bin_of=_deleted_bin, bins=len(BIN_STARTS)),
}
"""By field of SnapshotState, or of one of its two histograms."""


def grouping() -> list[str]:
    """Return what to group a digest by, as SQL."""
    return [f"{column.sql} as {name}" for name, column in GROUPS.items()]


def sums(sign: str | None = None) -> list[str]:
    """Return the sums of a group, as SQL. sign: SQL for 1 or -1, by which each row counts; None: all count 1."""
    times = "" if sign is None else f"{sign} * "
    return [f"sum({times}({each.sql})) as `{name}`" for name, each in _SUMS.items()]


def groups_of(rows: pa.Table, *, sign: int = 1) -> list[Group]:
    """Return the groups of some rows (DIGESTED), in Arrow: what the query gives in Spark. sign: how each row counts."""
    columns = {name: column.of(rows) for name, column in GROUPS.items()}
    grouped = pa.table(columns | {name: each.of(rows) for name, each in _SUMS.items()}).group_by(list(GROUPS))
    found = grouped.aggregate([(name, "sum") for name in _SUMS]).to_pylist()
    return [
        {name: group[name] for name in GROUPS} | {name: sign * (group[f"{name}_sum"] or 0) for name in _SUMS}
        for group in found
    ]


_SUMS: Mapping[str, Sum] = {name: each for aggregate in AGGREGATES.values() for name, each in aggregate.sums.items()}


class MissingSizeError(ValueError):
    """A live file without a size, which no log may have: the checkpoint that holds it is damaged."""


class FileTotals:
    """Running totals over live files and tombstones: every field of AGGREGATES.

    Every total is a sum, so that those of a version are those of the version before plus what it changed.
    """

    def __init__(self) -> None:
        self._totals = {name: [0] * aggregate.bins for name, aggregate in AGGREGATES.items()}

    def add(self, group: Group) -> None:
        """Add one group. Errors: MissingSizeError."""
        if group["size_class"] is None:
            raise MissingSizeError("expected add.size to be an integer, found null")
        for name, aggregate in AGGREGATES.items():
            if _ROWS[aggregate.of](group):
                index = 0 if aggregate.bin_of is None else aggregate.bin_of(group)
                if index >= 0:
                    self._totals[name][index] += aggregate.value(group)

    def __getitem__(self, name: str) -> int:
        """Return the total of a field that is one number."""
        return self._totals[name][0]

    def bins(self, name: str) -> tuple[int, ...]:
        """Return the totals of a field that is a histogram, bin by bin."""
        return tuple(self._totals[name])

    @property
    def numbers(self) -> dict[str, int]:
        """Return the fields that are one number each, by name."""
        return {name: self[name] for name, aggregate in AGGREGATES.items() if aggregate.bin_of is None}

    @classmethod
    def of(cls, value_of: Callable[[str], Any]) -> FileTotals:
        """Return totals to start from. value_of: gives the number, or the bins, of each field."""
        made = cls()
        for name, aggregate in AGGREGATES.items():
            value = value_of(name)
            made._totals[name] = [value] if aggregate.bin_of is None else list(value)
        return made
