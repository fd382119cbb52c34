"""A lookup of a few keys reads few row groups of a sorted file, and of a remote one only their bytes."""

from __future__ import annotations

from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core.log.checkpoints import parquet_footer
from deltasnap_core.storage.writable_files import FileParts
from deltasnap_core.store.rows import row_groups
from deltasnap_core.store.rows.row_groups import byte_ranges, footer_digest, groups_with, read_footer

FOOTER = b"a footer" + (8).to_bytes(4, "little") + b"PAR1"


def test_digest_of_a_footer_is_that_of_earlier_releases() -> None:
    assert footer_digest(FOOTER) == "f2fb4f92164eb8d84efebafbe74cbe17"


@pytest.mark.parametrize("tail_bytes", [12, 16, 1000])
def test_footer_is_the_end_of_the_file_for_any_first_read(tail_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_footer, "_TAIL_BYTES", tail_bytes)
    for rows in (b"", b"rows"):
        content = rows + FOOTER
        assert read_footer(BytesIO(content), len(content), footer_digest(FOOTER)) == FOOTER


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"rows", FOOTER[1:], b"rows" + FOOTER[:-1] + b"2", b"rows" + FOOTER[:-1]],
    ids=["empty", "magic only", "rows only", "longer than the file", "other magic", "truncated"],
)
def test_file_that_does_not_end_like_parquet_is_an_error(content: bytes) -> None:
    with pytest.raises(OSError, match="expected the end of a Parquet file"):
        read_footer(BytesIO(content), len(content))


def test_other_footer_than_the_written_one_is_an_error() -> None:
    with pytest.raises(OSError, match="expected the footer that was written"):
        read_footer(BytesIO(FOOTER), len(FOOTER), footer_digest(FOOTER[1:]))


KEYS = pa.array([-9, -5, 0, 0, 7, 8, 1 << 62], pa.int64())


def parquet(rows: pa.Table, rows_a_group: int, *, has_statistics: bool = True) -> bytes:
    stream = BytesIO()
    pq.write_table(rows, stream, row_group_size=rows_a_group, write_statistics=has_statistics)
    return stream.getvalue()


def metadata(*, has_statistics: bool = True) -> pq.FileMetaData:
    """Return the footer of four row groups: -9 and -5, 0 and 0, 7 and 8, 1 << 62."""
    rows = pa.table({"version": KEYS, "key": KEYS, "text": pa.array([None] * 7, pa.string())})
    return pq.read_metadata(BytesIO(parquet(rows, 2, has_statistics=has_statistics)))


@pytest.mark.parametrize(
    ("keys", "groups"),
    [([], []), ([-9], [0]), ([-5], [0]), ([-7], [0]), ([0], [1]), ([1], []), ([9], []), ([1 << 62, 7], [2, 3])],
)
def test_groups_are_those_whose_range_of_keys_has_a_wanted_one(keys: list[int], groups: list[int]) -> None:
    assert groups_with(metadata(), pa.array(keys, pa.int64())) == groups


def test_all_groups_of_a_file_without_statistics_may_have_a_key() -> None:
    assert groups_with(metadata(has_statistics=False), pa.array([1], pa.int64())) == [0, 1, 2, 3]


def test_ranges_are_those_of_the_columns_and_near_ones_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    footer = metadata()
    monkeypatch.setattr(row_groups, "_MAX_GAP_BYTES", 0)
    first, third = (footer.row_group(group) for group in (0, 2))
    keys = [range(_start(group.column(1)), _end(group.column(1))) for group in (first, third)]
    assert byte_ranges(footer, [0, 2], ["key"]) == keys
    assert byte_ranges(footer, [0], ["version", "key"]) == [range(_start(first.column(0)), keys[0].stop)]
    assert byte_ranges(footer, [0, 2], ["ke"]) == []
    monkeypatch.setattr(row_groups, "_MAX_GAP_BYTES", keys[1].start - keys[0].stop)
    assert byte_ranges(footer, [0, 2], ["key"]) == [range(keys[0].start, keys[1].stop)]


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    return int(chunk.dictionary_page_offset or chunk.data_page_offset)


def _end(chunk: pq.ColumnChunkMetaData) -> int:
    return _start(chunk) + int(chunk.total_compressed_size)


def test_file_of_parts_has_the_bytes_of_each_and_no_others() -> None:
    stream = FileParts(100, {10: b"abcde", 50: b"xyz"})
    found = []
    for start, length in [(10, 5), (12, 2), (50, 3)]:
        stream.seek(start)
        found.append(stream.read(length))
        assert stream.tell() == start + length
    assert found == [b"abcde", b"cd", b"xyz"]
    for start in (9, 13, 53):
        stream.seek(start)
        with pytest.raises(OSError, match="only the requested parts"):
            stream.read(3)
    assert stream.seek(-1, 2) == 99
    with pytest.raises(OSError, match="only the requested parts"):
        stream.read(1 << 60)  # not a MemoryError: a damaged footer may state any size
