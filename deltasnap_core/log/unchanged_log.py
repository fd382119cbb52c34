"""Whether a log is still the one that was listed and read."""

from __future__ import annotations

from collections.abc import Iterable

from deltasnap_core.errors import LogChangedError
from deltasnap_core.log.log_listing import LogListing
from deltasnap_core.storage.log_store import FileStatus


def check_unchanged(listed: LogListing, now: LogListing, checkpoint_files: Iterable[FileStatus]) -> None:
    """Raise unless a log, as it lies there now, is a later state of the one that was listed: a race was lost.

    Later commits are none of its concern, and a log may lose its oldest commits and its checkpoints. What is there
    must be as it was: every commit, and the checkpoints that were read.
    checkpoint_files: those.
    Errors: LogChangedError naming the first file that is not as it was.
    """
    for version, commit in listed.commits.items():
        found = now.commits.get(version)
        is_cleaned_up = found is None and version < min(now.commits, default=-1)
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
