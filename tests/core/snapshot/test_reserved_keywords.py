"""Tables in sessions whose settings would fail the SQL or the schemas of deltasnap."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore
from deltasnap_core.scan.tables.metadata_tables import NAMES
from tests.builders import add, metadata, protocol, remove, write_log
from tests.conftest import FixedClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

VECTOR = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0", "sizeInBytes": 9}


@pytest.fixture
def strict(spark: SparkSession) -> Iterator[SparkSession]:
    names = {
        "spark.sql.ansi.enforceReservedKeywords": "true",
        "spark.sql.columnNameOfCorruptRecord": "add",
        "spark.sql.retainGroupColumns": "false",
    }
    for name, value in names.items():
        spark.conf.set(name, value)
    yield spark
    for name in names:
        spark.conf.unset(name)


@pytest.mark.spark
def test_tables_are_read_stored_and_checkpointed_in_such_a_session(strict: SparkSession, tmp_path: Path) -> None:
    features = ["deletionVectors"]
    first = [protocol(3, 7, readerFeatures=features, writerFeatures=features), metadata(), add("a"), add("b")]
    table = tmp_path / "t"
    write_log(table, {0: first, 1: [remove("a"), add("a", deletionVector={**VECTOR, "cardinality": 2})], 2: [add("c")]})
    log = DeltaLog.for_table(strict, table, clock=FixedClock(), options=SnapshotOptions(engine="spark"))
    tables = log.snapshot.tables
    for name in NAMES:
        tables.create_view(name)
        assert strict.table(name).toArrow().num_rows >= 0
    assert tables.partitions.columns[:2] == ["partition", "files"]
    assert tables.vacuum_candidates(list_files=True).count() == 0
    store = SnapshotStore.open(strict, str(tmp_path / "store"))
    store.write_range("t", log, 0, 2)
    assert store.all_files("t", 2).count() == log.snapshot.scan("id > 1").files.count() == 3
    assert store.file_breakdown("t", 2).num_partitions == 1
    assert log.file_changes(0, 2).summary.added_files == 2
    assert log.checkpoint().is_new
