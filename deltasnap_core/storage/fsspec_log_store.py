"""A LogStore for every filesystem that fsspec supports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

import fsspec
from fsspec.core import url_to_fs

from deltasnap_core.distribution import how_to_install
from deltasnap_core.errors import NoFilesystemError
from deltasnap_core.redaction import hide_secrets
from deltasnap_core.storage.concurrency import map_concurrently
from deltasnap_core.storage.file_info import status_of
from deltasnap_core.storage.local_files import list_local_from, local_status, open_local, read_local
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.request_limits import (
    AZURE_SCHEMES,
    S3_SCHEMES,
    with_s3_limits,
    without_azure_retries,
    without_s3_retries,
)
from deltasnap_core.storage.retries import retrying
from deltasnap_core.storage.s3.s3_listing import is_s3, list_s3_from, lists_from_name, s3_status
from deltasnap_core.storage.storage_errors import storage_errors, translated_stream
from deltasnap_core.storage.temporary_options import options_to_keep
from deltasnap_core.storage.urls import is_local, join_url, split_url

# Only Parquet footers and short columns are read from the middle of a file: s3fs would fetch 50 MiB for each.
_BLOCK_BYTES = 4 * 2**20
_PACKAGES = (("s3fs", "s3", S3_SCHEMES), ("adlfs", "azure", AZURE_SCHEMES), ("gcsfs", "gcs", ("gs://",)))
"""The package of a filesystem, the extra that installs it, and the URLs that it supports."""


def filesystem_of(url: str, storage_options: Mapping[str, Any]) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the fsspec filesystem of a URL, and the path of the URL in it. Local filesystems get no options.

    Errors: NoFilesystemError, which states the package to install.
    """
    try:
        filesystem, path = url_to_fs(url, **options_of(url, storage_options))
        if is_s3(filesystem):
            filesystem = without_s3_retries(filesystem)
        elif url.startswith(AZURE_SCHEMES):
            filesystem = without_azure_retries(filesystem)
    except (ImportError, ValueError) as error:
        raise NoFilesystemError(path=url, reason=_reason(url, error)) from hide_secrets(error)
    return cast(fsspec.AbstractFileSystem, filesystem), cast(str, path)


def options_of(url: str, storage_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for the fsspec filesystem of a URL: none for a local one, with limits of waiting for S3."""
    if is_local(url):
        return {}
    return with_s3_limits(storage_options) if url.startswith(S3_SCHEMES) else dict(storage_options)


class FsspecLogStore:
    """A LogStore over fsspec. `storage_options` are passed to the filesystem of every URL that is not local.

    It hides the differences between filesystems: cached or unsorted listings, missing schemes, and different keys for
    the modification time. Temporary failures of a remote storage are retried (`retries`).
    """

    def __init__(self, storage_options: Mapping[str, Any] | None = None) -> None:
        self.storage_options = options_to_keep(storage_options)

    def list_from(self, path: str) -> Iterator[FileStatus]:
        """See LogStore. On S3, only the requested files are listed; other remote folders are listed completely."""
        folder, first = split_url(path)
        if is_local(path):
            return list_local_from(folder, first)
        with storage_errors(folder):
            filesystem, fs_folder = filesystem_of(folder, self.storage_options)
            if lists_from_name(filesystem, fs_folder):
                return list_s3_from(filesystem, fs_folder, folder, first)
            return retrying(lambda: _list_whole_from(filesystem, fs_folder, folder, first))

    def lists_from_name(self, folder: str) -> bool:
        """See LogStore."""
        if is_local(folder):
            return False
        with storage_errors(folder):
            return lists_from_name(*filesystem_of(folder, self.storage_options))

    def status(self, path: str) -> FileStatus | None:
        """See LogStore."""
        if is_local(path):
            return local_status(path)
        try:
            with storage_errors(path):
                filesystem, fs_path = filesystem_of(path, self.storage_options)
                if is_s3(filesystem):
                    return retrying(lambda: s3_status(filesystem, fs_path, path))
                filesystem.invalidate_cache(fs_path)
                info = retrying(lambda: filesystem.info(fs_path))
                return status_of(path, info) if info["type"] == "file" else None
        except FileNotFoundError:
            return None

    def read_bytes(self, path: str) -> bytes:
        """See LogStore."""
        if is_local(path):
            return read_local(path)
        with storage_errors(path):
            filesystem, fs_path = filesystem_of(path, self.storage_options)
            # With more than one connection, s3fs first requests the size of each file.
            options = {"max_concurrency": 1} if is_s3(filesystem) else {}
            return cast(bytes, retrying(lambda: filesystem.cat_file(fs_path, **options)))

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        """See LogStore. Remote files are read in parallel."""
        if all(is_local(path) for path in paths):
            return [self.read_bytes(path) for path in paths]
        return map_concurrently(self.read_bytes, paths)

    def open(self, path: str) -> BinaryIO:
        """See LogStore."""
        if is_local(path):
            return open_local(path)
        with storage_errors(path):
            filesystem, fs_path = filesystem_of(path, self.storage_options)
            filesystem.invalidate_cache(fs_path)
            return translated_stream(path, retrying(lambda: filesystem.open(fs_path, "rb", block_size=_BLOCK_BYTES)))


def _reason(url: str, error: Exception) -> str:
    for package, extra, schemes in _PACKAGES:
        if isinstance(error, ImportError) and url.startswith(schemes):
            return f"{package} cannot be imported: {how_to_install(extra)}"
    return str(error)


def _list_whole_from(
    filesystem: fsspec.AbstractFileSystem, fs_folder: str, folder: str, first: str
) -> Iterator[FileStatus]:
    filesystem.invalidate_cache(fs_folder)
    files = {info["name"].rstrip("/").rpartition("/")[2]: info for info in _list_folder(filesystem, fs_folder)}
    return iter([status_of(join_url(folder, name), files[name]) for name in sorted(files) if name >= first])


def _list_folder(filesystem: fsspec.AbstractFileSystem, fs_folder: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = filesystem.ls(fs_folder, detail=True)
    if [entry["name"].strip("/") for entry in entries if entry["type"] == "file"] == [fs_folder.strip("/")]:
        raise FileNotFoundError(f"Not a folder: {fs_folder}")  # fsspec lists a file as its own content
    return [entry for entry in entries if entry["type"] == "file"]
