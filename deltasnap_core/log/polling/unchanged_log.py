"""Checks that a log did not change after it was listed and read."""

from __future__ import annotations

from collections.abc import Iterable

from deltasnap_core.errors import LogChangedError
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.storage.log_store import FileStatus


def check_unchanged(listed: LogListing, now: LogListing, checkpoint_files: Iterable[FileStatus]) -> None:
    """Raise unless the log is still the listed one, or a continuation of it. This detects a lost race.

    Later commits are ignored. The oldest commits and any checkpoints may have been deleted. All commits, and all
    checkpoints that were read, must be unchanged if they still exist.
    checkpoint_files: the files of the checkpoints that were read.
    Errors: LogChangedError naming the first file that changed.
    """
    earliest = min(now.commits, default=-1)
    for version, commit in listed.commits.items():
        found = now.commits.get(version)
        is_cleaned_up = found is None and version < earliest
        if found != commit and not is_cleaned_up:
            raise _changed(listed, commit, found)
    in_checkpoints = {file.path: file for checkpoint in now.checkpoints for file in checkpoint.files}
    for file in checkpoint_files:
        found = in_checkpoints.get(file.path, file)
        if found != file:
            raise _changed(listed, file, found)
    if (now.latest_version or 0) < (listed.latest_version or 0):
        latest = max(listed.checkpoints[0].files, key=lambda file: file.modification_time)
        raise _changed(listed, latest, None)


def _changed(listed: LogListing, file: FileStatus, found: FileStatus | None) -> LogChangedError:
    return LogChangedError(path=listed.log_path, file=file.name, expected=_facts(file), found=_facts(found))


def _facts(file: FileStatus | None) -> str:
    return "no file" if file is None else f"{file.size} bytes of time {file.modification_time}"
