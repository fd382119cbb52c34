"""Row changes of random tables: without a feed compared with all rows, with a feed compared with deltalake."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltasnap_core import DeltaLog
from tests.core.scan.changing_tables import ChangingTable, canonical, written_by_deltalake, written_by_hand

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

TABLES = int(os.environ.get("DELTASNAP_RANDOM_TABLES", "8"))
"""More tables: DELTASNAP_RANDOM_TABLES=200."""

_OLD, _NEW = ("delete", "update_preimage"), ("insert", "update_postimage")
Change = tuple[str, str, int]
"""The row, the type of the change, and the version."""


def changes_of(frame: DataFrame) -> Counter[Change]:
    return counted(frame.toArrow().to_pylist())


def counted(rows: list[dict[str, Any]]) -> Counter[Change]:
    return Counter((canonical(row), row["_change_type"], row["_commit_version"]) for row in rows)


def difference(before: Counter[str], after: Counter[str], version: int) -> Counter[Change]:
    """A full comparison of the rows of two versions."""
    deleted, inserted = before - after, after - before
    return Counter(
        {
            (row, kind, version): n
            for kind, rows in (("delete", deleted), ("insert", inserted))
            for row, n in rows.items()
        }
    )


def expected_changes(table: ChangingTable, first: int, last: int) -> Counter[Change]:
    found: Counter[Change] = Counter()
    for version in range(first, last + 1):
        before = table.versions[version - 1] if version else Counter()
        found += difference(before, table.versions[version], version)
    return found


def plain(changes: Counter[Change]) -> Counter[Change]:
    """Updates as deletes and inserts."""
    found: Counter[Change] = Counter()
    for (row, kind, version), count in changes.items():
        found[row, "delete" if kind in _OLD else "insert", version] += count
    return found


def assert_paired(changes: Counter[Change]) -> None:
    """Assert that each key of a version has as many updates as its deletes and inserts allow."""
    counts: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for (row, kind, version), count in changes.items():
        counts[row.split(",")[0], version][kind] += count
    for kinds in counts.values():
        assert kinds["update_preimage"] == kinds["update_postimage"]
        assert not (kinds["insert"] and kinds["delete"])


def assert_no_row_wrong(spark: SparkSession, table: ChangingTable, seed: int) -> None:
    """Assert the changes of all versions, and those of some versions by key, net, or both."""
    last = len(table.versions) - 1
    first = seed % (last + 1)
    log = DeltaLog.for_table(spark, table.path)
    reported = f"seed {seed}: {table.operations}"
    assert changes_of(log.row_changes(0, last)) == expected_changes(table, 0, last), reported
    key = None if seed % 3 == 0 else ["id"]
    if seed % 3 == 1:
        found = changes_of(log.row_changes(first, last, key=key))
        assert plain(found) == expected_changes(table, first, last), reported
    else:
        found = changes_of(log.row_changes(first, last, net=True, key=key))
        before = table.versions[first - 1] if first else Counter()
        assert without_version(plain(found)) == without_version(difference(before, table.versions[last], last)), (
            reported
        )
    if key is not None:
        assert_paired(found)


def without_version(changes: Counter[Change]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for (row, kind, _), count in changes.items():
        found[row, kind] += count
    return found


@pytest.mark.parametrize("seed", range(TABLES // 2))
def test_row_changes_of_a_deltalake_table_match_a_full_comparison(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    assert_no_row_wrong(spark, written_by_deltalake(tmp_path / "t", seed), seed)


@pytest.mark.parametrize("seed", range(TABLES // 2))
def test_row_changes_of_a_table_with_deletion_vectors_match_a_full_comparison(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    assert_no_row_wrong(spark, written_by_hand(tmp_path / "t", seed), seed)


@pytest.mark.parametrize("seed", range(TABLES // 2))
def test_row_changes_of_a_table_with_a_feed_match_deltalake(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    from deltalake import DeltaTable

    table = written_by_deltalake(tmp_path / "t", 1000 + seed, feed=True)
    last = len(table.versions) - 1
    expected = pa.table(DeltaTable(str(table.path)).load_cdf(starting_version=0, ending_version=last).read_all())
    log = DeltaLog.for_table(spark, table.path)
    assert changes_of(log.row_changes(0, last)) == counted(expected.to_pylist()), table.operations
    by_key = changes_of(log.row_changes(0, last, key=["id"]))
    assert plain(by_key) == expected_changes(table, 0, last), table.operations
