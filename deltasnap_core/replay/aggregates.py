"""What the computed state sums over the files of a version: one table, and all that follows from it.

The table stands for Delta's `aggregationsToComputeState` (SnapshotState.scala): a field of the computed state, what
one file action adds to it, and into which bin of a histogram. From it come the columns of the digest (see
`file_action_layout`), the grouping and the sums of the one query, and the arithmetic of FileTotals. A new aggregate is
one line of AGGREGATES, and one of DIGESTED if it needs a field of the action that no other aggregate needs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

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
"""The columns of the digest, each a long: its name, and SQL over add and remove.

size:       bytes of a live file; null for a tombstone.
records:    rows that its statistics say it has, before deletion vectors; null: they do not say. Cut out of the JSON
            where writers put `numRecords`, at the front, for a tenth of a JSON parser's cost.
deleted:    rows that its deletion vector deletes; null: it has none.
deleted_at: when (ms) a tombstone was made; null for a live file.
Source: PROTOCOL.md, Add File and Remove File; Per-file Statistics; Deletion Vectors.
"""

_TOMBSTONE = -1
_NO_VECTOR = -1
_NO_BIN = -2
# Rather a bit too few than too many: the logarithm of a number just below a power of two may be rounded up to it.
_MORE_BITS = "greatest(cast(log2(size) - 1e-9d as int) - 5, 0)"
_DELETED_BIN = " ".join(f"when deleted >= {start} then {i}" for i, start in reversed(list(enumerate(BIN_STARTS))))

GROUPS: Mapping[str, str] = {
    "size_class": (
        f"case when deleted_at is not null then {_TOMBSTONE} when size < 0 then {_NO_BIN}"
        f" else shiftleft(shiftright(size, {_MORE_BITS}), {_MORE_BITS}) end"
    ),
    "deleted_bin": f"case when deleted is null then {_NO_VECTOR} {_DELETED_BIN} else {_NO_BIN} end",
}
"""What a digest is grouped by: name and SQL. Never null but for a live file without a size, which is damage.

size_class:  the size rounded down to its six or seven leading bits. That keeps it in its bin of the histogram, since
             no boundary has more than six, and costs a fraction of comparing each size with 95 boundaries.
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
class Aggregate:
    """How a field of the computed state sums over the rows of a digest.

    of:     which rows. count: how many of them meet this condition; total: the sum of this column, null for nothing.
            One of the two is set; both are SQL over DIGESTED.
    bin_of: the bin of a histogram that a row falls into, below 0 for none; None: the field is one number.
    bins:   how many bins there are.
    """

    of: Literal["live", "with_vector", "tombstones"] = "live"
    count: str | None = None
    total: str | None = None
    bin_of: Callable[[Group], int] | None = None
    bins: int = 1

    @property
    def sums(self) -> Mapping[str, str]:
        """Return the columns of the query that the field is made of: name, and what each row adds, as SQL.

        A total is summed in two halves of 32 bits, of which no table has enough files to overflow a long.
        """
        if self.count is not None:
            return {f"count of {self.count}": "1" if self.count == "true" else f"if({self.count}, 1, 0)"}
        return {
            f"high of {self.total}": f"shiftright({self.total}, 32)",
            f"low of {self.total}": f"{self.total} & {(1 << 32) - 1}L",
        }

    def value(self, group: Group) -> int:
        """Return what a group adds to the field."""
        if self.count is not None:
            return int(group[f"count of {self.count}"] or 0)
        return ((group[f"high of {self.total}"] or 0) << 32) + (group[f"low of {self.total}"] or 0)


AGGREGATES: Mapping[str, Aggregate] = {
    "num_of_files": Aggregate(count="true"),
    "size_in_bytes": Aggregate(total="size"),
    "num_known_records": Aggregate(total="records"),
    "num_files_without_records": Aggregate(count="records is null"),
    "num_deletion_vectors": Aggregate(of="with_vector", count="true"),
    "num_deleted_records": Aggregate(of="with_vector", total="deleted"),
    "num_of_removes": Aggregate(of="tombstones", count="true"),
    "file_counts": Aggregate(count="true", bin_of=_size_bin, bins=len(DEFAULT_BIN_BOUNDARIES)),
    "total_bytes": Aggregate(total="size", bin_of=_size_bin, bins=len(DEFAULT_BIN_BOUNDARIES)),
    "deleted_record_counts": Aggregate(count="true", bin_of=_deleted_bin, bins=len(BIN_STARTS)),
}
"""By field of SnapshotState, or of one of its two histograms."""


def grouping() -> list[str]:
    """Return what to group a digest by, as SQL."""
    return [f"{sql} as {name}" for name, sql in GROUPS.items()]


def sums(sign: str | None = None) -> list[str]:
    """Return the sums of a group, as SQL. sign: SQL for 1 or -1, by which each row counts; None: all count 1."""
    each = {name: sql for aggregate in AGGREGATES.values() for name, sql in aggregate.sums.items()}
    times = "" if sign is None else f"{sign} * "
    return [f"sum({times}({sql})) as `{name}`" for name, sql in each.items()]


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
