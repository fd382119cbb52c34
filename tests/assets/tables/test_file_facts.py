from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltasnap_assets.checks.facts import FileFacts, TombstoneFacts
from deltasnap_assets.tables.file_facts import (
    file_facts,
    may_have_vectors,
    tombstone_facts,
    tombstone_facts_of,
    tombstone_facts_of_frame,
    tombstone_facts_of_rows,
)
from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore, TableLog, system_clock
from deltasnap_core.replay.engine import EngineUse
from deltasnap_core.rules.file_actions import REMOVES
from deltasnap_core.rules.totals import file_breakdown
from deltasnap_core.rules.totals.file_breakdown import FileBreakdown, FileGroup
from tests.builders import add, metadata, protocol, remove, write_log
from tests.driver_bases import use_driver_bases
from tests.without_spark import log_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGEST = (1 << 63) - 1


def facts_of(*rows: dict[str, Any]) -> FileFacts:
    groups = (FileGroup.of_file(row["path"], row["size"], row.get("partitionValues", {}).items()) for row in rows)
    return file_facts(FileBreakdown.of(groups))


def gone_facts(*rows: dict[str, Any], retention_ms: int, now_ms: int) -> TombstoneFacts:
    """Return the facts from the numbers by time. A pass over the rows has the same result."""
    gone = pa.Table.from_pylist([{"dataChange": True, **row} for row in rows], REMOVES)
    counted = tombstone_facts_of_rows(gone, retention_ms=retention_ms, now_ms=now_ms)
    groups = (FileGroup.of_tombstone(row.get("deletionTimestamp") or 0, row.get("size")) for row in rows)
    deletions = FileBreakdown.of(groups).deletions
    assert deletions is not None
    assert tombstone_facts_of(deletions, retention_ms=retention_ms, now_ms=now_ms) == counted
    return counted


def test_live_files_are_counted_by_partition_and_size() -> None:
    one, none = {"day": "1", "country": "de"}, {"country": None, "day": "1"}
    facts = facts_of(
        {"path": "a", "size": 1024, "partitionValues": one},
        {"path": "b", "size": 1100, "partitionValues": dict(reversed(one.items()))},
        {"path": "c", "size": 5000, "partitionValues": none},
        {"path": "d", "size": 0, "partitionValues": none},
    )
    reported = {part.label: (part.num_files, part.size_in_bytes) for part in facts.partitions}
    assert reported == {"country=null/day=1": (2, 5000), "country=de/day=1": (2, 2124)}
    assert facts.partitions[0].size_in_bytes == 5000
    assert facts.largest[0] == ("c", 5000)
    assert facts.smallest[0] == ("d", 0)
    assert sum(each.count for each in facts.bins) == 4
    assert {each.count for each in facts.bins if each.start == 1024} == {2}


def test_partitions_beyond_those_shown_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_breakdown, "MAX_PARTITIONS", 3)
    facts = facts_of(*({"path": f"{day}", "size": 10, "partitionValues": {"day": f"{day}"}} for day in range(9)))
    assert (facts.num_partitions, len(facts.partitions)) == (9, 3)


def test_sums_of_bytes_beyond_64_bits_are_exact() -> None:
    other = {"path": "c", "size": -1, "partitionValues": {"day": "1"}}
    facts = facts_of({"path": "a", "size": LARGEST}, {"path": "b", "size": LARGEST}, other)
    assert [(part.num_files, part.size_in_bytes) for part in facts.partitions] == [(2, 2 * LARGEST), (1, -1)]
    assert [each.count for each in facts.bins] == [2]
    reported = gone_facts(
        {"path": "a", "deletionTimestamp": LARGEST, "size": LARGEST},
        {"path": "b", "size": LARGEST},
        retention_ms=10,
        now_ms=10,
    )
    assert (reported.num_files, reported.size_in_bytes) == (2, 2 * LARGEST)
    assert (reported.num_expired, reported.expired_bytes) == (1, LARGEST)
    assert (reported.first_expires_ms, reported.last_expires_ms) == (10, 10)


def test_five_largest_and_smallest_files_are_named() -> None:
    facts = facts_of(*({"path": f"{size}", "size": size} for size in range(7)))
    assert [size for _, size in facts.largest] == [6, 5, 4, 3, 2]
    assert [size for _, size in facts.smallest] == [0, 1, 2, 3, 4]


def test_partitions_of_one_size_are_ordered_by_their_values() -> None:
    days = [{"path": day, "size": 1, "partitionValues": {"day": day}} for day in "bca"]
    assert [each.label for each in facts_of(*days).partitions] == ["day=a", "day=b", "day=c"]


def test_table_without_files_has_none() -> None:
    facts = facts_of()
    assert (facts.bins, facts.largest, facts.partitions) == ((), (), ())


