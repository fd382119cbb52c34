"""Writes, lists and deletes files of the snapshot store and checkpoints, on any filesystem that fsspec supports."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast
from uuid import uuid4

from fsspec import AbstractFileSystem

from deltasnap_core.errors import StorageError
from deltasnap_core.storage.concurrency import map_concurrently
from deltasnap_core.storage.file_info import status_of
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore, filesystem_of
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.retries import error_code, retrying
from deltasnap_core.storage.storage_errors import storage_errors, write_errors
from deltasnap_core.storage.urls import is_local, join_url, local_path, split_url

TEMPORARY_PREFIX = ".tmp-"
"""The name prefix of a file that is being written. Readers ignore it."""

T = TypeVar("T")
R = TypeVar("R")

# On these storages, a put is atomic. On others, a file is written under a temporary name and renamed.
_SINGLE_PUT = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "memory"}

# The errors of filesystems without hard links.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV}


class WritableFiles:
    """The files below the root of a store. Every path is a full URL, as for LogStore. Errors: StorageError."""

    def __init__(self, root: str, storage_options: Mapping[str, Any] | None = None) -> None:
        self._is_local = is_local(root)
        self._root = Path(local_path(root))
        self._log_store = FsspecLogStore(storage_options)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, ascending; empty if there is no such folder, but the bucket exists.

        Names of local folders are included. Size and time of a file would take a request for each.
        """
        try:
            if self._is_local:
                with storage_errors(folder):
                    return sorted(os.listdir(local_path(folder)))  # noqa: PTH208 - names only, many times as fast
            return [status.name for status in self._log_store.list_from(join_url(folder, ""))]
        except FileNotFoundError as error:
            _check_bucket(folder, error)
            return []

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder, in any order; empty if there is no such folder in the bucket."""
        if self._is_local:
            with contextlib.suppress(FileNotFoundError), storage_errors(folder):
                return [entry.name for entry in Path(local_path(folder)).iterdir() if entry.is_dir()]
            return []
        try:
            with storage_errors(folder):
                filesystem, path = self._filesystem(folder)
                filesystem.invalidate_cache()
                entries = retrying(lambda: filesystem.ls(path, detail=True))
        except FileNotFoundError as error:
            _check_bucket(folder, error)
            return []
        return [entry["name"].rstrip("/").rpartition("/")[2] for entry in entries if entry["type"] == "directory"]

    def walk(self, folder: str) -> list[FileStatus]:
        """Return the files below a folder, by path; empty if there is no such folder."""
        with storage_errors(folder):
            filesystem, root = self._filesystem(folder)
            filesystem.invalidate_cache()
            root = root.rstrip("/")
            listed = retrying(lambda: filesystem.find(root, detail=True))
            found = {str(name): info for name, info in listed.items()}
        # Some filesystems return names with a leading slash that the root does not have.
        paths = {folder + name[name.index(root) + len(root) :]: info for name, info in found.items()}
        return [status_of(path, paths[path]) for path in sorted(paths)]

    def status(self, path: str) -> FileStatus | None:
        """Return the status of a file; None: there is none."""
        return self._log_store.status(path)

    def statuses(self, paths: Sequence[str]) -> list[FileStatus | None]:
        """Return the status of each file, in order; None: there is none."""
        return self.on_each(self.status, paths)

    def read(self, path: str) -> bytes:
        """Return the content of a file. Errors: FileNotFoundError."""
        return self._log_store.read_bytes(path)

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        """Return the content of each file, in order. Errors: FileNotFoundError."""
        return self._log_store.read_many(paths)

    def open(self, path: str) -> BinaryIO:
        """Return a file opened for reading, seekable. Errors: FileNotFoundError."""
        return self._log_store.open(path)

    def open_parts(self, path: str, size: int, parts: Sequence[range]) -> BinaryIO:
        """Return a file of `size` bytes, opened for reading some ranges of bytes. Errors: FileNotFoundError.

        Remote ones are requested in parallel.
        """
        if self._is_local:
            return self.open(path)
        with storage_errors(path):
            contents = map_concurrently(partial(_part_of, *self._filesystem(path)), parts)
        by_offset = {part.start: found for part, found in zip(parts, contents, strict=True)}
        return cast(BinaryIO, FileParts(size, by_offset))

    def write(self, path: str, content: bytes) -> None:
        """Write a file atomically: a reader sees the new content, the old content, or no file."""
        folder, _ = split_url(path)
        temporary = join_url(folder, f"{TEMPORARY_PREFIX}{uuid4().hex}")
        with write_errors(path):
            filesystem, target = self._filesystem(path)
            if _protocol(filesystem) in _SINGLE_PUT:
                retrying(lambda: filesystem.pipe_file(target, content))
                return
            try:
                if self._is_local:
                    self._in_folder(folder, lambda: Path(local_path(temporary)).write_bytes(content))
                else:
                    filesystem.makedirs(self._filesystem(folder)[1], exist_ok=True)
                    filesystem.pipe_file(self._filesystem(temporary)[1], content)
                self.move(temporary, path)
            except BaseException:
                with contextlib.suppress(Exception):  # the storage may refuse anything now; the first error counts
                    self._delete(temporary)
                raise

    def write_many(self, contents: Mapping[str, bytes]) -> None:
        """Write files in parallel. If one fails, the others may or may not be written."""
        self.on_each(lambda path: self.write(path, contents[path]), contents)

    def move(self, source: str, target: str) -> None:
        """Move a file to another name, replacing an existing file."""
        folder, _ = split_url(target)
        with storage_errors(target):
            if self._is_local:
                self._in_folder(folder, lambda: Path(local_path(source)).replace(local_path(target)))
                return
            filesystem, target_path = self._filesystem(target)
            source_path = self._filesystem(source)[1]
            if _protocol(filesystem) in _SINGLE_PUT:
                # Two steps, each of which is safe to repeat.
                retrying(lambda: filesystem.cp_file(source_path, target_path))
                self._delete(source)
                return
            filesystem.makedirs(self._filesystem(folder)[1], exist_ok=True)
            filesystem.mv(source_path, target_path)

    def move_new(self, source: str, target: str) -> bool:
        """Move a file to an unused name. Return whether the file was moved; False: the name is taken.

        If several callers try at once, one succeeds. Where the storage cannot refuse an existing name (local
        filesystems without hard links; remote ones other than object stores), the name is checked right before the
        move. If the storage fails after the move, this may return False. If that matters, compare the contents of both
        files.
        """
        with storage_errors(target):
            if self.status(target) is not None:
                return False
            if self._is_local:
                return self._link_new(Path(local_path(source)), Path(local_path(target)))
            filesystem, _ = self._filesystem(target)
            if _protocol(filesystem) not in _SINGLE_PUT:
                self.move(source, target)
                return True
        moved = self._put_new(source, target)
        if moved:
            self._delete(source)
        return moved

    def write_new(self, path: str, content: bytes) -> bool:
        """Write a small file under an unused name. Return whether it was written; False: the name is taken.

        If several callers try at once, one succeeds, on the storages where `move_new` guarantees it.
        """
        with write_errors(path):
            is_single_put = _protocol(self._filesystem(path)[0]) in _SINGLE_PUT
        if is_single_put:
            with tempfile.TemporaryDirectory(prefix="deltasnap-") as folder:
                copy = Path(folder, "file")
                copy.write_bytes(content)
                return self._put_file_new(str(copy), path)
        temporary = join_url(split_url(path)[0], f"{TEMPORARY_PREFIX}{uuid4().hex}")
        self.write(temporary, content)
        is_new = self.move_new(temporary, path)
        if not is_new:
            self._delete(temporary)
        return is_new

    def _link_new(self, source: Path, target: Path) -> bool:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            source.replace(target)
            return True
        source.unlink()
        return True

    def _put_new(self, source: str, target: str) -> bool:
        """Copy a file of an object store to an unused name. Return whether the file was copied."""
        with tempfile.TemporaryDirectory(prefix="deltasnap-") as folder:
            copy = f"{folder}/file"
            with storage_errors(target):
                retrying(lambda: self._filesystem(source)[0].get_file(self._filesystem(source)[1], copy))
            return self._put_file_new(copy, target)

    def _put_file_new(self, copy: str, target: str) -> bool:
        """Upload a local file to an unused name of an object store. Return whether it was uploaded."""
        with storage_errors(target):
            filesystem, target_path = self._filesystem(target)
            try:
                retrying(lambda: filesystem.put_file(copy, target_path, mode="create"))
            except Exception:
                # Clients raise different errors if the name is taken. So check for the file: if there is none, the
                # storage failed.
                if self.status(target) is not None:
                    return False
                raise
        return True

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, and local folders that become empty. Ignores missing files."""
        self.on_each(self._delete, paths)

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with its content. Ignores a missing folder."""
        if self._is_local:
            shutil.rmtree(local_path(folder), ignore_errors=True)
            return
        with contextlib.suppress(FileNotFoundError), storage_errors(folder):
            filesystem, path = self._filesystem(folder)
            filesystem.invalidate_cache()
            retrying(lambda: filesystem.rm(path, recursive=True))

    def _delete(self, path: str) -> None:
        if self._is_local:
            file = Path(local_path(path))
            with storage_errors(path):
                file.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # stop at the first folder that is not empty
                for folder in file.relative_to(self._root).parents[:-1]:
                    (self._root / folder).rmdir()
            return
        with contextlib.suppress(FileNotFoundError), storage_errors(path):
            filesystem, target = self._filesystem(path)
            retrying(lambda: filesystem.rm_file(target))

    def _in_folder(self, folder: str, work: Callable[[], object]) -> None:
        """Run `work` in a local folder.

        Create the folder if it is missing, or if a prune has just deleted it as empty.
        """
        path = Path(local_path(folder))
        path.mkdir(parents=True, exist_ok=True)
        try:
            work()
        except FileNotFoundError:
            path.mkdir(parents=True, exist_ok=True)
            work()

    def _filesystem(self, url: str) -> tuple[AbstractFileSystem, str]:
        return filesystem_of(url, self._log_store.storage_options)

    def on_each(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Return `work` of each item, in order; for a remote storage, in parallel."""
        # Local files are faster one by one.
        return [work(item) for item in items] if self._is_local else map_concurrently(work, items)


