"""The digest of a commit. It detects whether two files of one name have the same content."""

from __future__ import annotations

import hashlib

from deltasnap_core.storage.log_store import LogStore

_PIECE_BYTES = 1 << 20


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    return hashlib.sha256(content).hexdigest()


def digest_of_file(store: LogStore, path: str) -> str:
    """Return the SHA-256 of a file, in hex, without loading the whole file. Errors: FileNotFoundError."""
    digest = hashlib.sha256()
    with store.open(path) as stream:
        while piece := stream.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