def test_tombstones_expire_after_their_retention() -> None:
    reported = gone_facts(
        {"path": "a", "deletionTimestamp": 100, "size": 5},
        {"path": "b", "deletionTimestamp": 200},
        {"path": "c", "deletionTimestamp": 300, "size": 7},
        retention_ms=1000,
        now_ms=1200,
    )
    assert (reported.size_in_bytes, reported.num_without_size) == (12, 1)
    assert (reported.first_expires_ms, reported.last_expires_ms) == (1100, 1300)
    assert (reported.num_expired, reported.num_expired_without_size, reported.expired_bytes) == (2, 1, 5)
    later = gone_facts({"path": "a", "deletionTimestamp": 100}, retention_ms=1000, now_ms=1099)
    assert (later.num_without_size, later.num_expired_without_size) == (1, 0)
    none = gone_facts(retention_ms=1, now_ms=1)
    assert (none.num_files, none.size_in_bytes, none.first_expires_ms) == (0, 0, None)


@pytest.mark.thorough
@pytest.mark.spark
def test_files_with_deletion_vectors_expire_once_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.retainGroupColumns", "false")  # a user's session may omit columns to group by
    try:
        check_expired_vectors(spark, tmp_path, "spark")
    finally:
        spark.conf.unset("spark.sql.retainGroupColumns")


def test_files_with_deletion_vectors_expire_once_and_only_when_not_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver_bases(monkeypatch)
    check_expired_vectors(None, tmp_path, "auto")


def check_expired_vectors(spark: SparkSession | None, tmp_path: Path, engine: EngineUse) -> None:
    at = system_clock()
    gone = partial(remove, deletion_timestamp=at)

    def vector(number: int) -> dict[str, Any]:
        return {"storageType": "u", "pathOrInlineDv": f"abc{number}", "sizeInBytes": 10, "cardinality": number}

    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    start = [protocol(3, 7, **features), metadata(), add("live", size=100), add("two", size=10), add("one", size=1)]
    start += [add("unsized", size=7)]
    first = [gone("live", size=100), add("live", size=100, deletionVector=vector(1))]
    first += [gone("two", size=10), add("two", size=10, deletionVector=vector(1))]
    second = [gone("live", size=100, deletionVector=vector(1)), add("li%76e", size=100, deletionVector=vector(2))]
    later = {"deletion_timestamp": at + 500}
    second += [remove("tw%6f", size=10, deletionVector=vector(1), **later), gone("one", size=1), gone("unsized")]
    write_log(tmp_path / "t", dict(enumerate([start, first, second])))
    log = DeltaLog.for_table(spark, tmp_path / "t", options=SnapshotOptions(engine=engine))
    store = SnapshotStore.open(spark, tmp_path / "store", engine=engine)
    store.write_range("t", log, 0, 2)

    def facts(now_ms: int, has_vectors: bool = True) -> tuple[int, ...]:
        breakdown = store.file_breakdown("t", 2)
        assert breakdown.deletions is not None
        times = {"retention_ms": 1000, "now_ms": now_ms}
        found = tombstone_facts(store, "t", 2, breakdown, has_vectors=has_vectors, **times)
        uncounted = replace(breakdown, deletions=None)  # it has too many times: the rows are counted
        assert tombstone_facts(store, "t", 2, uncounted, has_vectors=has_vectors, **times) == found
        return found.num_files, found.num_expired, found.num_expired_without_size, found.expired_bytes

    assert facts(at + 999) == (6, 0, 0, 0)
    assert facts(at + 1000) == (6, 2, 1, 1)
    if engine == "auto":
        assert facts(at + 1500) == (6, 3, 1, 11)
    assert facts(at + 1500, has_vectors=False) == (6, 6, 1, 221)


@pytest.mark.parametrize(
    ("features", "properties", "expected"),
    [
        ((), {}, False),
        (("columnMapping",), {"delta.enableTypeWidening": "true"}, False),
        (("deletionVectors",), {}, True),
        (("checkpointProtection",), {}, True),
        ((), {"delta.enableDeletionVectors": "false"}, True),
    ],
    ids=["never", "other features", "enabled", "dropped", "disabled"],
)
def test_tombstones_may_have_vectors_after_the_feature_was_dropped(
    tmp_path: Path, features: Sequence[str], properties: dict[str, str], expected: bool
) -> None:
    names = {"readerFeatures": [*{*features} - {"checkpointProtection"}], "writerFeatures": [*features]}
    first = [protocol(3, 7, **names) if features else protocol(), metadata(configuration=properties)]
    write_log(tmp_path, {0: first})
    assert may_have_vectors(log_without_spark(TableLog.for_path(tmp_path)).snapshot.computed_state) == expected


@pytest.mark.slow
def test_tombstones_of_many_times_are_counted_on_spark_as_in_the_driver(spark: SparkSession) -> None:
    rows: list[dict[str, Any]] = [
        {"deletionTimestamp": 100, "size": 5},
        {"deletionTimestamp": None, "size": 7},
        {"deletionTimestamp": LARGEST, "size": None},
        {"deletionTimestamp": 300, "size": LARGEST},
        {"deletionTimestamp": 400, "size": LARGEST},
        {"deletionTimestamp": 500, "size": None},
    ]
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], "deletionTimestamp long, size long")
    for now_ms in (0, 1100, LARGEST):
        on_spark = tombstone_facts_of_frame(frame, retention_ms=1000, now_ms=now_ms)
        assert on_spark == gone_facts(*rows, retention_ms=1000, now_ms=now_ms)
