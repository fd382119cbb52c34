"""Spark and the driver return the same breakdown, even beyond the limits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.rules.totals import file_breakdown as rules
from deltasnap_core.rules.totals.file_breakdown import FileBreakdown, FileGroup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


LARGEST = (1 << 63) - 1
NONE = Retention.after(LARGEST)
POWERS = [size for n in range(63) for size in ((1 << n) - 1, 1 << n, (1 << n) + 1)]
STARTS = [rules._least_size(n) + more for n in range(252) for more in (-1, 0)]
FILES = [
    *((f"{n:04}", size, {"day": f"{n % 7}", "who": None}) for n, size in enumerate([-1, LARGEST, *POWERS, *STARTS])),
    ("no values", 3, None),
    ("null as an empty text", 5, {"day": "1", "who": ""}),
    ("unpartitioned", 4, {}),
]
TOMBSTONES = [("gone", 5, 9), ("gone with a size", 5, None), ("gone some time", None, 1), ("gone too", 7, LARGEST)]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as F

    from deltasnap_core.replay.spark.file_breakdowns import BREAKDOWN_FILE_ACTIONS
    from deltasnap_core.replay.spark.reading.action_reader import with_keys

    actions: list[dict[str, Any]] = [
        {"add": {"path": path, "size": size, "partitionValues": values}} for path, size, values in FILES
    ]
    # A file with a deletion vector beside the same path without one, as only a damaged log has.
    vector = {"storageType": "i", "pathOrInlineDv": "x"}
    actions.append({"add": {"path": "unpartitioned", "size": 4, "partitionValues": {}, "deletionVector": vector}})
    for path, at, size in TOMBSTONES:
        actions.append({"remove": {"path": path, "deletionTimestamp": at, "size": size}})
    lines = spark.createDataFrame([(json.dumps(action),) for action in actions], "line string")
    made = lines.select(F.from_json("line", BREAKDOWN_FILE_ACTIONS).alias("action")).select("action.*")
    return with_keys(made.repartition(3), "file:///t/_delta_log")


def expected(retention: Retention = KEEP_ALL) -> FileBreakdown:
    files = [*FILES, ("unpartitioned", 4, {})]
    gone = [FileGroup.of_tombstone(at or 0, size) for _, at, size in TOMBSTONES if retention.keeps(at)]
    return FileBreakdown.of(
        [*(FileGroup.of_file(path, size, (values or {}).items()) for path, size, values in files), *gone]
    )


@pytest.mark.slow
def test_spark_and_driver_return_the_same_counts(frame: DataFrame) -> None:
    from deltasnap_core.replay.spark.file_breakdowns import file_breakdown

    assert file_breakdown(frame, Retention.after(5)) == expected(Retention.after(5))
    assert file_breakdown(None, KEEP_ALL) == FileBreakdown.of(())


@pytest.mark.slow
def test_groups_beyond_the_limit_are_counted_separately(frame: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltasnap_core.replay.spark import file_breakdowns

    monkeypatch.setattr(file_breakdowns, "_MAX_GROUPS", 10)
    assert file_breakdowns.file_breakdown(frame, KEEP_ALL) == expected()
    for module in (file_breakdowns, rules):
        monkeypatch.setattr(module, "MAX_PARTITIONS", 3)
        monkeypatch.setattr(module, "MAX_TIMES", 2)
    found = file_breakdowns.file_breakdown(frame, KEEP_ALL)
    assert found.sizes == expected().sizes
    assert found.partitions == expected().partitions
    assert (len(found.partitions), found.num_partitions, found.deletions) == (3, 8, None)
    assert not found.can_be_updated


@pytest.mark.spark
def test_first_of_two_values_of_a_partition_counts(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    from deltasnap_core.replay.spark.file_breakdowns import BREAKDOWN_FILE_ACTIONS, file_breakdown
    from deltasnap_core.replay.spark.reading.action_reader import with_keys

    lines = [('{"add":{"path":"a","size":1,"partitionValues":{"p":"2","p":"1"}}}',)]
    both_values = F.from_json("line", BREAKDOWN_FILE_ACTIONS)
    parsed = spark.createDataFrame(lines, "line string").select(both_values.alias("action"))
    found = file_breakdown(with_keys(parsed.select("action.*"), "file:///t/_delta_log"), KEEP_ALL)
    assert found.partitions == {(("p", "2"),): (1, 1)}
