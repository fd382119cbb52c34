"""Conditions on the rows of metadata tables follow the rules of those of a scan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltasnap_core import Table, open_table
from deltasnap_core.errors import PredicateError
from deltasnap_core.support import filtered_rows
from tests.builders import add, commit_info, metadata, protocol, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def table(tmp_path: Path, spark: SparkSession) -> Table:
    """A table with a commit and two files."""
    write_log(tmp_path, {0: [commit_info("MERGE"), protocol(), metadata(), add("a", size=10), add("b", size=20)]})
    return open_table(tmp_path, spark=spark)


def test_condition_is_on_the_columns_of_the_metadata_table(table: Table) -> None:
    files = table.files().to_spark()
    found = filtered_rows(table.snapshot.scanned_table(), files, "size > 10 and path like '_'")
    assert [row["path"] for row in found.collect()] == ["b"]
    history = table.history().to_spark()
    found = filtered_rows(table.snapshot.scanned_table(), history, "operation = 'MERGE'")
    assert [row["version"] for row in found.collect()] == [0]


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("size > (select 1)", "a query cannot be used here"),
        ("reflect('java.lang.System', 'exit') = 'x'", "a function that calls Java cannot be used here"),
        ("max(size) > 1", "an aggregate cannot be used here"),
        ("id = 1", "the table has no column id; it has path,"),
        (" and ".join(["size > 1"] * 1001), "expected at most 1,000 conditions"),
    ],
    ids=["query", "Java", "aggregate", "a column of the table", "conditions"],
)
def test_condition_has_the_limits_of_a_scan(where: str, reason: str, table: Table) -> None:
    with pytest.raises(PredicateError, match=reason):
        filtered_rows(table.snapshot.scanned_table(), table.files().to_spark(), where)
