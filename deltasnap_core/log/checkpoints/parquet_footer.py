"""Reads Parquet footers and their column statistics, such that a damaged footer cannot crash the process.

If the footer is damaged, pyarrow (26.0.1) crashes the process on access to a column of a row group or to its
statistics: its C++ code throws an exception that nothing catches.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO, UnsupportedOperation
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.storage.writable_files import FileParts

_TAIL_BYTES = 64 << 10
_MAGIC = b"PAR1"
_END_BYTES = 8
"""The length of the footer, and the magic number."""


def footer_bytes(stream: BinaryIO, size: int) -> bytes:
    """Return the footer of a Parquet file of `size` bytes, with its end.

    Errors: OSError if the file does not end like Parquet.
    """
    tail = _last(stream, size, min(size, _TAIL_BYTES))
    length = int.from_bytes(tail[-_END_BYTES:-4], "little") + _END_BYTES
    if not tail.endswith(_MAGIC) or length > size:
        raise OSError("expected the end of a Parquet file, found other bytes")
    return tail[-length:] if length <= len(tail) else _last(stream, size, length)


def parsed_footer(footer: bytes) -> pq.FileMetaData:
    """Return the metadata from the bytes of a footer (`footer_bytes`), with the types that Parquet defines.

    Arrow writers also store an Arrow schema. With it, pyarrow would read text as views or dictionaries, and lists as
    views, which it reads incorrectly (26.0.1). Spark ignores it. Here another name of the same length hides it.
    """
    return pq.read_metadata(BytesIO(footer.replace(b"ARROW:schema", b"arrow:schema")))


def checked(metadata: pq.FileMetaData, size: int) -> pq.FileMetaData:
    """Return the metadata of a file of `size` bytes, after checking that its columns are safe to access. Reads nothing.

    Errors: OSError if the metadata of some column is damaged.
    """
    if not metadata.num_row_groups or not metadata.num_columns:
        return metadata
    # Before it reads, pyarrow locates every column of every row group. In this step, it catches exceptions.
    parquet = pq.ParquetFile(pa.PythonFile(FileParts(size, {}), "r"), metadata=metadata, pre_buffer=True)
    groups = list(range(metadata.num_row_groups))
    try:
        next(parquet.iter_batches(1, row_groups=groups, use_threads=False), None)
    except UnsupportedOperation as reached:  # nothing can be read
        # pyarrow keeps a reference to the exception, which would keep this frame and pyarrow's own objects alive.
        reached.__traceback__ = None
    return metadata


def null_counts(metadata: pq.FileMetaData, leaf: str) -> list[tuple[int, int | None]] | None:
    """Return, for each row group, the number of values of a leaf, nulls included, and the number of nulls.

    metadata: `checked`. The number of nulls is None if not stated. The result is None if there is no such leaf.
    """
    schema = metadata.schema
    index = next((index for index in range(metadata.num_columns) if schema.column(index).path == leaf), None)
    return None if index is None else list(_counts(metadata, index))


def null_count(metadata: pq.FileMetaData, leaf: str) -> int | None:
    """Return the number of nulls of a leaf in all row groups.

    None: some row groups do not state it, or there is no such leaf.
    """
    nulls = [count for _, count in null_counts(metadata, leaf) or ()]
    known = [count for count in nulls if count is not None]
    return sum(known) if nulls and len(known) == len(nulls) else None


def least_value(metadata: pq.FileMetaData, leaf: str) -> int | None:
    """Return the least value of an integer leaf, as far as the row groups state it; None: none does.

    metadata: `checked`.
    """
    found = []
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        if column.path == leaf and column.physical_type in ("INT32", "INT64"):
            chunks = [metadata.row_group(group).column(index) for group in range(metadata.num_row_groups)]
            stated = [chunk.statistics for chunk in chunks if chunk.physical_type == column.physical_type]
            found += [each.min for each in stated if each is not None and each.has_min_max]
    return min((value for value in found if isinstance(value, int)), default=None)


def _counts(metadata: pq.FileMetaData, index: int) -> Iterator[tuple[int, int | None]]:
    kind = metadata.schema.column(index).physical_type
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(index)
        statistics = chunk.statistics if chunk.physical_type == kind else None
        nulls = statistics.null_count if statistics is not None and statistics.has_null_count else None
        yield chunk.num_values, nulls


def _last(stream: BinaryIO, size: int, length: int) -> bytes:
    stream.seek(size - length)
    return stream.read(length)
