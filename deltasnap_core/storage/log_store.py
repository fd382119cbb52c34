"""The interface through which the core reads files.

Every path is a full URL without escapes: `file:///data/my table/_delta_log/...`, `s3://bucket/key`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from deltasnap_core.errors import StorageError
from deltasnap_core.redaction import safe_repr


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """A file as in a listing: full URL, size in bytes, modification time in ms since the epoch."""

    path: str
    size: int
    modification_time: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values. `from_json` returns an equal status."""
        return {"path": self.path, "size": self.size, "modificationTime": self.modification_time}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> FileStatus:
        """Return the status from the result of `to_json`. Errors: KeyError for a missing field."""
        return cls(path=values["path"], size=values["size"], modification_time=values["modificationTime"])


class LogStore(Protocol):
    """Reads files. Results are never cached: each call reads the storage.

    Several threads may call the methods at once. If the storage fails or refuses, or the path is not a file (a folder,
    a FIFO), the methods raise StorageError. The streams of `open` do the same. No other exceptions of the storage are
    raised.
    """

    def list_from(self, path: str) -> Iterator[FileStatus]:
        """Return the files in the folder of `path` whose name is that of `path` or sorts after it, ascending by name.

        Folders are left out. Other entries that are not readable files, such as dangling links, have the size 0.
        Names compare by code point. If the storage can list from a name, it is listed on demand.
        Errors: FileNotFoundError, at the call, if there is no such folder.
        """
        ...

    def lists_from_name(self, folder: str) -> bool:
        """Return whether `list_from` lists only the requested files; False: it lists the whole folder."""
        ...

    def status(self, path: str) -> FileStatus | None:
        """Return the status of the file at `path`, or of another entry as in `list_from`; None: there is none."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a file. Errors: FileNotFoundError."""
        ...

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        """Return the content of each file, in the order of `paths`. Errors: FileNotFoundError if one does not exist."""
        ...

    def open(self, path: str) -> BinaryIO:
        """Return a file opened for reading, seekable. The caller closes it. Errors: FileNotFoundError."""
        ...


def is_file(store: LogStore, path: str) -> bool:
    """Return whether there is a file at `path` that can be read. Entries without a size may be links or folders."""
    status = store.status(path)
    if status is None or status.size:
        return status is not None
    try:
        store.read_bytes(path)
    except (FileNotFoundError, StorageError):
        return False
    return True
