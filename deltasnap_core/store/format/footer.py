"""The footer of a Parquet file of the store, and its digest in the manifest. Pure.

Pages have checksums, a footer has none: a flipped bit in it may rename a column, whose values are then null.
"""

from __future__ import annotations

import hashlib
from typing import BinaryIO

from deltasnap_core.log.checkpoints.parquet_footer import footer_bytes


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
