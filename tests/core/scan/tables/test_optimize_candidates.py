"""The partitions that OPTIMIZE would compact."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core import DeltaLog, SnapshotStore
from tests.builders import add, field, metadata, protocol, schema, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET = 100
FIRST = protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"])


def table(path: Path, adds: list[Any], **types: str) -> Path:
    fields = [*(field(name, kind) for name, kind in types.items()), field("id")]
    described = metadata(
        configuration={"delta.targetFileSize": str(TARGET)},
        schemaString=schema(*fields),
        partitionColumns=list(types),
    )
    write_log(path, {0: [FIRST, described, *adds]})
    return path


def candidates(spark: SparkSession, path: Path) -> list[dict[str, Any]]:
    """The rows of the metadata table. Both engines find the same values."""
    log = DeltaLog.for_table(spark, path)
    rows = [row.asDict(recursive=True) for row in log.update().tables.optimize_candidates.collect()]
    folder = path.parent / f"store of {path.name}"
    spark_store = SnapshotStore.open(spark, folder, engine="spark")
    spark_store.write_range("t", log, 0, 0)
    for store in (spark_store, SnapshotStore.open(None, folder)):
        found = [asdict(candidate) for candidate in store.tables("t", 0).optimize_candidate_values()]
        assert [without_partition(each) for each in found] == [without_partition(row) for row in rows]
    return rows


def without_partition(row: dict[str, Any]) -> dict[str, Any]:
    """The metadata table has typed values, a candidate has text."""
    return {name: value for name, value in row.items() if name != "partition"}


def with_deletes(path: str, *, size: int, deleted: int | None, records: int | None, **fields: Any) -> Any:
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": deleted}
    stats = {} if records is None else {"stats": json.dumps({"numRecords": records})}
    return add(path, size=size, deletionVector=vector, **stats, **fields)


def packed(files: list[tuple[int, bool]]) -> tuple[int, int, int]:
    """The rewritten files and bytes, and the resulting files: the rule of OPTIMIZE, in Python.

    files: size, and whether it has a deletion vector.
    """
    bins: list[list[tuple[int, bool]]] = [[]]
    for size, has_vector in sorted(files):
        if sum(other for other, _ in bins[-1]) + size > TARGET:
            bins.append([])
        bins[-1].append((size, has_vector))
    merged = [each for each in bins if len(each) > 1 or (each and each[0][1])]
    return sum(map(len, merged)), sum(size for each in merged for size, _ in each), len(merged)


@pytest.mark.spark
def test_small_files_are_packed_into_files_of_the_target_size(spark: SparkSession, tmp_path: Path) -> None:
    sizes = {"2026-01-01": [10, 20, 30, 99, 100, 500], "2026-01-02": [5], "2026-01-03": [60, 60], None: [1, 1]}
    adds = [
        add(f"{day}-{number}", size=size, partitionValues={"day": day})
        for day, found in sizes.items()
        for number, size in enumerate(found)
    ]
    path = table(tmp_path / "a`b c", adds, day="string")
    quoted = f"delta.`{tmp_path}/a``b c`"
    assert candidates(spark, path) == [
        {
            "partition": {"day": "2026-01-01"},
            "files": 6,
            "small_files": 4,
            "small_bytes": 159,
            "files_with_deletes": 0,
            "rewritten_files": 3,
            "rewritten_bytes": 60,
            "files_after": 4,
            "statement": f"OPTIMIZE {quoted} WHERE `day` = '2026-01-01'",
        },
        {
            "partition": {"day": None},
            "files": 2,
            "small_files": 2,
            "small_bytes": 2,
            "files_with_deletes": 0,
            "rewritten_files": 2,
            "rewritten_bytes": 2,
            "files_after": 1,
            "statement": f"OPTIMIZE {quoted} WHERE `day` IS NULL",
        },
    ]


@pytest.mark.slow
def test_packing_follows_the_rule_for_random_sizes_and_for_those_beyond_64_bits(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(7)
    files_of = {
        str(number): [(chance.randrange(0, 130), chance.random() < 0.3) for _ in range(chance.randrange(1, 30))]
        for number in range(60)
    }
    adds = [
        with_deletes(f"{name}-{number}", size=size, deleted=1, records=100, partitionValues={"n": name})
        if has_vector
        else add(f"{name}-{number}", size=size, partitionValues={"n": name})
        for name, files in files_of.items()
        for number, (size, has_vector) in enumerate(files)
    ]
    adds += [
        add(f"impossible-{number}", size=size, partitionValues={"n": "impossible"})
        for number, size in enumerate([-5, 2**63 - 1, 2**63 - 1, 1])
    ]
    adds += [add(f"negative-{n}", size=-(2**63), partitionValues={"n": "negative"}) for n in range(2)]
    adds += [
        with_deletes(f"huge-{n}", size=1 << 62, deleted=90, records=100, partitionValues={"n": "huge"})
        for n in range(2)
    ]
    adds += [
        with_deletes(f"unknown-{size}", size=size, deleted=None, records=10, partitionValues={"n": "unknown"})
        for size in (1, 2, 500)
    ]
    reported = {row["partition"]["n"]: row for row in candidates(spark, table(tmp_path / "t", adds, n="string"))}
    gains = [row["files"] - row["files_after"] for row in reported.values()]
    assert gains == sorted(gains, reverse=True)
    impossible, unknown = reported["impossible"], reported["unknown"]
    assert (impossible["rewritten_files"], impossible["files_after"]) == (2, 3)
    assert (unknown["files_with_deletes"], unknown["rewritten_files"]) == (0, 2)
    assert reported["huge"]["rewritten_bytes"] is None
    assert reported["negative"]["small_bytes"] is None
    for name, found in files_of.items():
        rewritten, size, bins = packed([each for each in found if each[0] < TARGET])
        if not rewritten:
            assert name not in reported
            continue
        row = reported[name]
        assert (row["rewritten_files"], row["rewritten_bytes"]) == (rewritten, size)
        assert row["files_after"] == len(found) - rewritten + bins


VALUES = {
    "string": ["a", "it's", "back\\slash", "`x`", "a\nb", "Zürich", "%20", "' or 1=1 --"],
    "date": ["2026-01-01", "0001-01-01"],
    "timestamp": ["2026-03-29 02:30:00.123456", "2026-10-25T00:30:00.000000Z"],
    "timestamp_ntz": ["2026-03-29 02:30:00.123456"],
    "integer": ["-7"],
    "boolean": ["true"],
    "double": ["0.1", "NaN", "-Infinity"],
    "float": ["0.1"],
    "decimal(38,18)": ["0.000000000000000001", "-12.5"],
}


@pytest.mark.slow
def test_values_in_statements_are_escaped(spark: SparkSession, tmp_path: Path) -> None:
    adds = [add(f"{number}", size=1, partitionValues={"p": "it's \\n"}) for number in range(2)]
    log = DeltaLog.for_table(spark, table(tmp_path / "t", adds, p="string"))
    (found,) = log.update().tables.optimize_candidates.collect()
    assert found.statement.partition(" WHERE ")[2] == r"`p` = 'it\'s \\n'"


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("kind", VALUES)
def test_statement_selects_exactly_the_partition(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    adds = [
        add(f"{number}-{copy}", partitionValues={"a b": value})
        for number, value in enumerate([*VALUES[kind], None])
        for copy in range(2)
    ]
    path = table(tmp_path / "t", adds, **{"a b": kind})
    tables = DeltaLog.for_table(spark, path).update().tables
    candidates(spark, path)
    found = tables.optimize_candidates.collect()
    assert len(found) == len(VALUES[kind]) + 1
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")  # not that of the statements
    try:
        live = tables.files.select("partition.*")
        partitions = spark.createDataFrame(live.collect(), live.schema)
        selected = [partitions.where(row.statement.partition(" WHERE ")[2]).collect() for row in found]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    values = [[repr(each[0]) for each in rows] for rows in selected]
    assert [len(each) for each in values] == [2] * len(found)
    assert all(first == second for first, second in values)
    assert len({first for first, _ in values}) == len(found)
