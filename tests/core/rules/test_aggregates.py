"""The aggregates: their definitions, and the arithmetic of totals. SQL runs in SQLite, without a JVM."""

from __future__ import annotations

import math
import sqlite3
from typing import Any

import pyarrow as pa
import pytest

from deltasnap_core.protocol.state.deleted_record_counts_histogram import BIN_STARTS, DeletedRecordCountsHistogram
from deltasnap_core.protocol.state.file_size_histogram import DEFAULT_BIN_BOUNDARIES, FileSizeHistogram
from deltasnap_core.replay.spark.reading.file_action_layout import MEASURED
from deltasnap_core.rules.totals.aggregates import (
    AGGREGATES,
    GROUPED_BY,
    HISTOGRAMS,
    SUMS,
    FileTotals,
    MeasureGroup,
    MissingSizeError,
    grouping_sql,
    groups_of,
    sums_sql,
)
from deltasnap_core.rules.totals.measures import MEASURES

MIB = 1 << 20


def group(**values: Any) -> MeasureGroup:
    """Return a group of live files without a deletion vector; omitted sums are null, like sums over no rows."""
    return MeasureGroup.of_row({**dict.fromkeys(SUMS), "size_class": MIB, "deleted_bin": -1, **values})


def test_query_follows_from_the_tables() -> None:
    assert MEASURED.columns == ("key_high", "key_low", *MEASURES)
    assert [sql.rpartition(" as ")[2] for sql in grouping_sql()] == list(GROUPED_BY)
    assert [sql.rpartition(" as ")[2] for sql in sums_sql()] == list(SUMS)
    assert all(sql.startswith("sum(sign * (") for sql in sums_sql("sign"))


def test_halves_of_a_sum_are_combined_beyond_64_bits_and_below_zero() -> None:
    size = 3 * (2**63 - 1)
    high, low = divmod(size, 1 << 32)
    whole = group(rows=3, high_size=high, low_size=low)
    gone = group(rows=-3, high_size=-high, low_size=-low)
    totals = FileTotals([whole])
    assert (totals["size_in_bytes"], totals["num_of_files"]) == (size, 3)
    assert FileTotals([whole, gone]) == FileTotals()


def test_sign_of_a_row_applies_to_all_its_sums() -> None:
    row = {**dict.fromkeys(SUMS, 1), "size_class": MIB, "deleted_bin": 2}
    assert FileTotals([MeasureGroup.of_row(row), MeasureGroup.of_row(row, sign=-1)]) == FileTotals()


def test_groups_are_added_to_the_right_totals() -> None:
    live = group(rows=2, rows_without_records=1, low_size=2 * MIB, low_records=7)
    vectors = group(rows=1, low_size=MIB, deleted_bin=2, low_deleted=12)
    tombstones = group(rows=4, size_class=-1, rows_without_records=4)
    negative = group(rows=1, size_class=-2, high_size=-1, low_size=(1 << 32) - 5)
    found = FileTotals([live, vectors, tombstones, negative])
    assert found.numbers == {
        "num_of_files": 4,
        "size_in_bytes": 3 * MIB - 5,
        "num_known_records": 7,
        "num_files_without_records": 1,
        "num_deletion_vectors": 1,
        "num_deleted_records": 12,
        "num_of_removes": 4,
    }
    at = DEFAULT_BIN_BOUNDARIES.index(MIB)
    assert {i: n for i, n in enumerate(found.bins("file_counts")) if n} == {at: 3}
    assert {i: n for i, n in enumerate(found.bins("total_bytes")) if n} == {at: 3 * MIB}
    assert found.bins("deleted_record_counts")[:3] == (3, 0, 1)


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_size_falls_into_the_bin_that_begins_at_or_before_it(step: int) -> None:
    for index in (1, 2, 40, len(DEFAULT_BIN_BOUNDARIES) - 1):
        found = group(rows=1, size_class=DEFAULT_BIN_BOUNDARIES[index] + step)
        assert found.size_bin == (index if step >= 0 else index - 1)


SIZES = [max(start + step, 0) for start in DEFAULT_BIN_BOUNDARIES for step in (-1, 0, 1)]
DELETED = [max(start + step, 0) for start in BIN_STARTS for step in (-1, 0, 1)]
FILES: list[tuple[int | None, ...]] = [
    *((size, 1, None, None) for size in SIZES),
    *((0, count - 1, count, None) for count in DELETED),
    *((0, count, count, None) for count in DELETED),
    *((0, None, count, None) for count in DELETED),
    *((None, None, None, 9), (2**40, 2**33, 2**34, None), (-1, 1, -1, None)),
]


def groups_in_arrow() -> list[MeasureGroup]:
    """Return the groups of FILES, as the driver forms them."""
    columns = zip(MEASURES, zip(*FILES, strict=True), strict=True)
    return groups_of(pa.table({name: pa.array(values, pa.int64()) for name, values in columns}))


def groups_in_sql() -> list[MeasureGroup]:
    """Return the groups of FILES, as the query forms them."""
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    database.create_function("if", 3, lambda condition, one, other: one if condition else other)
    database.create_function("greatest", 2, lambda one, other: max(one or 0, other))
    database.create_function("log2", 1, lambda size: math.log2(size) if size else None)
    database.create_function("shiftleft", 2, lambda value, bits: value << bits)
    database.create_function("shiftright", 2, lambda value, bits: None if value is None else value >> bits)
    database.execute(f"create table files ({', '.join(MEASURES)})")
    database.executemany("insert into files values (?, ?, ?, ?)", FILES)
    query = f"select {', '.join([*grouping_sql(), *sums_sql()])} from files group by {', '.join(GROUPED_BY)}"
    return [
        MeasureGroup.of_row(dict(row)) for row in database.execute(query.replace("1e-9d", "1e-9").replace("95L", "95"))
    ]


@pytest.mark.parametrize("groups", [groups_in_arrow, groups_in_sql], ids=["in Arrow", "in SQL"])
def test_groups_of_files_fill_the_bins_of_the_histograms(groups: Any) -> None:
    found = FileTotals(groups())
    live = [file[:3] for file in FILES if file[3] is None]
    sizes, _, deleted = ([value for value in column if value is not None] for column in zip(*live, strict=True))
    known = [records for _, records, count in live if records is not None and 0 <= (count or 0) <= records]
    assert found.numbers == {
        "num_of_files": len(live),
        "size_in_bytes": sum(sizes),
        "num_known_records": sum(known),
        "num_files_without_records": len(live) - len(known),
        "num_deletion_vectors": len(deleted),
        "num_deleted_records": sum(deleted),
        "num_of_removes": 1,
    }
    by_size = FileSizeHistogram.of_sizes(sizes)
    by_deleted = DeletedRecordCountsHistogram.of_counts(count or 0 for _, _, count in live)
    assert found.bins("file_counts") == by_size.file_counts
    assert found.bins("total_bytes") == by_size.total_bytes
    assert found.bins("deleted_record_counts") == by_deleted.deleted_record_counts


def test_totals_match_their_numbers_and_bins() -> None:
    before = FileTotals([group(rows=2, low_size=2 * MIB)])
    again = FileTotals.of(before.numbers, {name: before.bins(name) for name in HISTOGRAMS})
    assert again == before
    assert again + again == FileTotals([group(rows=4, low_size=4 * MIB)])
    assert set(before.numbers) == set(AGGREGATES)


def test_live_file_without_a_size_is_damage() -> None:
    with pytest.raises(MissingSizeError, match=r"add\.size"):
        FileTotals([group(size_class=None)])
