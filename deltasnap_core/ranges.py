"""Integers as runs of consecutive numbers: the cost depends on the number of runs, not on the number of integers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import overload

from deltasnap_core.redaction import safe_repr


def _follows(earlier: int, later: int) -> bool:
    return later == earlier + 1


def contiguous_runs(
    numbers: Iterable[int], *, follows: Callable[[int, int], bool] = _follows
) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of consecutive numbers, which must be ascending.

    follows: whether the second number continues a run that ends with the first; default: it is greater by one.
    """
    first = last = None
    for number in numbers:
        if first is None or last is None:
            first = number
        elif not follows(last, number):
            yield first, last
            first = number
        last = number
    if first is not None and last is not None:
        yield first, last


@safe_repr
@dataclass(frozen=True, slots=True, eq=False)
class VersionRanges(Sequence[int]):
    """Ascending versions, stored as runs: a gap of 2**62 versions takes no more memory than one of 2.

    runs: the first and the last version of each run, ascending, with a gap between any two.
    The cost of `len`, indexing and `in` depends on the number of runs, that of iterating on the number of versions.
    Equal to a tuple or list of the same versions. Those hash by their elements, so this class is not hashable.
    """

    runs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, versions: Iterable[int]) -> VersionRanges:
        """Return the ranges of single versions, given in any order."""
        if isinstance(versions, VersionRanges):
            return versions
        if isinstance(versions, range) and versions.step == 1:
            return cls(((versions[0], versions[-1]),) if versions else ())
        return cls(tuple(contiguous_runs(sorted(set(versions)))))

    @classmethod
    def between(cls, first: int, last: int, present: Iterable[int]) -> VersionRanges:
        """Return the versions from first to last, both inclusive, that are not in `present`."""
        known = sorted({version for version in present if first <= version <= last})
        edges = pairwise((first - 1, *known, last + 1))
        return cls(tuple((one + 1, other - 1) for one, other in edges if one + 1 < other))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, VersionRanges):
            return self.runs == other.runs
        if isinstance(other, tuple | list):
            return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.runs:
            yield from range(first, last + 1)

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and any(first <= version <= last for first, last in self.runs)

    def overlaps(self, other: VersionRanges) -> bool:
        """Return whether a version is in both."""
        return any(first <= end and start <= last for first, last in self.runs for start, end in other.runs)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        place = index + len(self) if index < 0 else index
        ends = accumulate(last - first + 1 for first, last in self.runs)
        for (_, last), end in zip(self.runs, ends, strict=True):
            if 0 <= place < end:
                return last + 1 - (end - place)
        raise IndexError(index)

    def text(self, most: int = 10) -> str:
        """Return the runs for a message, such as `1 to 3, 7`; `...` replaces the runs after the first `most`."""
        shown = [f"{first}" if first == last else f"{first} to {last}" for first, last in self.runs[:most]]
        return ", ".join([*shown, "..."] if len(self.runs) > most else shown)


NO_VERSIONS = VersionRanges()
