"""The footer of a Parquet file of the store, and its digest in the manifest. Pure.

Pages have checksums, a footer has none: a flipped bit in it may rename a column, whose values are then null.
"""

from __future__ import annotations

import hashlib
from typing import BinaryIO

_TAIL_BYTES = 64 << 10
_MAGIC = b"PAR1"
_END_BYTES = 8
"""The length of the footer, and the magic number."""


def read_footer(stream: BinaryIO, size: int, written: str | None = None) -> bytes:
    """Return the footer of a file of `size` bytes, with its end. It can be parsed like a file without rows.

    written: the digest of the footer that was written; None: unknown.
    Errors: OSError if the file does not end like Parquet, or has another footer.
    """
    tail = _last(stream, size, min(size, _TAIL_BYTES))
    length = int.from_bytes(tail[-_END_BYTES:-4], "little") + _END_BYTES
    if not tail.endswith(_MAGIC) or length > size:
        raise OSError("expected the end of a Parquet file, found other bytes")
    footer = tail[-length:] if length <= len(tail) else _last(stream, size, length)
    if written is not None and footer_digest(footer) != written:
        raise OSError("expected the footer that was written, found another")
    return footer


def footer_digest(footer: bytes) -> str:
    """Return the digest of a footer for the manifest."""
    return hashlib.sha256(footer).hexdigest()[:32]


def _last(stream: BinaryIO, size: int, length: int) -> bytes:
    stream.seek(size - length)
    return stream.read(length)
