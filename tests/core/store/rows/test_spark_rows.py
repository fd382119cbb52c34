"""Spark applies commits as the driver does, and reads only the rows of the files that changes affect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.replay.sessions import provider_of
from deltasnap_core.replay.spark.reading.action_reader import ActionReader
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.rules.key_hash import xxhash64
from deltasnap_core.storage.urls import to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.manifest import DataSet, VersionManifest
from deltasnap_core.store.rows import spark_rows as module
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from tests.builders import LOG_PATH, Action, add, remove
from tests.core.store.rows.driver_rows_builders import driver_rows, step
from tests.core.store.rows.spark_rows_builders import (
    LATE,
    OLD,
    base,
    spark_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["base"]

VECTOR = {"storageType": "u", "pathOrInlineDv": "abc", "offset": 1, "sizeInBytes": 10, "cardinality": 3}
COMMITS: list[list[Action]] = [
    [remove("a", deletion_timestamp=LATE, size=1), add("new", size=10)],
    [add("b", size=20, deletionVector=VECTOR), remove("b", deletion_timestamp=LATE), add("c d", size=30)],
    [],
    [remove("new", deletion_timestamp=LATE, size=10), add("expires", size=40)],
]


@pytest.mark.spark
def test_rows_by_key_are_in_small_row_groups_with_statistics_of_the_key(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(0, 25_000, numPartitions=1).selectExpr("-id as key", "id as other")
    (file,) = spark_rows(spark, tmp_path).parquet.write_by_key(rows, "rows")
    footer = pq.read_metadata(tmp_path / file.path)
    groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
    assert [group.num_rows for group in groups] == [10_000, 10_000, 5_000]
    assert [group.column(0).statistics.max for group in groups] == [-15_000, -5_000, 0]
    assert not any(group.column(1).is_stats_set for group in groups)


def reader(spark: SparkSession) -> ActionReader:
    return ActionReader(spark=spark, files=SparkFiles.of(None, provider_of(spark)), log_path=LOG_PATH)


def written(folder: Path, changes: DataSet) -> list[dict[str, Any]]:
    (file,) = changes.files
    return sorted(pq.read_table(folder / file.path).to_pylist(maps_as_pydicts="strict"), key=repr)


def paths(frame: DataFrame | None) -> list[str]:
    assert frame is not None
    return sorted(row[0] for row in frame.selectExpr("coalesce(add.path, remove.path)").collect())


def test_spark_applies_commits_as_the_driver_does(spark: SparkSession, tmp_path: Path, base: VersionManifest) -> None:
    rows, by_driver = spark_rows(spark, tmp_path), driver_rows(tmp_path)
    previous = base
    for first, last in ((1, 2), (3, 4)):
        made = step(previous, f"changes-{last}", *COMMITS[first - 1 : last])
        kept = Retention.after(OLD) if last == 4 else KEEP_ALL
        made = replace(made, retentions={previous.version: KEEP_ALL, **dict.fromkeys(range(first, last + 1), kept)})
        found = rows.apply(made, reader(spark))
        expected = by_driver.apply(replace(made, folder=f"driver-{last}"))
        assert found.deltas == expected.deltas
        assert (found.changes.first, found.changes.last) == (1, last)
        assert written(tmp_path, found.changes) == written(tmp_path, expected.changes)
        previous = replace(previous, version=last, changes=(found.changes,))


def test_step_without_changes_writes_no_file(spark: SparkSession, tmp_path: Path, base: VersionManifest) -> None:
    found = spark_rows(spark, tmp_path).apply(step(base, "changes-1", []), reader(spark))
    assert found.changes == DataSet(first=1, last=1, files=())
    assert [delta.ended["num_of_files"] for delta in found.deltas.values()] == [0]


def test_only_rows_of_changed_and_expiring_files_are_looked_up(
    spark: SparkSession, tmp_path: Path, base: VersionManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark_rows(spark, tmp_path)
    applied = driver_rows(tmp_path).apply(step(base, "changes-1", [add("a", size=2), remove("c d")]))
    changes = rows.changes((applied.changes,), 1)
    touched = sorted(map(xxhash64, ("a", "c d")))
    assert rows.keys_touched_or_expiring(base, changes, KEEP_ALL) == touched
    assert paths(rows.state_of(base, touched)) == ["a", "c%20d"]
    kept = replace(base, min_file_retention_timestamp=OLD - 1)
    expiring = sorted((*touched, xxhash64("expires")))
    assert rows.keys_touched_or_expiring(kept, changes, Retention.after(OLD)) == expiring
    assert rows.keys_touched_or_expiring(kept, None, Retention.after(LATE)) == sorted(
        map(xxhash64, ("expires", "gone"))
    )
    assert rows.keys_touched_or_expiring(kept, None, Retention.after(OLD - 1)) == []
    assert rows.keys_touched_or_expiring(base, changes, Retention.after(OLD)) is None  # those without a time expire too
    monkeypatch.setattr(module, "MAX_KEYS", 2)
    assert rows.keys_touched_or_expiring(base, changes, KEEP_ALL) == touched
    assert rows.keys_touched_or_expiring(kept, changes, Retention.after(OLD)) is None  # too many


@pytest.mark.slow
def test_version_reads_its_changes_up_to_itself(spark: SparkSession, tmp_path: Path, base: VersionManifest) -> None:
    rows = spark_rows(spark, tmp_path)
    applied = driver_rows(tmp_path).apply(step(base, "changes-1-2", [add("x")], [remove("a"), add("y")]))
    manifest = replace(base, version=1, changes=(applied.changes,))
    assert paths(rows.state_of(manifest)) == sorted(["a", "b", "c%20d", "kept", "expires", "lapses", "gone", "x"])
    assert paths(rows.base_of(manifest, [xxhash64("c d")])) == ["c%20d"]


def test_written_folder_has_only_files_with_rows(tmp_path: Path) -> None:
    url = to_url(tmp_path)
    unused: Any = None
    parquet = ParquetFiles(sessions=unused, storage=WritableFiles(url), spark_files=unused, folder=url)
    folder = tmp_path / "base"
    folder.mkdir()
    for name, numbers in {"part-1": [1, 2], "part-0": []}.items():
        pq.write_table(pa.table({"number": pa.array(numbers, pa.int64())}), folder / f"{name}.parquet")
    (folder / ".part-1.parquet.crc").write_bytes(b"1")
    (file,) = parquet._written(f"{url}/base", keep_empty=False)
    assert (file.path, file.size, file.rows) == ("base/part-1.parquet", (folder / "part-1.parquet").stat().st_size, 2)
    assert [path.name for path in folder.iterdir()] == ["part-1.parquet"]
