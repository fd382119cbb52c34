from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltasnap_assets.checks.facts import CountedFiles, FileFacts, TombstoneFacts
from deltasnap_assets.tables import file_facts
from deltasnap_assets.tables.file_facts import FileCount, count_files
from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore
from deltasnap_core.replay.engine import EngineUse
from deltasnap_core.rules.file_actions import ADDS, REMOVES
from deltasnap_core.support import system_clock
from tests.builders import LOG_PATH, add, metadata, protocol, remove, write_log
from tests.driver_bases import use_driver_bases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGEST = (1 << 63) - 1


def count(retention_ms: int = 0, now_ms: int = 0) -> FileCount:
    return FileCount(log_path=LOG_PATH, configuration={}, retention_ms=retention_ms, now_ms=now_ms)


def facts_of(*rows: dict[str, Any]) -> FileFacts:
    return count().in_driver(live(*rows), gone())[0]


def gone_facts(*rows: dict[str, Any], retention_ms: int, now_ms: int) -> TombstoneFacts:
    return count(retention_ms, now_ms).in_driver(live(), gone(*rows))[1]


def live(*rows: dict[str, Any]) -> pa.Table:
    defaults = {"partitionValues": {}, "dataChange": True, "modificationTime": 0}
    return pa.Table.from_pylist([{**defaults, **row} for row in rows], ADDS)


def gone(*rows: dict[str, Any]) -> pa.Table:
    named = [{"path": f"{number}", "dataChange": True, **row} for number, row in enumerate(rows)]
    return pa.Table.from_pylist(named, REMOVES)


def test_live_files_are_counted_by_partition() -> None:
    one, none = {"day": "1", "country": "de"}, {"country": "", "day": "1"}
    facts = facts_of(
        {"path": "a", "size": 1024, "partitionValues": one},
        {"path": "b", "size": 1100, "partitionValues": dict(reversed(one.items()))},
        {"path": "c", "size": 5000, "partitionValues": none},
        {"path": "d", "size": 0, "partitionValues": {**none, "country": None}},
    )
    reported = {part.label: (part.num_files, part.size_in_bytes) for part in facts.partitions}
    assert reported == {"country=null/day=1": (2, 5000), "country=de/day=1": (2, 2124)}
    assert (facts.num_partitions, facts.median_bytes) == (2, 3562)
    assert facts.largest[0] == ("c", 5000)
    assert facts.smallest[0] == ("d", 0)


def test_partitions_beyond_those_shown_are_counted() -> None:
    rows = [{"path": f"{day}", "size": day, "partitionValues": {"day": f"{day}"}} for day in range(21)]
    facts = facts_of(*rows)
    assert [part.size_in_bytes for part in facts.partitions] == [*range(20, 10, -1)]
    assert (facts.num_partitions, facts.median_bytes) == (21, 10)


def test_too_many_partitions_are_not_counted_but_the_largest_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_facts, "_MAX_PARTITIONS", 3)
    facts = facts_of(*({"path": f"{day}", "size": day, "partitionValues": {"day": f"{day}"}} for day in range(9)))
    assert (facts.num_partitions, facts.median_bytes, facts.compaction) == (None, None, None)
    assert [part.label for part in facts.partitions[:3]] == ["day=8", "day=7", "day=6"]


