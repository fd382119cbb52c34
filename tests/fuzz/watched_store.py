"""A LogStore that forbids access outside the table, and makes files vanish during reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import to_url


class OutsideError(Exception):
    """An attempt to open, list or stat a path outside the table."""


class WatchedStore:
    """The files of one table folder. Each vanishes after a number of files have been opened."""

    def __init__(self, folder: Path, vanishing: Mapping[Path, int] | None = None) -> None:
        self._store = FsspecLogStore()
        self._root = to_url(folder) + "/"
        self._vanishing = dict(vanishing or {})
        self._opened = 0

    def list_from(self, path: str) -> Iterator[FileStatus]:
        return self._store.list_from(self._inside(path))

    def lists_from_name(self, folder: str) -> bool:
        return self._store.lists_from_name(folder)

    def status(self, path: str) -> FileStatus | None:
        return self._store.status(self._inside(path))

    def read_bytes(self, path: str) -> bytes:
        self._let_vanish()
        return self._store.read_bytes(self._inside(path))

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        return [self.read_bytes(path) for path in paths]

    def open(self, path: str) -> BinaryIO:
        self._let_vanish()
        return self._store.open(self._inside(path))

    def _inside(self, path: str) -> str:
        if not path.startswith(self._root) or ".." in path.split("/"):
            raise OutsideError(path)
        return path

    def _let_vanish(self) -> None:
        self._opened += 1
        for file in [file for file, after in self._vanishing.items() if self._opened > after]:
            del self._vanishing[file]
            if file.is_file() or file.is_symlink():
                file.unlink()
