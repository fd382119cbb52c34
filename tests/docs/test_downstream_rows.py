"""The asset of the documentation that loads the rows of a version, and then the increment, on a table that grows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa
import pytest

from deltasnap_core import DeltaLog, SnapshotStore
from tests.docs.test_snippets import blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
deltalake = pytest.importorskip("deltalake")


def test_asset_loads_the_rows_and_then_what_came(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"SnapshotStore": SnapshotStore}
    # Relative to the folder where the JVM was started, which is not this one.
    rows = str(tmp_path / "event_rows")
    exec(blocks("library.md", "python")[-1].replace('parquet("event_rows")', f"parquet({rows!r})"), names)
    store = SnapshotStore.open(spark, ".deltasnap/store")
    instance = dg.DagsterInstance.ephemeral()
    loads = []

    def load() -> list[int]:
        log = DeltaLog.for_table(spark, "events")
        store.write_versions("events", log, range(log.update().version + 1))
        upstream = dg.AssetSpec(["events", "all_files"], partitions_def=dg.DynamicPartitionsDefinition(name="versions"))
        result = dg.materialize([names["event_rows"], upstream], instance=instance)
        metadata = result.asset_materializations_for_node("event_rows")[0].metadata
        loads.append((metadata["since"].value, metadata["version"].value))
        return sorted(row.id for row in spark.read.parquet(rows).collect())

    deltalake.write_deltalake("events", pa.table({"id": [1, 2]}))
    assert load() == [1, 2]
    deltalake.write_deltalake("events", pa.table({"id": [3]}), mode="append")
    assert load() == [1, 2, 3]
    deltalake.DeltaTable("events").delete("id = 1")
    assert load() == [2, 3]
    assert loads == [("None", 0), ("0", 1), ("1", 2)]
