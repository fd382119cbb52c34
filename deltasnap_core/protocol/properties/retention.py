"""Retention: which tombstones a version keeps, and which have expired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KEEPS_EVERYTHING = 0
"""The `min_file_retention_timestamp` that keeps every tombstone, including those without a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Tombstones deleted at `expired_until` (ms since the epoch) or before have expired; None: none have expired.

    A tombstone without a deletion time counts as one of 1970.
    `rules/expiry.py` has the same rule for rows, in SQL and in Arrow.
    Source: PROTOCOL.md, Action Reconciliation. Delta's `minFileRetentionTimestamp`.
    """

    expired_until: int | None

    @classmethod
    def after(cls, min_file_retention_timestamp: int) -> Retention:
        """Return the retention that keeps tombstones deleted after a time (ms); 0 or less keeps every tombstone."""
        if min_file_retention_timestamp <= KEEPS_EVERYTHING:
            return KEEP_ALL
        return cls(expired_until=min_file_retention_timestamp)

    @property
    def min_file_retention_timestamp(self) -> int:
        """The argument of `after` that returns this retention."""
        return KEEPS_EVERYTHING if self.expired_until is None else self.expired_until

    def keeps(self, deleted_at: int | None) -> bool:
        """Return whether a tombstone with this deletion time (ms; None: without a time) is kept."""
        return self.expired_until is None or (deleted_at or 0) > self.expired_until

    def is_within(self, other: Retention) -> bool:
        """Return whether the other retention keeps everything that this one keeps."""
        return other.expired_until is None or (
            self.expired_until is not None and other.expired_until <= self.expired_until
        )

    def later_of(self, other: Retention) -> Retention:
        """Return the stricter of the two retentions: an expired tombstone never comes back."""
        return self if self.is_within(other) else other


KEEP_ALL = Retention(expired_until=None)


def monotonic_retentions(retentions: Mapping[int, Retention]) -> dict[int, Retention]:
    """Return the retention of each version, ascending; none keeps more than the previous one.

    An expired tombstone never comes back: a version whose retention would keep it gets the previous version's
    retention.
    """
    in_force, strictest = dict[int, Retention](), KEEP_ALL
    for version in sorted(retentions):
        in_force[version] = strictest = retentions[version].later_of(strictest)
    return in_force
