"""Versions that a cleanup of the log would make unreadable."""

from __future__ import annotations

import pytest

from deltasnap_core.log.history.log_cleanup import cleanup_orphans
from deltasnap_core.log.listing.log_listing import LogListing, list_log
from deltasnap_core.protocol.log_files.file_names import checkpoint_file, commit_file
from deltasnap_core.storage.log_store import FileStatus
from tests.builders import LOG_PATH, MemoryLogStore, status

DAY_MS = 24 * 3600 * 1000
NOW_MS = 100 * DAY_MS + 5
"""Right after midnight. With the default retention, files up to midnight of day 70 are deleted."""


def log_of(
    days: dict[int, float], checkpoints: dict[int, float] | None = None, *, without: tuple[int, ...] = ()
) -> LogListing:
    """Return a log whose commits and checkpoints were written on these days."""
    files = [(commit_file(version), day) for version, day in days.items() if version not in without]
    files += [(checkpoint_file(version), day) for version, day in (checkpoints or {}).items()]
    statuses: list[FileStatus] = [status(name, mtime=int(day * DAY_MS)) for name, day in files]
    return list_log(MemoryLogStore(statuses), LOG_PATH)


def daily(first: int, last: int) -> dict[int, float]:
    """Return the days of the versions from 0 on, one a day."""
    return {version: float(day) for version, day in enumerate(range(first, last + 1))}


CASES = {
    "no checkpoint yet": (log_of(daily(68, 73)), [3, 4, 5]),
    "checkpoint right after the deleted files": (log_of(daily(68, 73), {3: 71}), []),
    "later checkpoint": (log_of(daily(68, 73), {5: 73}), [3, 4]),
    "checkpoint before the deleted files goes too": (log_of(daily(68, 73), {1: 69, 5: 73}), [3, 4]),
    "checkpoint that was written later ends the deletion": (log_of(daily(68, 73), {1: 75}), []),
    "nothing is old": (log_of(daily(71, 76)), []),
    "everything is old": (log_of(daily(10, 20)), []),
    "exactly at midnight": (log_of({0: 70.0, 1: 70.00001}), [1]),
    "two commits at midnight": (log_of({0: 70.0, 1: 70.0}), [1]),
    "time that goes back": (log_of({0: 69.0, 1: 75.0, 2: 60.0, 3: 76.0}), [1, 2, 3]),
    "versions that are unreadable already": (log_of(daily(68, 73), without=(4,)), [3]),
    "cleaned up before": (log_of(daily(68, 73), {3: 71}, without=(0, 1, 2)), []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_versions_between_the_deleted_files_and_the_next_checkpoint_are_lost(
    case: tuple[LogListing, list[int]],
) -> None:
    listing, lost = case
    assert list(cleanup_orphans(listing, {}, NOW_MS)) == lost


def test_properties_decide() -> None:
    listing = log_of(daily(68, 73))
    assert not cleanup_orphans(listing, {"delta.enableExpiredLogCleanup": "false"}, NOW_MS)
    assert not cleanup_orphans(listing, {"delta.logRetentionDuration": "interval 60 days"}, NOW_MS)
    assert list(cleanup_orphans(listing, {"delta.logRetentionDuration": "interval 28 days"}, NOW_MS)) == [5]


def test_checkpoint_of_the_first_lost_version_prevents_the_loss() -> None:
    days = daily(60, 90)
    lost = cleanup_orphans(log_of(days), {}, NOW_MS)
    assert not cleanup_orphans(log_of(days, {lost[0]: 100}), {}, NOW_MS)
    assert not cleanup_orphans(log_of(days, {lost[0]: 100}), {}, NOW_MS + 15 * DAY_MS)
