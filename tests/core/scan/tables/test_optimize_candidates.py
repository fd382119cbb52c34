"""The partitions that OPTIMIZE would compact, and its rules."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltasnap_core import DeltaLog, Metadata, SnapshotStore
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.tables.optimize_candidates import OptimizeCandidate, candidates_of_rows
from tests.builders import MemoryLogStore, add, field, metadata, protocol, schema, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET = 100
FIRST = protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"])


def table(path: Path, adds: list[Any], **types: str) -> Path:
    fields = [*(field(name, kind) for name, kind in types.items()), field("id")]
    described = metadata(
        configuration={"delta.targetFileSize": str(TARGET)}, schemaString=schema(*fields), partitionColumns=list(types)
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
def test_packing_follows_the_rule_for_random_sizes_also_beyond_64_bits(spark: SparkSession, tmp_path: Path) -> None:
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


FILES = pa.schema(
    [
        ("size", pa.int64()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("stats", pa.string()),
        ("deletionVector", pa.struct([("cardinality", pa.int64())])),
    ]
)


def file(size: int, day: str | None = "x", *, deleted: int | None = None, records: int | None = None) -> dict[str, Any]:
    return {
        "size": size,
        "partitionValues": [("day", day)],
        "stats": None if records is None else json.dumps({"numRecords": records}),
        "deletionVector": None if deleted is None else {"cardinality": deleted},
    }


def candidates_of(
    *files: dict[str, Any], kind: str = "string", path: str = "file:///t", others: tuple[str, ...] = ()
) -> tuple[OptimizeCandidate, ...]:
    """others: further partition columns, which are strings."""
    kinds = {"day": kind, **dict.fromkeys(others, "string")}
    described = metadata(
        configuration={"delta.targetFileSize": str(TARGET)},
        schemaString=schema(*(field(name, each) for name, each in kinds.items())),
        partitionColumns=list(kinds),
    )
    unused: Any = None
    table = ScannedTable(
        sessions=GivenSession(None),
        table_path=path,
        version=0,
        metadata=Metadata.from_json(described["metaData"]),
        store=MemoryLogStore(),
        spark_files=unused,
    )
    return candidates_of_rows(table, pa.Table.from_pylist(list(files), FILES))


def test_first_of_two_values_of_a_partition_counts() -> None:
    twice = {**file(1), "partitionValues": [("day", "z"), ("day", "q")]}
    (found,) = candidates_of(twice, file(1, "z"))
    assert (found.partition, found.files) == ({"day": "z"}, 2)


PACKING = {
    "one small file": ([5], 0, 0),
    "two that fit": ([50, 50], 2, 1),
    "two that do not": ([60, 60], 0, 0),
    "smallest first": ([70, 10, 40, 20], 3, 1),
    "two bins": ([50, 50, 40, 60, 1], 3, 1),
    "large ones stay": ([1, 1, 100, 5000], 2, 1),
    "sizes that cannot be": ([-5, 1, 2**63 - 1, 2**63 - 1], 2, 1),
}


@pytest.mark.parametrize("case", PACKING)
def test_files_are_packed_up_to_the_target(case: str) -> None:
    sizes, rewritten, bins = PACKING[case]
    found = candidates_of(*map(file, sizes))
    assert [(each.rewritten_files, each.files_after) for each in found] == (
        [(rewritten, len(sizes) - rewritten + bins)] if rewritten else []
    )


@pytest.mark.parametrize(
    ("sizes", "vectors", "rewritten", "size", "bins"),
    [([5], {0}, 1, 5, 1), ([500], {0}, 1, 500, 1), ([60, 70], {1}, 1, 70, 1), ([60, 40, 50], {0, 1, 2}, 3, 150, 2),
     ([500], {}, 0, 0, 0), ([60, 60, 60], {}, 0, 0, 0)],
)  # fmt: skip
def test_single_file_is_rewritten_only_if_it_has_a_deletion_vector(
    sizes: list[int], vectors: set[int], rewritten: int, size: int, bins: int
) -> None:
    files = [file(each, deleted=90 if n in vectors else None, records=100) for n, each in enumerate(sizes)]
    found = [(each.rewritten_files, each.rewritten_bytes, each.files_after) for each in candidates_of(*files)]
    assert found == ([(rewritten, size, len(sizes) - rewritten + bins)] if rewritten else [])


def test_partition_with_the_largest_reduction_is_first() -> None:
    found = candidates_of(
        file(1, ""), file(1, None), file(1, "a"), file(1, "a"), *(file(1, "b") for _ in range(3)), file(1, "c"),
        file(2, "d"), file(2, "d"),
    )  # fmt: skip
    assert [each.partition["day"] for each in found] == ["b", "d", "a", None]  # then by bytes, then by statement
    assert found[3].statement == "OPTIMIZE delta.`/t` WHERE `day` IS NULL"


@pytest.mark.parametrize(
    ("deleted", "records", "counts"), [(5, 100, False), (6, 100, True), (1, None, True), (0, 0, False)]
)
def test_file_with_many_deleted_rows_is_a_candidate(deleted: int, records: int | None, counts: bool) -> None:
    found = candidates_of(file(1), file(2), file(100, deleted=deleted, records=records))
    assert [each.files_with_deletes for each in found] == [int(counts)]


LITERALS = {
    "string": ("it's \\ `x`", r"'it\'s \\ `x`'"),
    "date": ("2026-01-01", "cast('2026-01-01' as date)"),
    "long": ("7", "cast('7' as bigint)"),
    "timestamp": ("2026-01-01 10:00:00", "cast('2026-01-01 10:00:00' as timestamp_ltz)"),
    "decimal(10,2)": ("1.50", "cast('1.50' as decimal(10,2))"),
}


@pytest.mark.parametrize("kind", LITERALS)
def test_statement_has_the_value_of_the_log(kind: str) -> None:
    text, literal = LITERALS[kind]
    (found,) = candidates_of(file(1, text), file(1, text), kind=kind, path="s3://lake/a`b")
    assert found.statement == f"OPTIMIZE delta.`s3://lake/a``b` WHERE `day` = {literal}"


def test_statement_names_every_partition_column() -> None:
    values = [("day", "x"), ("region", None), ("hour", "7")]
    small = {**file(1), "partitionValues": values}
    (found,) = candidates_of(small, small, others=("region", "hour"))
    assert found.statement == "OPTIMIZE delta.`/t` WHERE `day` = 'x' AND `region` IS NULL AND `hour` = '7'"


def test_binary_value_has_no_statement() -> None:
    assert [each.statement for each in candidates_of(file(1), file(1), kind="binary")] == [None]


def test_deletion_vector_without_cardinality_deletes_no_rows() -> None:
    vectors = [{**file(TARGET * 2, records=10), "deletionVector": {"cardinality": None}} for _ in range(2)]
    assert candidates_of(*vectors) == ()
    (found,) = candidates_of(*({**each, "size": 1} for each in vectors))
    assert found.files_with_deletes == 0


def test_numbers_count_the_small_files_and_those_that_are_rewritten() -> None:
    (found,) = candidates_of(file(TARGET - 1), file(1), file(2), file(TARGET), file(5 * TARGET))
    assert (found.files, found.small_files, found.small_bytes) == (5, 3, TARGET + 2)
    assert (found.rewritten_files, found.rewritten_bytes, found.files_after) == (2, 3, 4)


def test_sums_beyond_64_bits_are_unknown() -> None:
    (found,) = candidates_of(file(1), file(1), *(file(-(2**63), "x") for _ in range(2)))
    assert (found.small_bytes, found.rewritten_bytes) == (None, 2)


@pytest.mark.parametrize(("size", "total"), [((1 << 62) - 1, (1 << 63) - 2), (1 << 62, None)])
def test_sum_beyond_64_bits_is_unknown(size: int, total: int | None) -> None:
    (found,) = candidates_of(*(file(size, deleted=90, records=100) for _ in range(2)))
    assert found.rewritten_bytes == total
