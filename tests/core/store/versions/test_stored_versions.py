"""The current stored versions, from names alone."""

from __future__ import annotations

import pytest

from deltasnap_core.store.format.layout import ForkPoint, ManifestName, fork_marker, fork_of, parse_fork_marker
from deltasnap_core.store.versions.stored_versions import StoredVersions

FIRST = "000001-id"
FORKED = "000002of000001at5-id"
FORKED_AGAIN = "000003of000002at7-id"


def names(generation: str, *versions: int) -> list[ManifestName]:
    return [ManifestName(generation=generation, version=version) for version in versions]


def versions_of(*groups: list[ManifestName], forks: tuple[str, ...] = ()) -> StoredVersions:
    return StoredVersions(manifests=tuple(sorted(name for group in groups for name in group)), forks=forks)


def current(stored: StoredVersions) -> list[tuple[int, int]]:
    return [(int(name.generation[:6]), name.version) for name in stored.current]


TWICE = versions_of(names(FIRST, 4, 5, 6), names(FORKED, 6, 7, 8), names(FORKED_AGAIN, 8), forks=(FORKED, FORKED_AGAIN))
CURRENT = {
    "a generation without a parent shares no versions": (
        versions_of(names(FIRST, 0, 1, 2), names("000002-other", 1)),
        [(2, 1)],
    ),
    "a forked generation shares the versions up to the fork": (
        versions_of(names(FIRST, 0, 3, 5, 6, 7), names(FORKED, 6), forks=(FORKED,)),
        [(1, 0), (1, 3), (1, 5), (2, 6)],
    ),
    "a fork marker alone ends the versions after it": (
        versions_of(names(FIRST, 4, 5, 6), forks=(FORKED,)),
        [(1, 4), (1, 5)],
    ),
    "a fork of a fork shares earlier common versions": (TWICE, [(1, 4), (1, 5), (2, 6), (2, 7), (3, 8)]),
    "a version stored again is preferred to the parent": (
        versions_of(names(FIRST, 4, 5), names(FORKED, 5)),
        [(1, 4), (2, 5)],
    ),
    "a pruned parent shares nothing": (versions_of(names(FORKED, 6, 7)), [(2, 6), (2, 7)]),
    "a generation that names itself has no parent": (versions_of(names("000002of000002at5-id", 1)), [(2, 1)]),
}


@pytest.mark.parametrize(("stored", "expected"), CURRENT.values(), ids=CURRENT)
def test_versions_are_the_newest_and_those_they_share(stored: StoredVersions, expected: list[tuple[int, int]]) -> None:
    assert current(stored) == expected


def test_empty_store_has_no_generation() -> None:
    assert (StoredVersions(manifests=()).current_generation, StoredVersions(manifests=()).current) == (None, ())
    assert StoredVersions(manifests=()).next_generation("id") == FIRST


@pytest.mark.parametrize(("version", "parent"), [(8, 3), (7, 2), (6, 2), (5, 1)])
def test_fork_names_the_generation_that_has_its_version(version: int, parent: int) -> None:
    assert TWICE.forked_generation(version) == f"000004of00000{parent}at{version}-id"


def test_fork_shares_versions_that_were_stored_before_an_earlier_fork_point_and_after_that_fork() -> None:
    before = versions_of(names(FIRST, 3, 4, 5, 6), names(FORKED, 1, 2, 6), forks=(FORKED,))
    fork = before.forked_generation(3)
    after = StoredVersions(manifests=before.manifests, forks=(FORKED, fork))
    assert current(after) == [(2, 1), (2, 2), (1, 3)]


