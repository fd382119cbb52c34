"""Decides when changes are merged and when a new base is written. Pure.

Reading a version reads its base and every later set of changes. Two rules limit both the reads and the bytes written:

- Sets of changes are merged as in a log-structured merge tree: `fan_in` adjacent sets of about the same size become
  one. There are at most `fan_in - 1` sets of each size, and the write amplification is logarithmic: a row is written
  again only once for each power of `fan_in` in the number of rows.
- A new base is written when the changes since the last one have as many rows as `base_fraction` of it, and at least
  `least_rows`. So `base_fraction * n` changed rows come before each base of n rows. A changed row costs
  `1 / base_fraction` rows of base, for any size of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePolicy:
    """The limits for changes before they are merged, and before a new base is written."""

    base_fraction: float = 0.25
    least_rows: int = 10_000
    fan_in: int = 8

    def __post_init__(self) -> None:
        if self.base_fraction <= 0 or self.least_rows < 0 or self.fan_in < 2:
            raise ValueError(f"expected a positive fraction, rows >= 0 and a fan-in of at least 2, found {self}")

    def is_base_due(self, *, base_rows: int, change_rows: int) -> bool:
        """Return whether the changes have enough rows, compared with their base, for a new base."""
        return change_rows >= max(self.least_rows, self.base_fraction * base_rows)

    def sets_to_merge(self, earlier_rows: Sequence[int], new_rows: int) -> int:
        """Return how many of the latest sets to merge with a new one.

        earlier_rows: the rows of each set since the base, oldest first.
        """
        merged, rows = 0, new_rows
        while True:
            size = self._size_class(rows)
            start = len(earlier_rows) - merged
            while start > 0 and self._size_class(earlier_rows[start - 1]) <= size:
                start -= 1
            alike = len(earlier_rows) - merged - start
            if alike < self.fan_in - 1:
                return merged
            rows += sum(earlier_rows[start : start + alike])
            merged += alike

    def _size_class(self, rows: int) -> int:
        size = 0
        while rows >= self.fan_in:
            rows //= self.fan_in
            size += 1
        return size
