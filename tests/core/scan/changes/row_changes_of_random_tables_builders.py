from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from deltasnap_core import DeltaLog
from tests.core.scan.changing_tables import ChangingTable, canonical

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
