"""The aggregates: what follows from their table, and the arithmetic of totals. No query is run."""

from __future__ import annotations

from typing import Any

import pytest

from deltasnap_core.protocol.file_size_histogram import DEFAULT_BIN_BOUNDARIES
from deltasnap_core.replay.spark.file_action_layout import MEASURED
from deltasnap_core.rules.aggregates import (
    AGGREGATES,
    GROUPED_BY,
    HISTOGRAMS,
    SUMS,
    FileTotals,
    Group,
    MissingSizeError,
    grouping,
    sums,
)
from deltasnap_core.rules.measures import MEASURES

MIB = 1 << 20


def group(**values: Any) -> Group:
    """Return a group of live files without a deletion vector; sums left out are null, as those of nothing are."""
    return Group.of_row({**dict.fromkeys(SUMS), "size_class": MIB, "deleted_bin": -1, **values})


def test_query_follows_from_the_tables() -> None:
    assert MEASURED.columns == ("key_high", "key_low", *MEASURES)
    assert [sql.rpartition(" as ")[2] for sql in grouping()] == list(GROUPED_BY)
    assert [sql.rpartition(" as ")[2] for sql in sums()] == list(SUMS)
    assert all(sql.startswith("sum(sign * (") for sql in sums("sign"))


def test_halves_of_a_sum_come_together_beyond_64_bits_and_below_zero() -> None:
    size = 3 * (2**63 - 1)
    high, low = divmod(size, 1 << 32)
    whole = group(rows=3, high_size=high, low_size=low)
    gone = group(rows=-3, high_size=-high, low_size=-low)
    totals = FileTotals([whole])
    assert (totals["size_in_bytes"], totals["num_of_files"]) == (size, 3)
    assert FileTotals([whole, gone]) == FileTotals()


def test_sign_of_a_row_is_that_of_all_its_sums() -> None:
    row = {**dict.fromkeys(SUMS, 1), "size_class": MIB, "deleted_bin": 2}
    assert FileTotals([Group.of_row(row), Group.of_row(row, sign=-1)]) == FileTotals()


def test_groups_count_where_they_belong() -> None:
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


def test_totals_are_what_their_numbers_and_bins_say() -> None:
    before = FileTotals([group(rows=2, low_size=2 * MIB)])
    again = FileTotals.of(before.numbers, {name: before.bins(name) for name in HISTOGRAMS})
    assert again == before
    assert again + again == FileTotals([group(rows=4, low_size=4 * MIB)])
    assert set(before.numbers) == set(AGGREGATES)


def test_live_file_without_a_size_is_damage() -> None:
    with pytest.raises(MissingSizeError, match=r"add\.size"):
        FileTotals([group(size_class=None)])
