"""TombstoneTimes: the tombstones of a version by time of deletion, as sums that commits update."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.rules.totals.aggregates import InconsistentBreakdownError


class TombstoneSums(NamedTuple):
    """The number of some tombstones, the bytes of those with a size, and the number of those without a size."""

    files: int
    size: int
    without_size: int


class TombstoneTimes(Mapping[int, TombstoneSums]):
    """Sums by time of deletion (ms; 0: unknown), ascending, in Arrow: a table may have 200,000 times.

    rows: a table of the schema ROWS, one row per time.
    """

    ROWS = pa.schema(
        [
            ("deleted_at", pa.int64()),
            ("files", pa.int64()),
            ("size", pa.decimal128(38, 0)),
            ("without_size", pa.int64()),
        ]
    )

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    @property
    def num_files(self) -> int:
        """The number of all tombstones."""
        return pc.sum(self.rows["files"]).as_py() or 0

    @classmethod
    def of(cls, sums: Iterable[tuple[int, TombstoneSums]]) -> TombstoneTimes:
        """Return the sums by time. sums: any number for each time."""
        return cls(cls.ROWS.empty_table()).updated(sums)

    def updated(self, changes: Iterable[tuple[int, TombstoneSums]]) -> TombstoneTimes:
        """Return these sums with changes added, without empty ones. Errors: InconsistentBreakdownError."""
        added = [(at, *sums) for at, sums in changes]
        if not added:
            return self
        columns = zip(zip(*added, strict=True), self.ROWS.types, strict=True)
        new = pa.table([pa.array(values, kind) for values, kind in columns], schema=self.ROWS)
        rows = pa.concat_tables([self.rows, new])
        totals = rows.group_by("deleted_at").aggregate([(name, "sum") for name in self.ROWS.names[1:]])
        totals = totals.rename_columns(self.ROWS.names).cast(self.ROWS).sort_by("deleted_at")
        is_empty = pc.equal(totals["files"], 0)
        has_rest = pc.or_(pc.not_equal(totals["size"], 0), pc.not_equal(totals["without_size"], 0))
        wrong = totals.filter(pc.or_(pc.less(totals["files"], 0), pc.and_(is_empty, has_rest)))
        if wrong.num_rows:
            raise InconsistentBreakdownError(f"expected a number of tombstones, found {wrong.slice(0, 1).to_pylist()}")
        return TombstoneTimes(totals.filter(pc.invert(is_empty)))

    @cached_property
    def _by_time(self) -> dict[int, TombstoneSums]:
        times, files, sizes, without_size = (self.rows[name].to_pylist() for name in self.ROWS.names)
        return dict(zip(times, map(TombstoneSums, files, map(int, sizes), without_size), strict=True))

    def __getitem__(self, deleted_at: int) -> TombstoneSums:
        return self._by_time[deleted_at]

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_time)

    def __len__(self) -> int:
        return int(self.rows.num_rows)
