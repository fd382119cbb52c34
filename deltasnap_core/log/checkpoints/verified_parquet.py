"""Opens Parquet files so that damage raises an error, and decides how many rows are read at once."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import SEEK_END
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.errors import StorageError
from deltasnap_core.log.checkpoints.parquet_footer import footer_bytes, parsed_footer

BATCH_ROWS = 1 << 16
_BATCH_BYTES = 32 << 20
_NO_FILE = {errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR}
UNREADABLE = (pa.ArrowException, OSError, ValueError, ArithmeticError, TypeError)
"""The errors of reading damaged Parquet. ValueError: invalid UTF-8; ArithmeticError: invalid dates; TypeError: invalid
map keys.
"""


def rows_of_batch(row_bytes: float) -> int:
    """Return how many rows to read at once. row_bytes: the size of a row."""
    return max(1, min(BATCH_ROWS, int(_BATCH_BYTES / max(row_bytes, 1))))


@contextmanager
def damage_as(error_of: Callable[[Exception], Exception], *also: type[Exception]) -> Iterator[None]:
    """Raise the result of `error_of` for damaged Parquet, and for the errors `also`.

    A StorageError passes: a request that failed says nothing about the file. But a path to something other than a file,
    such as a folder or a link to itself, is damage.
    """
    try:
        yield
    except StorageError as error:
        if getattr(error.__cause__, "errno", None) in _NO_FILE:
            raise error_of(error) from error
        raise
    except (*UNREADABLE, *also) as error:
        raise error_of(error) from error


def verified_parquet(stream: BinaryIO, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Return a Parquet file that verifies page checksums. Errors while reading: UNREADABLE.

    If the writer stored page checksums, a flipped byte raises an error and does not become another value.
    metadata: the footer (`parsed_footer`), if read already; None: read it.
    """
    if metadata is None:
        metadata = parsed_footer(footer_bytes(stream, stream.seek(0, SEEK_END)))
    return pq.ParquetFile(stream, metadata=metadata, page_checksum_verification=True)
