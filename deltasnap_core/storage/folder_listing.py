"""Lists every file below a folder with the targets of its symbolic links, and the paths that a pattern matches."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from deltasnap_core.redaction import learn_options, learn_url
from deltasnap_core.storage.fsspec_log_store import filesystem_of
from deltasnap_core.storage.local_files import local_entries
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.retries import retrying
from deltasnap_core.storage.urls import is_local, local_path
from deltasnap_core.storage.writable_files import WritableFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderListing:
    """The files below a folder.

    files: regular files by path; files behind a symbolic link are left out.
    roots: URLs that lead to the folder: its own URL and, on this machine, the one without symbolic links.
    link_targets: resolved URLs of the targets of symbolic links below the folder.
    """

    files: tuple[FileStatus, ...]
    roots: tuple[str, ...]
    link_targets: tuple[str, ...] = ()


def list_below(folder: str, storage_options: Mapping[str, Any] | None = None) -> FolderListing:
    """Return the files below a folder (a URL); empty if there is no such folder. Errors: StorageError."""
    if not is_local(folder):
        return FolderListing(files=tuple(WritableFiles(folder, storage_options).walk(folder)), roots=(folder,))
    files: list[FileStatus] = []
    links: list[str] = []
    for entry in local_entries(folder):
        if isinstance(entry, FileStatus):
            files.append(entry)
        else:
            links.append(f"file://{os.path.realpath(entry)}")
    files.sort(key=lambda file: file.path)
    return FolderListing(files=tuple(files), roots=roots_of(folder), link_targets=tuple(links))


def roots_of(folder: str) -> tuple[str, ...]:
    """Return the URLs that lead to a folder: its own and, on this machine, the one without symbolic links."""
    if not is_local(folder):
        return (folder,)
    real = f"file://{os.path.realpath(local_path(folder))}"
    return tuple(dict.fromkeys((folder, real)))


_WILDCARD = re.compile(r"[*?\[]")


def matching_paths(pattern: str, storage_options: Mapping[str, Any]) -> list[str]:
    """Return the paths that a pattern (`*`, `?`, `[...]`) matches, ascending, without the scheme of a URL.

    Errors: NoFilesystemError; those of the filesystem, among them FileNotFoundError if `folder_of_pattern` does not
    exist. Temporary failures are retried.
    """
    learn_url(pattern)
    learn_options(storage_options)
    return retrying(partial(_matching, *filesystem_of(pattern, storage_options)))


def _matching(filesystem: Any, path: str) -> list[str]:
    filesystem.invalidate_cache()  # fsspec shares filesystems, with their listings, within a process
    # `glob` ignores a folder that does not exist or cannot be listed.
    filesystem.ls(folder_of_pattern(path) or filesystem.root_marker, detail=False)
    return sorted(str(each) for each in filesystem.glob(path))


def folder_of_pattern(pattern: str) -> str:
    """Return the folder before the first wildcard."""
    return _WILDCARD.split(pattern, maxsplit=1)[0].rpartition("/")[0]
