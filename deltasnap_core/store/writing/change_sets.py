"""When changes are merged and when a new base is due: pure.

Reading a version costs its base and every set of changes since. Two rules keep both the reading and the bytes small:

- Sets of changes are merged as in a log-structured merge tree: as soon as `fan_in` sets of about one size stand in a
  row, they become one. There are at most `fan_in - 1` sets of each size, and the write amplification is a logarithm:
  a row is written again only once for each power of `fan_in` in the number of rows.
- A new base is written when the changes since the last one have as many rows as `base_fraction` of it, and at least
  `least_rows`. A base of n rows is paid for by the changes of `base_fraction * n` rows before it, so each changed row
  pays for `1 / base_fraction` rows of base, whatever the size of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePolicy:
    """How far changes may grow before they are merged, and before they become a base."""

    base_fraction: float = 0.25
    least_rows: int = 10_000
    fan_in: int = 8

    def __post_init__(self) -> None:
        if self.base_fraction <= 0 or self.least_rows < 0 or self.fan_in < 2:
            raise ValueError(f"expected a positive fraction, rows >= 0 and a fan-in of at least 2, found {self}")

    def is_base_due(self, *, base_rows: int, change_rows: int) -> bool:
        """Whether the changes have grown to the fraction of their base that makes a new one worth its cost."""
        return change_rows >= max(self.least_rows, self.base_fraction * base_rows)

    def sets_to_merge(self, earlier_rows: Sequence[int], new_rows: int) -> int:
        """Return how many of the latest sets are to be merged with a new one.

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
