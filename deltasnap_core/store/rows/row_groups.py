"""The parts of a stored Parquet file: its footer, and the row groups that may have the rows of some keys. Pure.

Pages have checksums, a footer has none: a flipped bit in it may rename a column, whose values are then null. So its
digest is in the manifest. Rows are sorted by key, in small groups: a version that changes a few files reads little of a
base of a million.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from deltasnap_core.log.checkpoints.parquet_footer import footer_bytes

KEY_COLUMN = "key"
ROWS_A_GROUP = ROWS_A_PAGE = 2000
"""Arrow skips only row groups: the statistics of 2,000 files may be several MB. A footer takes 1.6 bytes a row."""

_MAX_GAP_BYTES = 256 << 10
"""It takes less time to read such a gap than to send another request. Arrow also reads gaps, of up to 8 KiB."""


def groups_with(metadata: pq.FileMetaData, keys: pa.Array) -> list[int]:
    """Return the row groups that may have rows with some of the keys (long), by the statistics of the key column."""
    wanted = np.sort(keys.to_numpy(zero_copy_only=False))
    place = _leaves(metadata).index(KEY_COLUMN)
    known = ((group, metadata.row_group(group).column(place).statistics) for group in range(metadata.num_row_groups))
    return [group for group, statistics in known if _may_have(wanted, statistics)]


def _may_have(wanted: NDArray[np.int64], known: pq.Statistics | None) -> bool:
    """Return whether rows with these statistics may have one of the keys, which are sorted."""
    if known is None or not known.has_min_max:
        return True
    return bool(np.searchsorted(wanted, known.min, "left") < np.searchsorted(wanted, known.max, "right"))


def byte_ranges(metadata: pq.FileMetaData, groups: Sequence[int], columns: Collection[str]) -> list[range]:
    """Return the bytes of some columns in some row groups, in order. Ranges with a small gap are one."""
    prefixes = tuple(f"{column}." for column in columns)
    places = [place for place, leaf in enumerate(_leaves(metadata)) if f"{leaf}.".startswith(prefixes)]
    return list(_merged(sorted(_chunks(metadata, groups, places), key=lambda chunk: chunk.start)))


def _leaves(metadata: pq.FileMetaData) -> list[str]:
    return [metadata.schema.column(place).path for place in range(metadata.num_columns)]


def _chunks(metadata: pq.FileMetaData, groups: Sequence[int], places: Sequence[int]) -> Iterator[range]:
    for group in groups:
        for place in places:
            chunk = metadata.row_group(group).column(place)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            yield range(start, start + chunk.total_compressed_size)


def _merged(chunks: Sequence[range]) -> Iterator[range]:
    found: range | None = None
    for chunk in chunks:
        if found is None or chunk.start > found.stop + _MAX_GAP_BYTES:
            if found is not None:
                yield found
            found = chunk
        else:
            found = range(found.start, max(found.stop, chunk.stop))
    if found is not None:
        yield found


def read_footer(stream: BinaryIO, size: int, written: str | None = None) -> bytes:
    """Return the footer of a file of `size` bytes, with its end. It can be parsed like a file without rows.

    written: the digest of the footer that was written; None: unknown.
    Errors: OSError if the file does not end like Parquet, or has another footer.
    """
    footer = footer_bytes(stream, size)
    if written is not None and footer_digest(footer) != written:
        raise OSError("expected the footer that was written, found another")
    return footer


def footer_digest(footer: bytes) -> str:
    """Return the digest of a footer for the manifest."""
    return hashlib.sha256(footer).hexdigest()[:32]
