"""The assets of the documentation that load an increment, on tables that grow."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa
import pytest

from deltasnap_assets import build_definitions, load_settings
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_core import DeltaLog, SnapshotStore
from tests.docs.snippets_builders import blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
deltalake = pytest.importorskip("deltalake")


@pytest.mark.thorough
def test_asset_loads_all_rows_and_then_only_new_ones(
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
    shutil.rmtree("events")
    for number in range(4, 9):
        deltalake.write_deltalake("events", pa.table({"id": [number]}), mode="append")
    assert load() == [4, 5, 6, 7, 8]  # of another table, which appended only


def test_asset_gets_the_changes_since_its_last_run_as_documented(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deltasnap.yaml").write_text("tables: [{name: people, path: people}]\nstorage: store\n")
    settings, path = load_settings(folder=tmp_path, environment={}), str(tmp_path / "people")
    names: dict[str, Any] = {}
    exec(next(block for block in blocks("library.md", "python") if "since_last_run" in block), names)
    own = build_definitions(settings)
    job = dg.Definitions(
        jobs=[dg.define_asset_job("own", [names["changes_of_people"]])], assets=[names["changes_of_people"]]
    )
    instance = dg.DagsterInstance.ephemeral()

    def run() -> str:
        refresh_table(own, settings, settings.tables[0], instance, log_level="CRITICAL")
        quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        capsys.readouterr()
        merged = dg.Definitions.merge(own, job).resolve_job_def("own")
        assert merged.execute_in_process(instance=instance, run_config=quiet).success
        return capsys.readouterr().out

    deltalake.write_deltalake(path, pa.table({"id": [1, 2], "name": ["Ann", "Bo"]}))
    printed = [run()]
    deltalake.DeltaTable(path).update({"name": "'Bob'"}, predicate="id = 2")
    deltalake.write_deltalake(path, pa.table({"id": [3], "name": ["Cy"]}), mode="append")
    printed.append(run())
    assert printed == blocks("library.md", "text")
