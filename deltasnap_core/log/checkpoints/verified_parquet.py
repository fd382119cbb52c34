"""Opens Parquet files so that damage raises an error."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

UNREADABLE = (pa.ArrowException, OSError, ValueError, ArithmeticError, TypeError)
"""The errors of reading damaged Parquet. ValueError: invalid UTF-8; ArithmeticError: invalid dates; TypeError: invalid
map keys.
"""


def verified_parquet(stream: BinaryIO, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Return a Parquet file that verifies page checksums. Errors while reading: UNREADABLE.

    If the writer stored page checksums, a flipped byte raises an error and does not become another value.
    metadata: the footer, if read already; None: read it.
    """
    return pq.ParquetFile(stream, metadata=metadata, page_checksum_verification=True)
