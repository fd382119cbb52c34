from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given, strategies as st

from deltasnap_core.scan.files.roaring import MAGIC, decode_rows
from tests.core.scan.files.roaring_builders import array_container, array_of, bitmap_of


def run_bitmap(key: int, cardinality: int, runs: list[tuple[int, int]]) -> bytes:
    """A 32-bit bitmap of one container of runs, each a first value and the number of following values."""
    pairs = b"".join(struct.pack("<HH", *run) for run in runs)
    cookie = struct.pack("<I", 12347 | (0 << 16))
    return cookie + b"\x01" + struct.pack("<HH", key, cardinality - 1) + struct.pack("<H", len(runs)) + pairs


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


@pytest.mark.parametrize("length", [4095, 4096, 4097])
def test_container_of_more_than_4096_values_is_dense(length: int) -> None:
    values = range(0, 2 * length, 2)
    bits = bytearray(8192)
    for value in values:
        bits[value // 8] |= 1 << value % 8
    dense = struct.pack("<HH", 0, length - 1), bytes(bits)
    content = array_of(k0=bitmap_of(array_container(0, [*values]) if length <= 4096 else dense))
    assert decode_rows(content).tolist() == [*values]


@pytest.mark.parametrize("count", [1, 3, 4, 8, 9])
def test_containers_with_runs_have_offsets_from_four_on(count: int) -> None:
    """Every second container is an array."""
    is_run = [number % 2 == 0 for number in range(count)]
    flags = sum(each << number for number, each in enumerate(is_run)).to_bytes((count + 7) // 8, "little")
    described = b"".join(struct.pack("<HH", number, 1) for number in range(count))
    offsets = bytes(4 * count) if count >= 4 else b""
    contents = b"".join(struct.pack("<HHH", 1, 5, 1) if each else struct.pack("<HH", 5, 6) for each in is_run)
    bitmap = struct.pack("<I", 12347 | (count - 1) << 16) + flags + described + offsets + contents
    assert decode_rows(array_of(k0=bitmap)).tolist() == [
        row for number in range(count) for row in (number * 65536 + 5, number * 65536 + 6)
    ]


def test_largest_key_of_a_bitmap_is_below_2_to_the_31() -> None:
    content = array_of(k2147483647=bitmap_of(array_container(65535, [65535])))
    assert decode_rows(content).tolist() == [(1 << 63) - 1]


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
        (array_of(k0=struct.pack("<II", 12346, 65_536)), "expected 262144 bytes more, found 0"),
        (array_of(k0=struct.pack("<II", 12346, 65_537)), "at most 65536 containers, found 65537"),
        (array_of(k0=run_bitmap(0, 4, [(3, 2)])), "of 4 values"),
        (array_of(k0=bitmap_of((struct.pack("<HH", 0, 4096), bytes(8192)))), "of 4097 values"),
        (struct.pack("<iq", MAGIC, 13), "number of bitmaps, found 13"),
        (struct.pack("<iq", MAGIC, 12), "expected 4 bytes more, found 0"),
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
        "most containers",
        "too many containers",
        "cardinality",
        "cardinality of bits",
        "more bitmaps than bytes",
        "no bitmaps",
        "keys",
        "large key",
    ],
)
def test_damaged_content_is_reported(content: bytes, reported: str) -> None:
    with pytest.raises(ValueError, match=reported):
        decode_rows(content)
