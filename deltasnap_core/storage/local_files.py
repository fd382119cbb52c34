"""Listing and status of files on this machine, without fsspec, whose `ls` asks for a dozen facts of each file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import join_url, local_path


def list_local_from(folder: str, first: str) -> Iterator[FileStatus]:
    """The files of a folder (a `file:` URL) named `first` or later, by name; see LogStore.list_from.

    Size and time of a file are asked for when its turn comes, so a caller who stops early pays for what it saw.
    """
    try:
        with os.scandir(local_path(folder)) as entries:
            found = sorted((entry for entry in entries if entry.name >= first), key=lambda entry: entry.name)
    except NotADirectoryError as error:
        raise FileNotFoundError(f"Not a folder: {folder}") from error
    return _statuses(folder, found)


def local_status(url: str) -> FileStatus | None:
    """The status of the file at a `file:` URL; None where there is none."""
    try:
        return _status(url, os.stat(local_path(url)))  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None


def _statuses(folder: str, entries: Iterable[os.DirEntry[str]]) -> Iterator[FileStatus]:
    for entry in entries:
        try:
            found = _status(join_url(folder, entry.name), entry.stat())
        except FileNotFoundError:  # deleted since, or a dangling link
            continue
        if found:
            yield found


def _status(url: str, result: os.stat_result) -> FileStatus | None:
    if not stat.S_ISREG(result.st_mode):
        return None
    return FileStatus(path=url, size=result.st_size, modification_time=result.st_mtime_ns // 1_000_000)
