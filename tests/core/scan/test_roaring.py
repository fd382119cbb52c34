from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasnap_core.scan.files.roaring import MAGIC, decode_rows


def array_container(key: int, values: list[int]) -> tuple[bytes, bytes]:
    return struct.pack("<HH", key, len(values) - 1), struct.pack(f"<{len(values)}H", *values)


def bitmap_of(*containers: tuple[bytes, bytes]) -> bytes:
    """A 32-bit bitmap without runs."""
    offsets = bytes(4 * len(containers))
    descriptions, contents = (b"".join(part) for part in zip(*containers, strict=True))
    return struct.pack("<II", 12346, len(containers)) + descriptions + offsets + contents


def run_bitmap(key: int, cardinality: int, runs: list[tuple[int, int]]) -> bytes:
    """A 32-bit bitmap of one container of runs, each a first value and the number of following values."""
    pairs = b"".join(struct.pack("<HH", *run) for run in runs)
    cookie = struct.pack("<I", 12347 | (0 << 16))
    return cookie + b"\x01" + struct.pack("<HH", key, cardinality - 1) + struct.pack("<H", len(runs)) + pairs


def array_of(**bitmaps: bytes) -> bytes:
    """A RoaringBitmapArray; the names are `k` and the key."""
    parts = b"".join(struct.pack("<I", int(name[1:])) + bitmap for name, bitmap in bitmaps.items())
    return struct.pack("<iq", MAGIC, len(bitmaps)) + parts


def test_arrays_yield_64_bit_rows() -> None:
    content = array_of(
        k0=bitmap_of(array_container(0, [1, 7]), array_container(2, [5])), k3=bitmap_of(array_container(0, [0]))
    )
    assert decode_rows(content).tolist() == [1, 7, 2 * 65536 + 5, 3 << 32]


def test_run_containers_yield_every_row() -> None:
    assert decode_rows(array_of(k0=run_bitmap(1, 5, [(3, 2), (9, 1)]))).tolist() == [
        65536 + row for row in (3, 4, 5, 9, 10)
    ]


@given(
    st.lists(st.tuples(st.integers(0, 65535), st.integers(0, 65535) | st.integers(0, 9)), max_size=4),
    st.integers(-1, 1),
)
def test_runs_are_expanded_only_if_they_ascend_and_sum_up(runs: list[tuple[int, int]], more: int) -> None:
    values = [value for start, length in runs for value in range(start, start + length + 1)]
    cardinality = min(max(len(values) + more, 1), 65536)
    content = array_of(k0=run_bitmap(0, cardinality, runs))
    if len(values) == cardinality and values == sorted({*values}) and values[-1] <= 65535:
        assert decode_rows(content).tolist() == values
    else:
        with pytest.raises(ValueError, match="ascending"):
            decode_rows(content)


def test_overlapping_runs_are_not_expanded() -> None:
    content = array_of(k0=run_bitmap(0, 65536, [(0, 65535)] * 2000))
    tracemalloc.start()
    with pytest.raises(ValueError, match="expected runs of 65536 values"):
        decode_rows(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_dense_container_is_read_bit_by_bit() -> None:
    rows = [row for row in range(10_000) if row % 2]
    bits = bytearray(8192)
    for row in rows:
        bits[row // 8] |= 1 << row % 8
    content = array_of(k0=bitmap_of((struct.pack("<HH", 0, len(rows) - 1), bytes(bits))))
    assert decode_rows(content).tolist() == rows


def test_empty_bitmap_array_has_no_rows() -> None:
    assert decode_rows(array_of()).tolist() == []


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (b"", "bytes more"),
        (struct.pack("<iq", 7, 0), "magic number"),
        (struct.pack("<iq", MAGIC, -1), "number of bitmaps, found -1"),
        (array_of() + b"x", "expected the end"),
        (array_of(k0=bitmap_of(array_container(0, [1]))[:-1]), "bytes more"),
        (array_of(k0=bitmap_of(array_container(0, [7, 1]))), "ascending"),
        (array_of(k0=bitmap_of(array_container(1, [1]), array_container(1, [2]))), "keys of containers ascending"),
        (array_of(k0=struct.pack("<I", 99)), "cookie"),
        (array_of(k0=run_bitmap(0, 4, [(3, 2)])), "of 4 values"),
        (array_of(k1=bitmap_of(array_container(0, [1])), k0=bitmap_of(array_container(0, [1]))), "ascending"),
        (array_of(k2147483648=bitmap_of(array_container(0, [1]))), "below 2\\^31, found 2147483648"),
    ],
    ids=[
        "nothing",
        "magic",
        "negative number",
        "more",
        "cut short",
        "unsorted",
        "repeated container",
        "cookie",
        "cardinality",
        "keys",
        "large key",
    ],
)
def test_damaged_content_is_reported(content: bytes, reported: str) -> None:
    with pytest.raises(ValueError, match=reported):
        decode_rows(content)
