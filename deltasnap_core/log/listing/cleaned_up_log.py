"""Lists a log again, and reads it again if a cleanup deleted a listed commit before it was read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.listing.log_listing import LogListing, list_log
from deltasnap_core.storage.log_store import LogStore

T = TypeVar("T")


def list_again(store: LogStore, listing: LogListing) -> LogListing:
    """Return a new listing of the same range; an empty one if the log no longer exists."""
    try:
        return list_log(store, listing.log_path, first=listing.first)
    except FileNotFoundError:
        return replace(listing, commits={}, checkpoints=(), compactions=(), checksums={}, unusable_checkpoints=())


def is_cleaned_up(path: str, listing: LogListing, now: LogListing) -> bool:
    """Return whether a file is a listed commit that was deleted since, with all earlier ones. now: a later listing."""
    versions = [version for version, commit in listing.commits.items() if commit.path == path]
    return any(version < min(now.commits, default=-1) for version in versions)


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
