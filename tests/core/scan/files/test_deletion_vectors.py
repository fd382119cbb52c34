"""Deletion vectors, and the bitmaps of their rows."""

from __future__ import annotations

import binascii
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from deltasnap_core.errors import CorruptLogError, DataFileNotFoundError, DataPathError
from deltasnap_core.protocol.actions import DeletionVectorDescriptor
from deltasnap_core.scan.files.deletion_vectors import DeletionVectors, _cut, decode_z85, vector_file
from deltasnap_core.scan.files.roaring import MAGIC, decode_rows
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from tests.core.scan.files.deletion_vectors_builders import encode_z85
from tests.core.scan.files.roaring_builders import array_container, array_of, bitmap_of

ROWS = [1, 7]
CONTENT = array_of(k0=bitmap_of(array_container(0, ROWS)))
# Of PROTOCOL.md, Derived Fields.
UUID_TEXT, UUID_FILE = "ab^-aqEH.-t@S}K{vb[*k^", "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def framed(content: bytes = CONTENT, *, size: int | None = None, checksum: int | None = None) -> bytes:
    """A vector as stored in a file, after the format version."""
    crc = binascii.crc32(content) if checksum is None else checksum
    return struct.pack(">i", len(content) if size is None else size) + content + struct.pack(">I", crc)


@pytest.fixture
def table(tmp_path: Path) -> DeletionVectors:
    return DeletionVectors(store=FsspecLogStore(), table_path=tmp_path.as_uri(), version=3)


@pytest.fixture
def on_disk(tmp_path: Path) -> DeletionVectorDescriptor:
    """A vector in a file of two, the second."""
    vector = DeletionVectorDescriptor(
        storage_type="u", path_or_inline_dv=UUID_TEXT, offset=1 + 8 + len(CONTENT), size_in_bytes=len(CONTENT),
        cardinality=2,
    )  # fmt: skip
    write(tmp_path, b"\x01" + framed() + framed())
    return vector


def write(folder: Path, content: bytes) -> None:
    (folder / "ab").mkdir(exist_ok=True)
    (folder / UUID_FILE).write_bytes(content)


def inline(content: bytes = CONTENT, cardinality: int = 2) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor(
        storage_type="i", path_or_inline_dv=encode_z85(content), size_in_bytes=len(content), cardinality=cardinality
    )


def test_file_is_named_by_a_uuid_behind_a_prefix() -> None:
    vector = DeletionVectorDescriptor(storage_type="u", path_or_inline_dv=UUID_TEXT, size_in_bytes=1, cardinality=1)
    assert vector_file(vector) == UUID_FILE


def test_inline_vector_of_another_project_is_read(table: DeletionVectors) -> None:
    # Of delta-kernel-rs, deletion_vector.rs. The one in PROTOCOL.md, JSON Example 3, has a magic number of its own.
    vector = DeletionVectorDescriptor(
        storage_type="i", path_or_inline_dv="^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        size_in_bytes=44, cardinality=6,
    )  # fmt: skip
    assert table.rows(vector).tolist() == [3, 4, 7, 11, 18, 29]


def test_vectors_inline_on_disk_and_absolute_are_read(
    table: DeletionVectors, on_disk: DeletionVectorDescriptor, tmp_path: Path
) -> None:
    absolute = replace(on_disk, storage_type="p", path_or_inline_dv=(tmp_path / UUID_FILE).as_uri())
    assert [table.rows(vector).tolist() for vector in (inline(), on_disk, absolute)] == [ROWS] * 3


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (b"\x02" + framed() * 2, "expected version 1"),
        (b"", "expected version 1"),
        (b"\x01" + framed() + framed(size=7), "expected the size"),
        (b"\x01" + framed() + framed(checksum=7), "expected the checksum 00000007"),
        (b"\x01" + framed() + framed(b"\0" * len(CONTENT)), "magic number"),
        (b"\x01" + framed() + framed()[:-1], "bytes at"),
    ],
    ids=["version", "empty", "size", "checksum", "magic", "cut short"],
)
def test_damaged_file_is_reported_by_name(
    table: DeletionVectors, on_disk: DeletionVectorDescriptor, tmp_path: Path, content: bytes, reported: str
) -> None:
    write(tmp_path, content)
    with pytest.raises(CorruptLogError, match=reported) as raised:
        table.rows(on_disk)
    assert raised.value.path.endswith(UUID_FILE)