def test_versions_are_lost_until_a_fork_has_its_own_version() -> None:
    assert tuple(versions_of(names(FIRST, 4, 5, 6, 7)).lost_after(5)) == (6, 7)
    rolled_back = versions_of(names(FIRST, 4, 5, 6, 7), forks=(FORKED,))
    assert tuple(rolled_back.lost_after(5)) == (6, 7)
    twice = versions_of(names(FIRST, 4, 5, 6, 7), forks=(FORKED, "000003of000001at4-id"))
    assert tuple(twice.lost_after(4)) == (5, 6, 7)
    assert not versions_of(names(FIRST, 4, 5, 6, 7), names(FORKED, 6), forks=(FORKED,)).lost_after(6)
    assert not StoredVersions(manifests=()).lost_after(0)


@pytest.mark.parametrize("pruned", [False, True], ids=["all stored", "pruned before the second rollback"])
def test_second_rollback_to_one_version_lost_the_versions_stored_in_between(pruned: bool) -> None:
    first, second = names(FIRST, 4, 5, *([] if pruned else [6, 7])), names(FORKED, 6, 7, 8, 9)
    stored = versions_of(first, second, forks=(FORKED, "000003of000001at5-id"))
    assert tuple(stored.lost_after(5)) == (6, 7, 8, 9)
    assert tuple(versions_of(first, second, forks=(FORKED,)).lost_after(5)) == (6, 7, 8, 9)


def test_versions_end_where_the_newest_generation_forked() -> None:
    assert versions_of(names(FIRST, 4, 5), forks=(FORKED,)).fork_point == 5
    assert versions_of(names(FIRST, 4, 5), forks=(FORKED, FORKED_AGAIN)).fork_point == 7
    assert versions_of(names(FIRST, 4, 5)).fork_point is None
    assert StoredVersions(manifests=()).fork_point is None


def test_versions_are_pruned_before_the_first_kept_one() -> None:
    stored = versions_of(names(FIRST, 4, 5, 6), names(FORKED, 6, 7), forks=(FORKED,))

    def before(*kept: ManifestName) -> int:
        return StoredVersions(manifests=stored.manifests, forks=stored.forks, kept=kept).pruned_before

    assert before() == 0
    assert before(*names(FIRST, 4)) == 4
    assert before(*names(FIRST, 4, 6)) == before(*names(FIRST, 7)) == 6  # later ones of the parent are not shared
    assert before(*names(FIRST, 4), *names(FORKED, 7)) == 7
    assert before(*names("000009-other", 8)) == 0
    assert StoredVersions(manifests=(), kept=tuple(names(FIRST, 4))).pruned_before == 0


def test_pruning_drops_the_markers_of_other_generations() -> None:
    newest = "000004-other"
    stored = StoredVersions(
        manifests=tuple(names(newest, 4, 5, 6)),
        forks=(FORKED, FORKED_AGAIN),
        kept=(*names(FIRST, 1), *names(newest, 4)),
    )
    assert (stored.pruned(None, 1).kept, stored.pruned(None, 1).forks) == (tuple(names(newest, 4)), ())
    assert stored.pruned(1, 1).kept == tuple(names(newest, 6))


def test_fork_is_written_to_from_the_version_after_its_fork_point_on() -> None:
    first = names(FIRST, 4, 5, 6)
    assert versions_of(first, names(FORKED, 4, 5), forks=(FORKED,)).written_generations == (FIRST,)
    assert versions_of(first, names(FORKED, 6), forks=(FORKED,)).written_generations == (FIRST, FORKED)
    assert StoredVersions(manifests=(), forks=(FORKED,)).written_generations == ()


def test_fork_is_read_from_the_name_of_its_generation_and_marker() -> None:
    assert fork_of(FORKED) == ForkPoint(parent=1, version=5)
    assert fork_of(FIRST) is None
    assert parse_fork_marker(fork_marker(FORKED)) == FORKED
    assert parse_fork_marker("000001-id.json") is None
    assert ManifestName.parse(fork_marker(FORKED)) is None
    name = ManifestName(generation=FORKED, version=6)
    assert ManifestName.parse(str(name)) == name


def test_table_id_that_resembles_a_fork_is_not_a_fork() -> None:
    assert fork_of("000001-000001of000001at5-id") is None
