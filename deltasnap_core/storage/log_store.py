"""The port through which everything in the core reads files.

Every path is a full URL that escapes nothing: `file:///data/my table/_delta_log/...`, `s3://bucket/key`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from deltasnap_core.redaction import safe_repr


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """A file as a listing shows it: full URL, size in bytes, modification time in ms since the epoch."""

    path: str
    size: int
    modification_time: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; `from_json` gives the same status again."""
        return {"path": self.path, "size": self.size, "modificationTime": self.modification_time}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> FileStatus:
        """Return the status from what `to_json` gave; raises KeyError where a field is missing."""
        return cls(path=values["path"], size=values["size"], modification_time=values["modificationTime"])


class LogStore(Protocol):
    """Reads files. Results are never cached: each is what lies in the storage at that moment.

    The methods may be called from several threads at once. Where the storage itself fails, or refuses, or what is at
    the path is no file (a folder, a FIFO), they raise StorageError, so do the streams of `open`; nothing else of it.
    """

    def list_from(self, path: str) -> Iterator[FileStatus]:
        """Return the files in the folder of `path` whose name is that of `path` or sorts after it, by name ascending.

        Folders are left out. Reads on as the iterator is consumed where the storage can list from a name on.
        Names compare by code point. Raises FileNotFoundError, at the call, where there is no such folder.
        """
        ...

    def lists_from_name(self, folder: str) -> bool:
        """Return whether `list_from` asks the storage for no more than it gives; else it lists the whole folder."""
        ...

    def status(self, path: str) -> FileStatus | None:
        """Return the status of the file at `path`; None where there is none."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """Return the whole content of a file. Raises FileNotFoundError."""
        ...

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        """Return the content of each file, in the order of `paths`. Raises FileNotFoundError where one is gone."""
        ...

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading, seekable; for the caller to close. Raises FileNotFoundError."""
        ...
