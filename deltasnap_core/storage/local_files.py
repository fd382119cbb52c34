"""Reads local files without fsspec, whose `ls` requests a dozen facts about each file.

Only regular files are read: opening a FIFO waits for its writer, and a device may never end.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.storage_errors import storage_errors
from deltasnap_core.storage.urls import join_url, local_path


def list_local_from(folder: str, first: str) -> Iterator[FileStatus]:
    """Return the files of a folder (a `file:` URL) named `first` or later, by name; see LogStore.list_from.

    Size and time of a file are read on demand, so stopping early saves requests. Other entries: see `_any_status`.
    """
    with storage_errors(folder), os.scandir(local_path(folder)) as entries:
        found = sorted((entry for entry in entries if entry.name >= first), key=lambda entry: entry.name)
    return _statuses(folder, found)


def local_status(url: str) -> FileStatus | None:
    """Return the status of the entry at a `file:` URL, as `list_local_from`; None: there is none."""
    try:
        with storage_errors(url):
            try:
                result = _stat(local_path(url))
            except FileNotFoundError:  # no file, or a dangling link
                result = os.lstat(local_path(url))
            return _any_status(url, result)
    except FileNotFoundError:
        return None


def local_entries(folder: str) -> Iterator[FileStatus | str]:
    """Yield the regular files below a folder (a `file:` URL), and the path of each symbolic link.

    Links are not followed. The order is undefined. Yields nothing if there is no such folder. Skips files that
    disappear in the meantime.
    """
    folders = [folder]
    while folders:
        url = folders.pop()
        try:
            with storage_errors(url), os.scandir(local_path(url)) as entries:
                found = list(entries)
        except FileNotFoundError:
            continue
        yield from (entry.path for entry in found if entry.is_symlink())
        folders += [join_url(url, entry.name) for entry in found if entry.is_dir(follow_symlinks=False)]
        yield from _statuses(url, (entry for entry in found if entry.is_file(follow_symlinks=False)))


def open_local(url: str) -> BinaryIO:
    """Return the file at a `file:` URL, opened for reading.

    Errors: FileNotFoundError; StorageError, including for anything but a regular file.
    """
    with storage_errors(url):
        return open(local_path(url), "rb", opener=_open_regular)


def read_local(url: str) -> bytes:
    """Return the content of the file at a `file:` URL. Errors: as `open_local`."""
    try:
        with open(local_path(url), "rb", buffering=0, opener=_open_regular) as file:
            return file.read()
    except Exception:
        with storage_errors(url):
            raise


def _open_regular(path: str, flags: int) -> int:
    # Do not wait for the writer of a FIFO. Check the opened file, not the path, which may change in between.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def _statuses(folder: str, entries: Iterable[os.DirEntry[str]]) -> Iterator[FileStatus]:
    prefix = join_url(folder, "")
    for entry in entries:
        url = f"{prefix}{entry.name}"
        try:
            result = _stat(entry)
        except (FileNotFoundError, NotADirectoryError):  # deleted in the meantime, or a dangling link
            if not entry.is_symlink():
                continue
            result = entry.stat(follow_symlinks=False)
        except OSError:
            with storage_errors(url):
                raise
        if found := _any_status(url, result):
            yield found


def _stat(file: str | os.DirEntry[str]) -> os.stat_result:
    try:
        return os.stat(file)  # noqa: PTH116
    except OSError as error:
        if error.errno == errno.ELOOP:  # a symbolic link loop counts as a dangling link
            raise FileNotFoundError(error.errno, error.strerror) from error
        raise


def _any_status(url: str, result: os.stat_result) -> FileStatus | None:
    """Return the status of a file. A file that cannot be read is not a missing file.

    So dangling links, FIFOs, devices, and folders with the name of a JSON file have a status with the size 0.
    """
    if stat.S_ISREG(result.st_mode) or (stat.S_ISDIR(result.st_mode) and not url.endswith(".json")):
        return _status(url, result)
    return FileStatus(path=url, size=0, modification_time=_milliseconds(result))


def _status(url: str, result: os.stat_result) -> FileStatus | None:
    if not stat.S_ISREG(result.st_mode):
        return None
    return FileStatus(path=url, size=result.st_size, modification_time=_milliseconds(result))


def _milliseconds(result: os.stat_result) -> int:
    return result.st_mtime_ns // 1_000_000
