"""A file of which only some parts are in memory."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any


class FileParts(io.RawIOBase):
    """A file of `size` bytes, opened for reading `parts`: the content by offset. Errors: OSError for other bytes."""

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

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        for start, content in self._parts.items():
            offset = self._position - start
            if offset >= 0 and offset + len(view) <= len(content):
                view[:] = content[offset : offset + len(view)]
                self._position += len(view)
                return len(view)
        raise OSError(f"expected to read only the requested parts, not {len(view)} bytes at {self._position}")
