"""When the stored versions of a table were committed, and how large the table was: usual pauses, and growth. Pure.

Names of manifests have no times, so a version of a week ago is found by bisection. A version's time and size never
change: points that are known already narrow the search, usually to nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from deltasnap_core.store.format.layout import ManifestName

RECENT = 30
"""The number of latest versions that define the usual pause between two commits."""

_LEAST_PAUSES = 3


class VersionPoint(NamedTuple):
    """The time of a version's commit (ms since the epoch), and the bytes of its live files."""

    timestamp: int
    size_in_bytes: int


Points = Mapping[ManifestName, VersionPoint]
Load = Callable[[Sequence[ManifestName]], Points]
"""Reads points from the store. A version that cannot be read is left out."""


class Timeline:
    """The stored versions of one table over time.

    names: the current versions, ascending. known: points that are known already. load: reads the others.
    """

    def __init__(self, names: Sequence[ManifestName], known: Points, load: Load) -> None:
        index_of = {name.version: index for index, name in enumerate(names)}
        self._names = names
        self._load = load
        self._points: dict[int, VersionPoint] = {}  # by index in names
        self._used: set[int] = set()
        for name, point in known.items():
            index = index_of.get(name.version)
            if index is not None and names[index] == name:
                self._points[index] = point

    @property
    def used(self) -> dict[ManifestName, VersionPoint]:
        """The points that were needed so far, to be stored for the next time."""
        return {self._names[index]: self._points[index] for index in sorted(self._used) if index in self._points}

    def add_newest(self, point: VersionPoint) -> None:
        """Add the point of the newest version, which was read for another reason."""
        self._points[len(self._names) - 1] = point

    def usual_pause_ms(self) -> int | None:
        """Return the median pause between recent commits, at least 1 ms; None: too few consecutive versions are stored.

        Times may go back, for example in a table that was copied without them; such a pause is 0.
        """
        recent = range(max(len(self._names) - RECENT, 0), len(self._names))
        self._ensure(recent)
        pauses = [
            max(self._points[later].timestamp - self._points[earlier].timestamp, 0)
            for earlier, later in pairwise(recent)
            if self._are_consecutive(earlier) and earlier in self._points and later in self._points
        ]
        return max(int(statistics.median(pauses)), 1) if len(pauses) >= _LEAST_PAUSES else None

    def growth_since(self, since_ms: int) -> int | None:
        """Return by how many bytes the table grew since a time.

        None: the version as of that time is not stored. The last stored version up to that time is used only if it
        is the newest one, or if the next version is stored too: otherwise a version in between may be missing.
        """
        newest = len(self._names) - 1
        index = self._last_until(since_ms) if self._names else None
        if index is None or not (index == newest or self._are_consecutive(index)):
            return None
        before, after = self._point(index), self._point(newest)
        return None if before is None or after is None else after.size_in_bytes - before.size_in_bytes

    def _last_until(self, since_ms: int) -> int | None:
        """Return the index of the last version committed until a time; None: there is none, or it cannot be found.

        A commit is not later than its successors. A file with such a time was touched, and its time is not used.
        """
        low, high = -1, len(self._names)
        for index in sorted(self._points):  # known points narrow the search
            if self._points[index].timestamp <= since_ms:
                low, high = index, len(self._names)
            elif high == len(self._names) and not self._is_late(index):
                high = index
        # Little time has passed since the last poll: the version is probably just after the last result.
        step = 1 if low >= 0 else 0
        while high - low > 1:
            first = low + step if 0 < step < high - low else (low + high) // 2
            middle = self._first_not_late(first, high)
            if middle is None:
                return None
            if middle < high and self._points[middle].timestamp <= since_ms:
                low, step = middle, step * 2
            else:
                high, step = (first if middle == high else middle), 0
        self._used.update(index for index in (low, high) if 0 <= index < len(self._names))
        return low if low >= 0 else None

    def _first_not_late(self, first: int, end: int) -> int | None:
        """Return `first`, or the index after it if the time of `first` is too late; None: unknown.

        The result may be `end`: then the time of `first` counts as that of `end`.
        """
        for index in (first, first + 1):
            if index == end:
                return end
            if self._point(index) is None:
                return None
            if not self._is_late(index):
                return index
        return None

    def _is_late(self, index: int) -> bool:
        """Return whether a time is after that of a known later version: its file was written again, or copied."""
        later = (point.timestamp for other, point in self._points.items() if other > index)
        return self._points[index].timestamp > min(later, default=self._points[index].timestamp)

    def _are_consecutive(self, index: int) -> bool:
        return self._names[index + 1].version == self._names[index].version + 1

    def _point(self, index: int) -> VersionPoint | None:
        self._ensure([index])
        return self._points.get(index)

    def _ensure(self, indexes: Sequence[int]) -> None:
        if missing := {self._names[index]: index for index in indexes if index not in self._points}:
            for name, point in self._load(list(missing)).items():
                self._points[missing[name]] = point
        self._used.update(indexes)
