"""Decodes the rows of a deletion vector from its bytes: a RoaringBitmapArray. No Spark.

Source: PROTOCOL.md, Deletion Vector Format; RoaringFormatSpec (github.com/RoaringBitmap/RoaringFormatSpec).
"""

from __future__ import annotations

import struct
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

MAGIC = 1681511377
_WITH_RUNS = 12347
_WITHOUT_RUNS = 12346
_OFFSETS_FROM = 4
_MAX_IN_ARRAY = 4096


def decode_rows(content: bytes) -> Rows:
    """Return the row indexes of a serialized RoaringBitmapArray, ascending, as 64-bit integers.

    Errors: ValueError if the bytes are not such an array, or if bytes remain after it.
    """
    stream = BytesIO(content)
    magic = _number(stream, "<i")
    if magic != MAGIC:
        raise ValueError(f"expected the magic number {MAGIC} of a RoaringBitmapArray, found {magic}")
    count = _number(stream, "<q")
    if not 0 <= count <= len(content):
        raise ValueError(f"expected a number of bitmaps, found {count}")
    parts: list[Rows] = []
    last = -1
    for _ in range(count):
        key = _number(stream, "<I")
        if key >= 1 << 31:
            raise ValueError(f"expected keys of bitmaps below 2^31, found {key}")
        if key <= last:
            raise ValueError(f"expected the keys of bitmaps ascending, found {key} after {last}")
        parts.append(_bitmap(stream) + (key << 32))
        last = key
    if left := len(stream.read()):
        raise ValueError(f"expected the end of the bitmaps, found {left} bytes more")
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _take(stream: BytesIO, count: int) -> bytes:
    """Return the next bytes. Errors: ValueError if there are fewer."""
    content = stream.read(count)
    if len(content) < count:
        raise ValueError(f"expected {count} bytes more, found {len(content)}")
    return content


def _number(stream: BytesIO, layout: str) -> int:
    (value,) = struct.unpack(layout, _take(stream, struct.calcsize(layout)))
    return int(value)


def _array(stream: BytesIO, kind: str, count: int) -> Rows:
    return np.frombuffer(_take(stream, np.dtype(kind).itemsize * count), kind).astype(np.int64)


def _bitmap(stream: BytesIO) -> Rows:
    """Return the values of one 32-bit bitmap."""
    cookie = _number(stream, "<I")
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = np.unpackbits(np.frombuffer(_take(stream, (count + 7) // 8), np.uint8), bitorder="little")[:count] == 1
    elif cookie == _WITHOUT_RUNS:
        count = _number(stream, "<I")
        if count > 1 << 16:
            raise ValueError(f"expected at most {1 << 16} containers, found {count}")
        runs = np.zeros(count, bool)
    else:
        raise ValueError(f"expected the cookie of a bitmap, found {cookie}")
    described = _array(stream, "<u2", 2 * count).reshape(count, 2)
    if cookie == _WITHOUT_RUNS or count >= _OFFSETS_FROM:
        _take(stream, 4 * count)  # skip the offset of each container: the containers are consecutive
    if (np.diff(described[:, 0]) <= 0).any():
        raise ValueError("expected the keys of containers ascending")
    parts = [
        _container(stream, int(cardinality) + 1, is_run=bool(is_run)) + (int(key) << 16)
        for (key, cardinality), is_run in zip(described, runs, strict=True)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _container(stream: BytesIO, cardinality: int, *, is_run: bool) -> Rows:
    if is_run:
        starts, more = _array(stream, "<u2", 2 * _number(stream, "<H")).reshape(-1, 2).T
        # Checked before they are expanded: overlapping runs of a few kilobytes would become gigabytes.
        if (more + 1).sum() != cardinality or (starts[1:] <= (starts + more)[:-1]).any():
            raise ValueError(f"expected runs of {cardinality} values ascending, found others")
        before = np.cumsum(more + 1) - (more + 1)
        values = np.repeat(starts - before, more + 1) + np.arange(cardinality)
    elif cardinality > _MAX_IN_ARRAY:
        bits = np.unpackbits(np.frombuffer(_take(stream, 8192), np.uint8), bitorder="little")
        values = np.flatnonzero(bits).astype(np.int64)
    else:
        values = _array(stream, "<u2", cardinality)
    if len(values) != cardinality or (np.diff(values) <= 0).any() or (values > 0xFFFF).any():
        raise ValueError(f"expected a container of {cardinality} values ascending, found another")
    return values