def _check_bucket(folder: str, error: FileNotFoundError) -> None:
    """Raise StorageError if a folder was not found because its bucket does not exist: that is no empty folder.

    On S3 and Azure, whose buckets are containers. Other storages do not say which of them is missing.
    """
    cause = error.__cause__ or error.__context__
    if getattr(cause, "error_code", "") == "ContainerNotFound" or error_code(error) == "NoSuchBucket":
        raise StorageError(path=folder, reason="the bucket does not exist") from error


def _protocol(filesystem: AbstractFileSystem) -> str:
    protocol = filesystem.protocol
    return str(protocol if isinstance(protocol, str) else protocol[0])


def _part_of(filesystem: Any, target: str, part: range) -> bytes:
    # Not `cat_ranges`: fsspec before 2026.6 returns errors as contents.
    return cast(bytes, retrying(lambda: filesystem.cat_file(target, start=part.start, end=part.stop)))


class FileParts(io.RawIOBase):
    """A file of `size` bytes, opened for reading `parts`: the content by offset. Others: io.UnsupportedOperation."""

    def __init__(self, size: int, parts: Mapping[int, bytes]) -> None:
        self._size = size
        self._parts = parts
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        # Not `readinto`: `RawIOBase.read` would first allocate the size, which a damaged footer may state as any.
        for start, content in self._parts.items():
            offset = self._position - start
            if 0 <= offset <= offset + size <= len(content):
                self._position += size
                return content[offset : offset + size]
        raise io.UnsupportedOperation(
            f"expected to read only the requested parts, not {size} bytes at {self._position}"
        )
