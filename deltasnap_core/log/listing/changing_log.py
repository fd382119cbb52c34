"""A log that changes while it is read: a cleanup deletes commits, or another log replaces it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from deltasnap_core.errors import CorruptLogError, LogChangedError
from deltasnap_core.log.listing.log_listing import LogListing, list_log
from deltasnap_core.storage.log_store import FileStatus, LogStore

T = TypeVar("T")


def list_again(store: LogStore, listing: LogListing) -> LogListing:
    """Return a new listing of the same range; an empty one if the log no longer exists."""
    try:
        return list_log(store, listing.log_path, first=listing.first)
    except FileNotFoundError:
        return replace(listing, commits={}, checkpoints=(), compactions=(), checksums={}, unusable_checkpoints=())


def is_cleaned_up(path: str, listing: LogListing, now: LogListing) -> bool:
    """Return whether a file is a listed commit that was deleted since, with all earlier ones or by its publication.

    now: a later listing.
    """
    for version, commit in listing.commits.items():
        if commit.path == path:
            return version < min(now.commits, default=-1) or now.commits.get(version, commit).path != path
    return False


def read_or_list_again(read: Callable[[LogListing], T], listing: LogListing, list_again: Callable[[], LogListing]) -> T:
    """Return the result of reading a listed log; of a new listing if a commit was cleaned up in the meantime.

    Errors: those of `read` and `list_again`.
    """
    try:
        return read(listing)
    except CorruptLogError as error:
        now = list_again()
        if not is_cleaned_up(error.path, listing, now):
            raise
        return read(now)


def check_unchanged(listed: LogListing, now: LogListing, checkpoint_files: Iterable[FileStatus]) -> None:
    """Raise unless the log is still the listed one, or a continuation of it. This detects a lost race.

    Later commits are ignored. The oldest commits and any checkpoints may have been deleted, and staged commits may have
    been published. All commits, and all checkpoints that were read, must be unchanged if they still exist.
    checkpoint_files: the files of the checkpoints that were read.
    Errors: LogChangedError naming the first file that changed.
    """
    earliest = min(now.commits, default=-1)
    for version, commit in listed.commits.items():
        found = now.commits.get(version)
        is_cleaned_up = found is None and version < earliest
        is_published = found is not None and found.path != commit.path and found.size == commit.size
        if found != commit and not is_cleaned_up and not is_published:
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
