from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytestmark = pytest.mark.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

from deltasnap_assets.checks.facts import FileFacts, TombstoneFacts  # noqa: E402
from deltasnap_assets.tables.file_facts import (  # noqa: E402
    facts_of_frame,
    facts_of_rows,
    tombstone_facts_of_frame,
    tombstone_facts_of_rows,
)
from deltasnap_core import ALL_FILES_SCHEMA, TOMBSTONES_SCHEMA  # noqa: E402
from deltasnap_core.rules.file_actions import ADDS, REMOVES  # noqa: E402

LARGEST = (1 << 63) - 1


def frame(spark: SparkSession, schema: Any, *rows: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)


def facts_of(spark: SparkSession, *rows: dict[str, Any]) -> FileFacts:
    told = [{"modificationTime": 0, "dataChange": True, "partitionValues": {}, **row} for row in rows]
    facts = facts_of_frame(frame(spark, ALL_FILES_SCHEMA, *told))
    assert facts_of_rows(pa.Table.from_pylist(told, ADDS)) == facts
    return facts


def gone_facts(spark: SparkSession, *rows: dict[str, Any], retention_ms: int, now_ms: int) -> TombstoneFacts:
    told = [{"dataChange": True, **row} for row in rows]
    facts = tombstone_facts_of_frame(frame(spark, TOMBSTONES_SCHEMA, *told), retention_ms=retention_ms, now_ms=now_ms)
    gone = pa.Table.from_pylist(told, REMOVES)
    assert tombstone_facts_of_rows(gone, retention_ms=retention_ms, now_ms=now_ms) == facts
    return facts


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


def test_partitions_beyond_those_shown_are_counted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltasnap_assets.tables.file_facts.MOST_PARTITIONS", 3)
    rows = ({"path": f"{day}", "size": 10, "partitionValues": {"day": f"{day}"}} for day in range(9))
    told = [{"modificationTime": 0, "dataChange": True, **row} for row in rows]
    for facts in (
        facts_of_frame(frame(spark, ALL_FILES_SCHEMA, *told)),
        facts_of_rows(pa.Table.from_pylist(told, ADDS)),
    ):
        assert facts.num_partitions == 9
        assert len(facts.partitions) <= 4


def test_sizes_beyond_all_bounds_do_no_harm(spark: SparkSession) -> None:
    other = {"path": "c", "size": -1, "partitionValues": {"day": "1"}}
    facts = facts_of(spark, {"path": "a", "size": LARGEST}, {"path": "b", "size": LARGEST}, other)
    assert [(part.num_files, part.size_in_bytes) for part in facts.partitions] == [(2, 0), (1, -1)]
    told = gone_facts(
        spark,
        {"path": "a", "deletionTimestamp": LARGEST, "size": LARGEST},
        {"path": "b", "size": LARGEST},
        retention_ms=10,
        now_ms=10,
    )
    assert (told.num_files, told.num_expired, told.first_expires_ms, told.last_expires_ms) == (2, 1, 10, 10)


def test_table_without_files_has_none(spark: SparkSession) -> None:
    facts = facts_of(spark)
    assert (facts.bins, facts.largest, facts.partitions) == ((), (), ())


def test_tombstones_expire_after_their_retention(spark: SparkSession) -> None:
    told = gone_facts(
        spark,
        {"path": "a", "deletionTimestamp": 100, "size": 5},
        {"path": "b", "deletionTimestamp": 200},
        {"path": "c", "deletionTimestamp": 300, "size": 7},
        retention_ms=1000,
        now_ms=1200,
    )
    assert (told.size_in_bytes, told.num_without_size) == (12, 1)
    assert (told.first_expires_ms, told.last_expires_ms) == (1100, 1300)
    assert (told.num_expired, told.expired_bytes) == (2, 5)
    none = gone_facts(spark, retention_ms=1, now_ms=1)
    assert (none.num_files, none.size_in_bytes, none.first_expires_ms) == (0, 0, None)
