"""Lists every file below a folder, and the targets of its symbolic links."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltasnap_core.storage.local_files import local_entries
from deltasnap_core.storage.log_store import FileStatus
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
