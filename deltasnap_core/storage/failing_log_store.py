"""A LogStore of a table whose folder is unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from deltasnap_core.errors import StorageError
from deltasnap_core.storage.log_store import FileStatus


class FailingLogStore:
    """A LogStore whose methods all raise one error, so that a log that cannot be found is a log that cannot be read."""

    def __init__(self, error: StorageError) -> None:
        self._error = error

    def list_from(self, path: str) -> Iterator[FileStatus]:  # noqa: ARG002
        """See LogStore."""
        raise self._error

    def lists_from_name(self, folder: str) -> bool:  # noqa: ARG002
        """See LogStore."""
        raise self._error

    def status(self, path: str) -> FileStatus | None:  # noqa: ARG002
        """See LogStore."""
        raise self._error

    def read_bytes(self, path: str) -> bytes:  # noqa: ARG002
        """See LogStore."""
        raise self._error

    def read_many(self, paths: Sequence[str]) -> list[bytes]:  # noqa: ARG002
        """See LogStore."""
        raise self._error

    def open(self, path: str) -> BinaryIO:  # noqa: ARG002
        """See LogStore."""
        raise self._error
