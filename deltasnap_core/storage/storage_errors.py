"""Translates exceptions of a filesystem to FileNotFoundError, or to StorageError with file and reason."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, cast

from deltasnap_core.errors import DeltaSnapError, StorageError
from deltasnap_core.redaction import hide_secrets, redacted
from deltasnap_core.storage.retries import is_transient, retrying

_BUFFER_BYTES = 1 << 20


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """Raise failures at `path` as StorageError.

    A missing file, or one whose parent is not a folder, is FileNotFoundError.
    All exceptions are translated: clients of cloud storages have their own for timeouts, refusals and missing packages.
    """
    try:
        yield
    except DeltaSnapError:
        raise
    except FileNotFoundError as error:
        hide_secrets(error)
        raise
    except NotADirectoryError as error:
        raise FileNotFoundError(redacted(f"No such file: {path}")) from hide_secrets(error)
    except Exception as error:  # noqa: BLE001  # raised as StorageError
        raise StorageError(path=path, reason=_reason(error), is_transient=is_transient(error)) from hide_secrets(error)


def _reason(error: Exception) -> str:
    text = str(getattr(error, "strerror", None) or str(error) or type(error).__name__)
    code = getattr(error, "error_code", None)  # of Azure, whose text continues with the response
    return f"{text.splitlines()[0].rstrip('.')} ({getattr(code, 'value', code)})" if code else text


@contextmanager
def write_errors(path: str) -> Iterator[None]:
    """Raise failures of writing a file as StorageError, including a missing folder."""
    try:
        with storage_errors(path):
            yield
    except FileNotFoundError as error:
        raise StorageError(path=path, reason="nothing can be written there: no such folder") from error


def translated_stream(path: str, stream: Any) -> BinaryIO:
    """Return a stream over the remote file at `path` that raises errors as `storage_errors` does when it is read."""
    return cast(BinaryIO, io.BufferedReader(_Stream(path, stream), _BUFFER_BYTES))


class _Stream(io.RawIOBase):
    def __init__(self, path: str, stream: Any) -> None:
        self._path = path
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._stream.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._stream.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        with storage_errors(self._path):
            data = retrying(partial(self._read_at, self.tell(), len(view)))
        view[: len(data)] = data
        return len(data)

    def _read_at(self, position: int, size: int) -> bytes:
        if self.tell() != position:
            self.seek(position)  # after a failed attempt
        return cast(bytes, self._stream.read(size))

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
