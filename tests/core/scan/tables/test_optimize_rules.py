"""The rules of OPTIMIZE, without Spark."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.tables.optimize_candidates import OptimizeCandidate, candidates_of_rows
from tests.builders import MemoryLogStore, field, metadata, schema

TARGET = 100
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


def candidates(
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
    (found,) = candidates(twice, file(1, "z"))
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
    found = candidates(*map(file, sizes))
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
    found = [(each.rewritten_files, each.rewritten_bytes, each.files_after) for each in candidates(*files)]
    assert found == ([(rewritten, size, len(sizes) - rewritten + bins)] if rewritten else [])


def test_partition_with_the_largest_reduction_is_first() -> None:
    found = candidates(
        file(1, ""), file(1, None), file(1, "a"), file(1, "a"), *(file(1, "b") for _ in range(3)), file(1, "c"),
        file(2, "d"), file(2, "d"),
    )  # fmt: skip
    assert [each.partition["day"] for each in found] == ["b", "d", "a", None]  # then by bytes, then by statement
    assert found[3].statement == "OPTIMIZE delta.`/t` WHERE `day` IS NULL"


@pytest.mark.parametrize(
    ("deleted", "records", "counts"), [(5, 100, False), (6, 100, True), (1, None, True), (0, 0, False)]
)
def test_file_with_many_deleted_rows_is_a_candidate(deleted: int, records: int | None, counts: bool) -> None:
    found = candidates(file(1), file(2), file(100, deleted=deleted, records=records))
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
    (found,) = candidates(file(1, text), file(1, text), kind=kind, path="s3://lake/a`b")
    assert found.statement == f"OPTIMIZE delta.`s3://lake/a``b` WHERE `day` = {literal}"


def test_statement_names_every_partition_column() -> None:
    values = [("day", "x"), ("region", None), ("hour", "7")]
    small = {**file(1), "partitionValues": values}
    (found,) = candidates(small, small, others=("region", "hour"))
    assert found.statement == "OPTIMIZE delta.`/t` WHERE `day` = 'x' AND `region` IS NULL AND `hour` = '7'"


def test_binary_value_has_no_statement() -> None:
    assert [each.statement for each in candidates(file(1), file(1), kind="binary")] == [None]


def test_deletion_vector_without_cardinality_deletes_no_rows() -> None:
    vectors = [{**file(TARGET * 2, records=10), "deletionVector": {"cardinality": None}} for _ in range(2)]
    assert candidates(*vectors) == ()
    (found,) = candidates(*({**each, "size": 1} for each in vectors))
    assert found.files_with_deletes == 0


def test_numbers_count_the_small_files_and_those_that_are_rewritten() -> None:
    (found,) = candidates(file(TARGET - 1), file(1), file(2), file(TARGET), file(5 * TARGET))
    assert (found.files, found.small_files, found.small_bytes) == (5, 3, TARGET + 2)
    assert (found.rewritten_files, found.rewritten_bytes, found.files_after) == (2, 3, 4)


def test_sums_beyond_64_bits_are_unknown() -> None:
    (found,) = candidates(file(1), file(1), *(file(-(2**63), "x") for _ in range(2)))
    assert (found.small_bytes, found.rewritten_bytes) == (None, 2)


@pytest.mark.parametrize(("size", "total"), [((1 << 62) - 1, (1 << 63) - 2), (1 << 62, None)])
def test_sum_beyond_64_bits_is_unknown(size: int, total: int | None) -> None:
    (found,) = candidates(*(file(size, deleted=90, records=100) for _ in range(2)))
    assert found.rewritten_bytes == total
