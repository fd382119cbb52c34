from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytestmark = pytest.mark.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

from deltasnap_assets.tables.file_facts import FileFacts, file_facts, tombstone_facts  # noqa: E402
from deltasnap_core import ALL_FILES_SCHEMA, TOMBSTONES_SCHEMA  # noqa: E402

LARGEST = (1 << 63) - 1


def frame(spark: SparkSession, schema: Any, *rows: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)


def facts_of(spark: SparkSession, *rows: dict[str, Any]) -> FileFacts:
    told = [{"modificationTime": 0, "dataChange": True, "partitionValues": {}, **row} for row in rows]
    return file_facts(frame(spark, ALL_FILES_SCHEMA, *told))


def test_live_files_are_told_by_partition_and_size(spark: SparkSession) -> None:
    one, none = {"day": "1", "country": "de"}, {"country": None, "day": "1"}
    facts = facts_of(
        spark,
        {"path": "a", "size": 1024, "partitionValues": one},
        {"path": "b", "size": 1100, "partitionValues": dict(reversed(one.items()))},
        {"path": "c", "size": 5000, "partitionValues": none},
        {"path": "d", "size": 0, "partitionValues": none},
    )
    told = {part.label: (part.num_files, part.size_in_bytes) for part in facts.partitions}
    assert told == {"country=null/day=1": (2, 5000), "country=de/day=1": (2, 2124)}
    assert facts.largest[0] == ("c", 5000)
    assert facts.smallest[0] == ("d", 0)
    assert sum(each.count for each in facts.bins) == 4
    assert {each.count for each in facts.bins if each.start == 1024} == {2}


def test_sizes_beyond_all_bounds_do_no_harm(spark: SparkSession) -> None:
    facts = facts_of(spark, {"path": "a", "size": LARGEST}, {"path": "b", "size": LARGEST}, {"path": "c", "size": -1})
    assert facts.partitions[0].num_files == 3
    gone = frame(
        spark,
        TOMBSTONES_SCHEMA,
        {"path": "a", "deletionTimestamp": LARGEST, "dataChange": True, "size": LARGEST},
        {"path": "b", "deletionTimestamp": None, "dataChange": True, "size": LARGEST},
    )
    told = tombstone_facts(gone, retention_ms=10, now_ms=10)
    assert (told.num_files, told.num_expired, told.first_expires_ms, told.last_expires_ms) == (2, 1, 10, 10)


def test_table_without_files_has_none(spark: SparkSession) -> None:
    facts = facts_of(spark)
    assert (facts.bins, facts.largest, facts.partitions) == ((), (), ())


def test_tombstones_expire_after_their_retention(spark: SparkSession) -> None:
    gone = frame(
        spark,
        TOMBSTONES_SCHEMA,
        {"path": "a", "deletionTimestamp": 100, "dataChange": True, "size": 5},
        {"path": "b", "deletionTimestamp": 200, "dataChange": True},
        {"path": "c", "deletionTimestamp": 300, "dataChange": True, "size": 7},
    )
    told = tombstone_facts(gone, retention_ms=1000, now_ms=1200)
    assert (told.size_in_bytes, told.num_without_size) == (12, 1)
    assert (told.first_expires_ms, told.last_expires_ms) == (1100, 1300)
    assert (told.num_expired, told.expired_bytes) == (2, 5)
    none = tombstone_facts(frame(spark, TOMBSTONES_SCHEMA), retention_ms=1, now_ms=1)
    assert (none.num_files, none.size_in_bytes, none.first_expires_ms) == (0, 0, None)
