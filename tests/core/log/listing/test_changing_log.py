from __future__ import annotations

from dataclasses import replace

import pytest

from deltasnap_core.errors import LogChangedError
from deltasnap_core.log.listing.changing_log import check_unchanged
from deltasnap_core.log.listing.log_listing import LogListing, list_log
from deltasnap_core.storage.log_store import FileStatus
from tests.builders import LOG_PATH, MemoryLogStore, checkpoint, commits


def listing(*files: list[FileStatus]) -> LogListing:
    return list_log(MemoryLogStore(*files), LOG_PATH)


BEFORE = listing(commits(2, 6), checkpoint(3))
USED = checkpoint(3)


@pytest.mark.parametrize(
    "now",
    [
        [commits(2, 6), checkpoint(3)],
        [commits(2, 8), checkpoint(3), checkpoint(7)],
        [commits(4, 6), checkpoint(3)],
        [commits(2, 6)],
        [commits(8, 9), checkpoint(7)],
    ],
    ids=["as it was", "later commits", "old commits gone", "checkpoint gone", "all that was listed cleaned up"],
)
def test_later_state_of_the_log_passes(now: list[list[FileStatus]]) -> None:
    check_unchanged(BEFORE, listing(*now), USED)


@pytest.mark.parametrize(
    ("now", "file"),
    [
        ([commits(2, 5), checkpoint(3)], commits(6, 6)[0]),
        ([commits(2, 4), commits(6, 6), checkpoint(3)], commits(5, 5)[0]),
        ([commits(2, 5), [replace(commits(6, 6)[0], size=1)], checkpoint(3)], commits(6, 6)[0]),
        ([commits(2, 5), [replace(commits(6, 6)[0], modification_time=1)], checkpoint(3)], commits(6, 6)[0]),
        ([commits(2, 6), [replace(USED[0], modification_time=1)]], USED[0]),
        ([commits(0, 1)], commits(2, 2)[0]),
    ],
    ids=["rolled back", "a gap", "another size", "another time", "another checkpoint", "recreated"],
)
def test_different_log_is_detected_by_its_first_file(now: list[list[FileStatus]], file: FileStatus) -> None:
    with pytest.raises(LogChangedError) as error:
        check_unchanged(BEFORE, listing(*now), USED)
    assert (error.value.path, error.value.file) == (LOG_PATH, file.name)
    assert error.value.expected == f"{file.size} bytes of time {file.modification_time}"


def test_dropped_log_is_reported() -> None:
    gone = replace(BEFORE, commits={}, checkpoints=())
    with pytest.raises(LogChangedError, match="found no file"):
        check_unchanged(BEFORE, gone, USED)
    with pytest.raises(LogChangedError, match="found no file"):
        check_unchanged(listing(checkpoint(3)), gone, USED)
