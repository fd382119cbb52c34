"""Builders for the tests of roaring."""

from __future__ import annotations

import struct

from deltasnap_core.scan.files.roaring import MAGIC


def array_container(key: int, values: list[int]) -> tuple[bytes, bytes]:
    return struct.pack("<HH", key, len(values) - 1), struct.pack(f"<{len(values)}H", *values)


def bitmap_of(*containers: tuple[bytes, bytes]) -> bytes:
    """A 32-bit bitmap without runs."""
    offsets = bytes(4 * len(containers))
    descriptions, contents = (b"".join(part) for part in zip(*containers, strict=True))
    return struct.pack("<II", 12346, len(containers)) + descriptions + offsets + contents


def array_of(**bitmaps: bytes) -> bytes:
    """A RoaringBitmapArray; the names are `k` and the key."""
    parts = b"".join(struct.pack("<I", int(name[1:])) + bitmap for name, bitmap in bitmaps.items())
    return struct.pack("<iq", MAGIC, len(bitmaps)) + parts
