"""The one table of aggregates: what follows from it, and its arithmetic. No query is run."""

from __future__ import annotations

from typing import Any

import pytest

from deltasnap_core.protocol.file_size_histogram import DEFAULT_BIN_BOUNDARIES
from deltasnap_core.replay.spark.file_action_layout import DIGEST
from deltasnap_core.rules.aggregates import AGGREGATES, DIGESTED, FileTotals, MissingSizeError, grouping, sums

MIB = 1 << 20


def group(**values: Any) -> dict[str, Any]:
    """Return a group of live files without a deletion vector; sums left out are null, as those of nothing are."""
    names = [sql.rpartition(" as ")[2].strip("`") for sql in sums()]
    return {**dict.fromkeys(names), "size_class": MIB, "deleted_bin": -1, **values}


def totals(*groups: dict[str, Any]) -> FileTotals:
    made = FileTotals()
    for each in groups:
        made.add(each)
    return made


def test_digest_and_query_follow_from_the_table() -> None:
    assert DIGEST.columns == ("key_high", "key_low", *DIGESTED)
    assert [sql.rpartition(" as ")[2] for sql in grouping()] == ["size_class", "deleted_bin"]
    needed = {name for aggregate in AGGREGATES.values() for name in aggregate.sums}
    assert {sql.rpartition(" as ")[2].strip("`") for sql in sums()} == needed
    assert len(sums()) == len(needed) == 8
    assert all(sql.startswith("sum(sign * (") for sql in sums("sign"))


def test_halves_of_a_sum_come_together_beyond_64_bits_and_below_zero() -> None:
    size = 3 * (2**63 - 1)
    high, low = divmod(size, 1 << 32)
    whole = group(**{"rows": 3, "high of size": high, "low of size": low})
    gone = group(**{"rows": -3, "high of size": -high, "low of size": -low})
    assert (totals(whole)["size_in_bytes"], totals(whole)["num_of_files"]) == (size, 3)
    assert totals(whole, gone).numbers == totals().numbers


def test_groups_count_where_they_belong() -> None:
    live = group(**{"rows": 2, "rows without records": 1, "low of size": 2 * MIB, "low of records": 7})
    vectors = group(**{"rows": 1, "low of size": MIB, "deleted_bin": 2, "low of deleted": 12})
    tombstones = group(**{"rows": 4, "size_class": -1, "rows without records": 4})
    negative = group(**{"rows": 1, "size_class": -2, "high of size": -1, "low of size": (1 << 32) - 5})
    found = totals(live, vectors, tombstones, negative)
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


def test_totals_start_from_what_they_were() -> None:
    before = totals(group(**{"rows": 2, "low of size": 2 * MIB}))
    again = FileTotals.of(lambda name: before[name] if AGGREGATES[name].bin_of is None else before.bins(name))
    assert again.numbers == before.numbers
    assert again.bins("total_bytes") == before.bins("total_bytes")


def test_live_file_without_a_size_is_damage() -> None:
    with pytest.raises(MissingSizeError, match=r"add\.size"):
        totals(group(size_class=None))