def test_sums_of_bytes_beyond_64_bits_are_exact() -> None:
    other = {"path": "c", "size": -1, "partitionValues": {"day": "1"}}
    facts = facts_of({"path": "a", "size": LARGEST}, {"path": "b", "size": LARGEST}, other)
    assert [(part.num_files, part.size_in_bytes) for part in facts.partitions] == [(2, 2 * LARGEST), (1, -1)]
    reported = gone_facts(
        {"deletionTimestamp": LARGEST, "size": LARGEST}, {"size": LARGEST}, retention_ms=10, now_ms=10
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
    assert (facts.largest, facts.partitions, facts.num_partitions, facts.compaction) == ((), (), 0, None)


def test_tombstones_expire_after_their_retention() -> None:
    reported = gone_facts(
        {"deletionTimestamp": 100, "size": 5},
        {"deletionTimestamp": 200},
        {"deletionTimestamp": 300, "size": 7},
        retention_ms=1000,
        now_ms=1200,
    )
    assert (reported.size_in_bytes, reported.num_without_size) == (12, 1)
    assert (reported.first_expires_ms, reported.last_expires_ms) == (1100, 1300)
    assert (reported.num_expired, reported.num_expired_without_size, reported.expired_bytes) == (2, 1, 5)
    later = gone_facts({"deletionTimestamp": 100}, retention_ms=1000, now_ms=1099)
    assert (later.num_without_size, later.num_expired_without_size) == (1, 0)
    none = gone_facts(retention_ms=1, now_ms=1)
    assert (none.num_files, none.size_in_bytes, none.first_expires_ms) == (0, 0, None)


def written(
    spark: SparkSession | None, path: Path, commits: list[list[dict[str, Any]]], engine: EngineUse
) -> SnapshotStore:
    write_log(path / "t", dict(enumerate(commits)))
    log = DeltaLog.for_table(spark, path / "t", options=SnapshotOptions(engine=engine))
    store = SnapshotStore.open(spark, path / "store", engine=engine)
    store.write_range("t", log, 0, len(commits) - 1)
    return store


def counted(store: SnapshotStore, version: int, now_ms: int) -> CountedFiles:
    return count_files(store, "t", store.manifest("t", version), store.computed_state("t", version), now_ms)


def partitioned(path: str, day: str | None, size: int) -> dict[str, Any]:
    return add(path, size=size, partitionValues={"day": day, "country": "de"})


@pytest.mark.slow
def test_facts_are_the_same_on_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    at = system_clock()
    first = [protocol(), metadata(partitionColumns=["day", "country"])]
    first += [partitioned(f"{n}", f"{n % 3}", 10 * n) for n in range(12)] + [partitioned("none", "", 5)]
    first += [add("missing", size=6, partitionValues={"country": "de"})]
    second = [remove("1", deletion_timestamp=at - 5, size=10), remove("2", deletion_timestamp=at)]
    third = [partitioned("another", None, 7), remove("4", deletion_timestamp=at + 5, size=LARGEST)]
    store = written(spark, tmp_path, [first, second, third], "spark")
    by_driver = SnapshotStore.open(None, tmp_path / "store")
    week = 7 * 24 * 60 * 60 * 1000
    for now_ms in (at, at + week, at + 2 * week):
        found = counted(store, 2, now_ms)
        assert found == counted(by_driver, 2, now_ms)
    assert [part.label for part in found.files.partitions][-1] == "country=de/day=null"


@pytest.mark.thorough
def test_files_with_deletion_vectors_expire_once_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.retainGroupColumns", "false")  # a user's session may omit columns to group by
    try:
        check_expired_vectors(spark, tmp_path, "spark")
    finally:
        spark.conf.unset("spark.sql.retainGroupColumns")


def test_files_with_deletion_vectors_expire_once_if_not_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)
    check_expired_vectors(None, tmp_path, "auto")


def check_expired_vectors(spark: SparkSession | None, tmp_path: Path, engine: EngineUse) -> None:
    at = system_clock()
    removed = partial(remove, deletion_timestamp=at)

    def vector(number: int) -> dict[str, Any]:
        return {"storageType": "u", "pathOrInlineDv": f"abc{number}", "sizeInBytes": 10, "cardinality": number}

    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    kept = metadata(configuration={"delta.deletedFileRetentionDuration": "interval 1 second"})
    start = [protocol(3, 7, **features), kept, add("live", size=100), add("two", size=10), add("one", size=1)]
    start += [add("unsized", size=7)]
    first = [removed("live", size=100), add("live", size=100, deletionVector=vector(1))]
    first += [removed("two", size=10), add("two", size=10, deletionVector=vector(1))]
    second = [removed("live", size=100, deletionVector=vector(1)), add("li%76e", size=100, deletionVector=vector(2))]
    later = {"deletion_timestamp": at + 500}
    second += [remove("tw%6f", size=10, deletionVector=vector(1), **later), removed("one", size=1), removed("unsized")]
    store = written(spark, tmp_path, [start, first, second], engine)

    def facts(now_ms: int) -> tuple[int, ...]:
        found = counted(store, 2, now_ms).tombstones
        sizes = found.expired_bytes, found.time_travel_bytes or 0
        return found.num_files, found.num_expired, found.num_expired_without_size, *sizes

    assert facts(at + 999) == (6, 0, 0, 0, 11)
    assert facts(at + 1000) == (6, 2, 1, 1, 10)
    if engine == "auto":
        assert facts(at + 1500) == (6, 3, 1, 11, 0)
