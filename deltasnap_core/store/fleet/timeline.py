"""When the stored versions of a table were committed, and how large the table was: usual pauses, and growth. Pure.

Names of manifests have no times, so a version of a week ago is found by bisection. A version's time and size never
change: points that are known already narrow the search, usually to nothing.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
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
        self._names = names
        self._load = load
        self._points = {index: known[name] for index, name in enumerate(names) if name in known}
        self._used: set[int] = set()

    @property
    def num_versions(self) -> int:
        """The number of versions."""
        return len(self._names)

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
        self._read(recent)
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
        try:
            index = self._last_until(since_ms)
            if index < 0 or not (index == newest or self._are_consecutive(index)):
                return None
            self._used.update({index, min(index + 1, newest), newest})
            return self._point(newest).size_in_bytes - self._point(index).size_in_bytes
        except KeyError:  # a version cannot be read
            return None

    def _last_until(self, since_ms: int) -> int:
        """Return the index of the last version committed until a time; -1: there is none. Errors: KeyError."""
        low = max((index for index, point in self._points.items() if point.timestamp <= since_ms), default=-1)
        later = (index for index in self._points if index > low and not self._is_late(index))
        high, step = min(later, default=len(self._names)), 1
        # Little time has passed since the last poll: the version is probably just after the last result.
        while low >= 0 and low + step < high and self._time(low + step) <= since_ms:
            low, step = low + step, step * 2
        high = min(high, low + step) if low >= 0 else high
        return bisect_right(range(len(self._names)), since_ms, low + 1, high, key=self._time) - 1

    def _time(self, index: int) -> int:
        """Return the time of a version, or of the next one if it is too late. Errors: KeyError if both are unknown."""
        point = self._point(index)
        if not self._is_late(index):
            return point.timestamp
        following = self._point(index + 1)
        if self._is_late(index + 1):
            raise KeyError(index)
        return following.timestamp

    def _is_late(self, index: int) -> bool:
        """Return whether a time is after that of a known later version: its file was written again, or copied."""
        time = self._points[index].timestamp
        return any(other > index and point.timestamp < time for other, point in self._points.items())

    def _are_consecutive(self, index: int) -> bool:
        return self._names[index + 1].version == self._names[index].version + 1

    def _point(self, index: int) -> VersionPoint:
        if index not in self._points:
            self._read([index])
        return self._points[index]

    def _read(self, indexes: Sequence[int]) -> None:
        if missing := {self._names[index]: index for index in indexes if index not in self._points}:
            self._points |= {missing[name]: point for name, point in self._load(list(missing)).items()}
        self._used.update(indexes)
