"""Pauses and growth from the times and sizes of stored versions."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from deltasnap_core.store.fleet.fleet_row import read_growth
from deltasnap_core.store.fleet.timeline import Points, Timeline, VersionPoint
from deltasnap_core.store.format.layout import ManifestName


def name(version: int) -> ManifestName:
    return ManifestName(generation="000001-id", version=version)


class Store:
    """Points by version, and the number of reads."""

    def __init__(self, points: dict[int, tuple[int, int]]) -> None:
        self.points = {name(version): VersionPoint(*point) for version, point in points.items()}
        self.reads = 0

    def load(self, names: Sequence[ManifestName]) -> Points:
        self.reads += len(names)
        return {each: self.points[each] for each in names if each in self.points}

    def timeline(self, known: Points | None = None, names: Sequence[ManifestName] | None = None) -> Timeline:
        return Timeline(sorted(self.points) if names is None else names, known or {}, self.load)


def test_growth_is_the_current_size_minus_the_size_at_that_time() -> None:
    store = Store({0: (100, 10), 1: (200, 25), 2: (300, 18)})
    assert [store.timeline().growth_since(at) for at in (100, 199, 200, 299, 300, 999)] == [8, 8, -7, -7, 0, 0]


def test_growth_is_that_of_the_last_seven_and_thirty_days() -> None:
    day = 24 * 60 * 60 * 1000
    times = {20 * day - 1: 1, 20 * day: 3, 43 * day - 1: 10, 43 * day: 30, 50 * day: 100}
    store = Store(dict(enumerate(times.items())))
    assert read_growth(store.timeline(), 50 * day)[1:] == (70, 97)
    assert read_growth(store.timeline(), 50 * day - 1)[1:] == (90, 99)


def test_growth_is_unknown_before_the_first_stored_version() -> None:
    store = Store({5: (100, 10), 6: (200, 25)})
    assert store.timeline().growth_since(99) is None
    assert store.reads == 2
    assert Store({}).timeline().growth_since(99) is None


def test_growth_is_unknown_across_a_gap_in_the_stored_versions() -> None:
    store = Store({0: (100, 10), 7: (200, 25), 8: (300, 30)})
    assert store.timeline().growth_since(150) is None
    assert store.timeline().growth_since(200) == 5


def test_growth_is_unknown_if_a_version_cannot_be_read() -> None:
    store = Store({0: (100, 10), 2: (300, 18)})
    assert store.timeline(names=[name(0), name(1), name(2)]).growth_since(150) is None


PAUSES: dict[str, tuple[dict[int, int], int | None]] = {
    "the median": ({0: 0, 1: 10, 2: 30, 3: 1000}, 20),
    "three pauses are enough": ({0: 0, 1: 10, 2: 20, 3: 30}, 10),
    "two are too few": ({0: 0, 1: 10, 2: 30}, None),
    "only consecutive versions count": ({0: 0, 2: 10, 4: 30, 6: 50}, None),
    "two of three versions are consecutive": ({0: 0, 1: 10, 2: 20, 9: 30}, None),
    "times of a table copied without them are reversed": (dict(enumerate((50, 40, 30, 20, 10))), 1),
    "times of a table copied without them are equal": (dict.fromkeys(range(5), 50), 1),
    "recent versions count": (dict(enumerate([*range(0, 10_000, 1000), *range(9010, 9310, 10)])), 10),
}


@pytest.mark.parametrize(("times", "expected"), PAUSES.values(), ids=PAUSES)
def test_usual_pause_is_the_median_between_consecutive_versions(times: dict[int, int], expected: int | None) -> None:
    store = Store({version: (time, 1) for version, time in times.items()})
    assert store.timeline().usual_pause_ms() == expected
    assert store.reads <= 30


def test_bisection_reads_few_versions_and_known_points_save_most_of_them() -> None:
    store = Store({version: (version * 100, version) for version in range(10_000)})
    first = store.timeline()
    assert first.growth_since(430_050) == 9_999 - 4_300
    assert store.reads < 20
    store.reads = 0
    later = store.timeline(first.used)
    assert later.growth_since(430_150) == 9_999 - 4_301
    assert store.reads <= 1
    assert later.used.keys() <= store.points.keys()


@pytest.mark.parametrize("known", [(8,), (8, 5_000), (0, 8)], ids=str)
def test_first_known_version_after_a_time_bounds_the_search(known: tuple[int, ...]) -> None:
    store = Store({version: (version * 100, version) for version in range(10_000)})
    timeline = store.timeline({name(version): store.points[name(version)] for version in (*known, 9_999)})
    assert timeline.growth_since(550) == 9_999 - 5
    assert store.reads <= 5


def test_known_points_of_another_generation_are_not_used() -> None:
    store = Store({0: (100, 10), 1: (200, 25)})
    other = {ManifestName(generation="000002-id", version=0): VersionPoint(0, 999)}
    assert store.timeline(other).growth_since(150) == 15


@pytest.mark.parametrize("seed", range(30))
def test_growth_does_not_depend_on_known_versions(seed: int) -> None:
    dice = random.Random(seed)
    times = sorted(dice.choices(range(1000), k=dice.randint(1, 60)))
    store = Store({version: (time, dice.randint(0, 99)) for version, time in enumerate(times)})
    known = dict(dice.sample(sorted(store.points.items()), dice.randint(0, len(times))))
    since = dice.randint(-10, 1100)
    until = [version for version, time in enumerate(times) if time <= since]
    newest = store.points[name(len(times) - 1)].size_in_bytes
    expected = newest - store.points[name(until[-1])].size_in_bytes if until else None
    assert store.timeline(known).growth_since(since) == expected


@pytest.mark.parametrize("order", [(2, 3, 0), (3, 0, 2), (0, 2, 3)])
def test_known_points_in_any_order_save_reads(order: tuple[int, ...]) -> None:
    store = Store({version: (version * 100, version) for version in range(10)})
    timeline = store.timeline({name(version): store.points[name(version)] for version in order})
    timeline.add_newest(store.points[name(9)])
    assert timeline.growth_since(250) == 7
    assert store.reads == 0
    assert list(timeline.used) == [name(2), name(3), name(9)]


@pytest.mark.parametrize("touched", range(100))
def test_growth_does_not_count_from_a_version_whose_time_is_too_late(touched: int) -> None:
    points = {version: (version * 100, version * version) for version in range(100)}
    points[touched] = (max(9800, touched * 100), touched * touched)
    store, version = Store(points), 30 if touched != 30 else 29
    assert store.timeline().growth_since(3050) == 99 * 99 - version * version
    assert store.reads <= 10
    known = {name(touched): store.points[name(touched)], name(50): store.points[name(50)]}
    assert store.timeline(known).growth_since(3050) in (None, 99 * 99 - version * version)


def test_growth_is_unknown_in_the_midst_of_times_that_are_out_of_order() -> None:
    store = Store({version: (100 - version, version) for version in range(64)} | {64: (40, 64), 65: (200, 65)})
    assert store.timeline().growth_since(39) is None