@pytest.mark.parametrize(
    ("vector", "reported"),
    [
        (inline(cardinality=3), "expected 3 rows, found 2"),
        (replace(inline(), size_in_bytes=len(CONTENT) + 9), "expected .* bytes"),
        (replace(inline(), size_in_bytes=1 << 31), "expected sizeInBytes from 0 to 2147483647, found 2147483648"),
        (replace(inline(), path_or_inline_dv="ab~de"), "expected Z85"),
        (replace(inline(), path_or_inline_dv="abc"), "expected Z85"),
        (replace(inline(), storage_type="x"), "expected a storage type"),
        (replace(inline(), storage_type="u", path_or_inline_dv="short"), "expected a UUID"),
    ],
    ids=["cardinality", "size", "too large", "character", "length", "storage", "no uuid"],
)
def test_damaged_descriptor_is_named(table: DeletionVectors, vector: DeletionVectorDescriptor, reported: str) -> None:
    with pytest.raises(CorruptLogError, match=reported):
        table.rows(vector)


def test_row_index_that_no_data_file_has_is_damage(table: DeletionVectors) -> None:
    content = array_of(k256=bitmap_of(array_container(0, [2])))
    with pytest.raises(CorruptLogError, match=r"expected row indexes below 2\^40"):
        table.rows(inline(content, cardinality=1))


def test_missing_vector_file_is_reported_with_the_version(
    table: DeletionVectors, on_disk: DeletionVectorDescriptor, tmp_path: Path
) -> None:
    (tmp_path / UUID_FILE).unlink()
    with pytest.raises(DataFileNotFoundError, match=r"Version 3 .*deletion_vector_d2c639aa"):
        table.rows(on_disk)


def test_vector_outside_the_table_is_not_opened(table: DeletionVectors, on_disk: DeletionVectorDescriptor) -> None:
    with pytest.raises(DataPathError):
        table.rows(replace(on_disk, storage_type="p", path_or_inline_dv="file:///etc/passwd"))


def test_z85_is_decoded_as_its_specification_shows() -> None:
    assert decode_z85("HelloWorld") == bytes.fromhex("864fd26fb559f75b")


def test_z85_of_rust_writers_starts_with_a_mark_for_each_missing_byte() -> None:
    """The inline vector of version 5 of the golden table krs__cdf-table-with-dv, as deltalake reads it."""
    text = "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093"
    vector = DeletionVectorDescriptor(storage_type="i", path_or_inline_dv=text, size_in_bytes=34, cardinality=1)
    table = DeletionVectors(store=FsspecLogStore(), table_path="file:///t", version=5)
    assert table.rows(vector).tolist() == [3]


@pytest.mark.parametrize(("padded", "content"), [("#0960", "00ffff"), ("##093", "0300"), ("###03", "03")])
def test_one_to_three_bytes_are_padded_to_five_characters_of_z85(padded: str, content: str) -> None:
    assert decode_z85(f"Hello{padded}").hex() == f"864fd26f{content}"


@pytest.mark.parametrize("text", ["####0", "#####", "##093Hello", "###3a", "%nSc1", "%%%%%", "Hell"])
def test_five_characters_that_no_writer_of_z85_makes_are_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="Z85"):
        decode_z85(text)


@pytest.mark.parametrize(("padding", "is_cut"), [(0, True), (1, True), (3, True), (4, False), (-1, False)])
def test_up_to_three_bytes_of_padding_are_cut_off(padding: int, is_cut: bool) -> None:
    content = b"12345678"
    if is_cut:
        assert _cut(content, len(content) - padding) == content[: len(content) - padding]
    else:
        with pytest.raises(ValueError, match=f"expected {len(content) - padding} bytes, found 8"):
            _cut(content, len(content) - padding)


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
