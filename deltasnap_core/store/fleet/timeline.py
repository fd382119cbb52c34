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
        current = set(names)
        self._names = names
        self._load = load
        self._known = {name: point for name, point in known.items() if name in current}
        self._used: set[ManifestName] = set()

    @property
    def used(self) -> dict[ManifestName, VersionPoint]:
        """The points that were read so far, to be known the next time."""
        return {name: self._known[name] for name in self._used if name in self._known}

    def add(self, name: ManifestName, point: VersionPoint) -> None:
        """Add a point that was read for another reason."""
        self._known[name] = point

    def usual_pause_ms(self) -> int | None:
        """Return the median pause between recent commits; None: too few consecutive versions are stored."""
        recent = self._names[-RECENT:]
        self._ensure(recent)
        pauses = [
            self._known[later].timestamp - self._known[earlier].timestamp
            for earlier, later in pairwise(recent)
            if later.version == earlier.version + 1 and earlier in self._known and later in self._known
        ]
        return int(statistics.median(pauses)) if len(pauses) >= _LEAST_PAUSES else None

    def growth_since(self, since_ms: int) -> int | None:
        """Return by how many bytes the table grew since a time.

        None: the version of that time is not stored. It is, if it or a later version up to that time is stored, and the
        next version, if any, too: without it, a version in between may be missing.
        """
        if not self._names:
            return None
        index = self._last_until(since_ms)
        newest = self._point(len(self._names) - 1)
        if index is None or newest is None:
            return None
        before = self._point(index)
        is_newest = index == len(self._names) - 1
        if before is None or not (is_newest or self._names[index + 1].version == self._names[index].version + 1):
            return None
        return newest.size_in_bytes - before.size_in_bytes

    def _last_until(self, since_ms: int) -> int | None:
        """Return the index of the last version committed until a time; None: there is none, or one cannot be read."""
        end = len(self._names)
        low, high = -1, end
        for index, name in enumerate(self._names):  # what is known narrows the search
            point = self._known.get(name)
            if point is not None and point.timestamp <= since_ms:
                low = index
            elif point is not None:
                high = index
                break
        # Since the last look little time has passed: the version is probably just after the one that was it then.
        step = 1 if low >= 0 else 0
        while high - low > 1:
            middle = low + step if 0 < step < high - low else (low + high) // 2
            point = self._point(middle)
            if point is None:
                return None
            if point.timestamp <= since_ms:
                low, step = middle, step * 2
            else:
                high, step = middle, 0
        for index in (low, high):
            if 0 <= index < end:
                self._used.add(self._names[index])
        return low if low >= 0 else None

    def _point(self, index: int) -> VersionPoint | None:
        self._ensure([self._names[index]])
        return self._known.get(self._names[index])

    def _ensure(self, names: Sequence[ManifestName]) -> None:
        if missing := [name for name in names if name not in self._known]:
            self._known.update(self._load(missing))
        self._used.update(names)
