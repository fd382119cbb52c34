"""The tombstones that a retention keeps, on both sides of its boundary."""

from __future__ import annotations

import pytest

from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention, monotonic_retentions


@pytest.mark.parametrize(
    ("deleted_at", "is_kept"), [(None, False), (0, False), (4, False), (5, False), (6, True)], ids=str
)
def test_tombstone_is_kept_if_strictly_later_than_the_time(deleted_at: int | None, is_kept: bool) -> None:
    assert Retention.after(5).keeps(deleted_at) is is_kept


def test_tombstone_without_a_time_was_deleted_in_1970() -> None:
    assert [Retention(expired_until=0).keeps(deleted_at) for deleted_at in (None, 0, 1)] == [False, False, True]
    assert Retention(expired_until=-1).keeps(None)


@pytest.mark.parametrize("timestamp", [0, -1, -(2**63)])
@pytest.mark.parametrize("deleted_at", [None, 0, -7, 1])
def test_without_a_time_every_tombstone_is_kept(timestamp: int, deleted_at: int | None) -> None:
    assert Retention.after(timestamp) == KEEP_ALL
    assert Retention.after(timestamp).keeps(deleted_at)


def test_retention_has_the_timestamp_of_its_creation() -> None:
    assert [Retention.after(time).min_file_retention_timestamp for time in (-1, 0, 5)] == [0, 0, 5]


@pytest.mark.parametrize(
    ("one", "other", "is_within"),
    [(0, 0, True), (0, 5, False), (5, 0, True), (5, 5, True), (4, 5, False), (6, 5, True)],
)
def test_retention_is_within_another_that_keeps_at_least_as_much(one: int, other: int, is_within: bool) -> None:
    assert Retention.after(one).is_within(Retention.after(other)) is is_within


@pytest.mark.parametrize(("one", "other", "later"), [(0, 5, 5), (5, 0, 5), (4, 5, 5), (0, 0, 0)])
def test_later_of_two_retentions_keeps_less(one: int, other: int, later: int) -> None:
    assert Retention.after(one).later_of(Retention.after(other)) == Retention.after(later)


def test_no_version_keeps_more_tombstones_than_the_one_before() -> None:
    requested = {6: Retention.after(4), 3: Retention.after(3), 4: Retention.after(2), 5: Retention.after(8)}
    found = monotonic_retentions(requested)
    assert found == {3: Retention.after(3), 4: Retention.after(3), 5: Retention.after(8), 6: Retention.after(8)}
    assert list(found) == [3, 4, 5, 6]
