from __future__ import annotations

import pytest

from deltasnap_assets.runs.planning.forks import Fork, forks_of_text, forks_text, materialized_since, with_fork

FORKS = (Fork(version=3, after_event=100), Fork(version=5, after_event=200))
# The materialized versions, by the preceding event.
MATERIALIZED = {None: {0, 1, 2, 3, 4, 5, 6, 7}, 50: {2, 3, 4, 5, 6, 7}, 100: {3, 5, 6}, 200: {6}}


def materialized_after(event: int | None) -> frozenset[int]:
    return frozenset(MATERIALIZED[event])


@pytest.mark.parametrize(
    ("forks", "began_after", "expected"),
    [
        ((), None, {0, 1, 2, 3, 4, 5, 6, 7}),
        (FORKS[:1], None, {0, 1, 2, 3, 5, 6}),
        (FORKS[1:], None, {0, 1, 2, 3, 4, 5, 6}),
        (FORKS, 50, {2, 3, 5, 6}),
        ((Fork(version=6, after_event=100),), 50, {2, 3, 4, 5, 6}),
    ],
)
def test_version_after_a_fork_counts_only_if_it_was_materialized_since(
    forks: tuple[Fork, ...], began_after: int | None, expected: set[int]
) -> None:
    assert materialized_since(forks, began_after, materialized_after) == expected


def test_fork_replaces_forks_at_later_versions() -> None:
    assert with_fork(FORKS, 5, 300) == (FORKS[0], Fork(version=5, after_event=300))
    assert with_fork(FORKS, 6, 300) == (*FORKS, Fork(version=6, after_event=300))
    assert with_fork(FORKS, 4, 300) == (FORKS[0], Fork(version=4, after_event=300))
    assert with_fork(FORKS, 3, 300) == (Fork(version=3, after_event=300),)


def test_fork_is_the_same_until_a_version_is_materialized() -> None:
    assert with_fork(FORKS, 5, 200) == FORKS


def test_oldest_of_many_forks_are_merged() -> None:
    three = with_fork(FORKS, 7, 300)
    assert len(three) == 3
    assert with_fork(three, 9, 400) == (Fork(version=3, after_event=200), *three[2:], Fork(version=9, after_event=400))


def test_forks_are_read_from_their_text() -> None:
    assert forks_text(FORKS) == "3.100_5.200"
    assert forks_of_text("3.100_5.200") == FORKS
    assert forks_of_text(None) == forks_of_text("") == ()
