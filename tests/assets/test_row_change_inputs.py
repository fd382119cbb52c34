"""Row changes as an input of an asset: since its last run, and of each version."""

# No `from __future__ import annotations` here: Dagster reads the annotations of inputs and rejects strings.
# ruff: noqa: I002

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest

pytestmark = pytest.mark.spark
deltalake = pytest.importorskip("deltalake")
pl = pytest.importorskip("polars")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402

from deltasnap_assets import LatestVersion, build_definitions, load_settings  # noqa: E402
from deltasnap_assets.runs.planning.names import run_tags  # noqa: E402
from deltasnap_assets.runs.planning.partitions import version_partitions  # noqa: E402
from deltasnap_assets.runs.refresh import refresh_table  # noqa: E402
from deltasnap_assets.tables.assets.last_run import LastRunError  # noqa: E402
from deltasnap_core import SnapshotStore  # noqa: E402

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
ENTRY = "deltasnap/row_changes/people"
Rows = list[Any]


class Followed:
    """A table that grows, its assets, and a Dagster instance."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.path, self.instance = folder / "people", instance
        (folder / "deltasnap.yaml").write_text("tables: [{name: people, path: people}]\nstorage: store\n")
        self.settings = load_settings(folder=folder, environment={})
        self.own = build_definitions(self.settings)

    def append(self, *names: str, refresh: bool = True) -> None:
        first = len(deltalake.DeltaTable(str(self.path)).to_pyarrow_table()) if self.path.exists() else 0
        ids = pa.array(range(first, first + len(names)), pa.int64())
        deltalake.write_deltalake(str(self.path), pa.table({"id": ids, "name": [*names]}), mode="append")
        if refresh:
            self.refresh()

    def refresh(self) -> None:
        refresh_table(self.own, self.settings, self.settings.tables[0], self.instance, log_level="CRITICAL")

    def run(self, asset: Any, *, raises: bool = True, **options: Any) -> Any:
        own = dg.Definitions(assets=[asset], jobs=[dg.define_asset_job("own", [asset])])
        job = dg.Definitions.merge(self.own, own).resolve_job_def("own")
        return job.execute_in_process(instance=self.instance, run_config=QUIET, raise_on_error=raises, **options)

    def read(self, asset: dg.AssetsDefinition, **options: Any) -> Rows:
        return list(self.run(asset, **options).output_for_node(asset.node_def.name))


@pytest.fixture
def people(spark: SparkSession, tmp_path: Path) -> Iterator[Followed]:
    with dg.DagsterInstance.ephemeral() as instance:
        followed = Followed(tmp_path, instance)
        followed.append("Ann", "Bo")
        yield followed


def since_last_run(**metadata: Any) -> dict[str, dg.AssetIn]:
    metadata = {"row_changes": "since_last_run", **metadata}
    return {"changes": dg.AssetIn(["people", "all_files"], partition_mapping=LatestVersion(), metadata=metadata)}


def reported(changes: pa.Table) -> Rows:
    names = [name for name in changes.column_names if name != "_commit_timestamp"]
    return sorted(tuple(row[name] for name in names) for row in changes.to_pylist())


def reader(name: str = "mirror", **options: Any) -> dg.AssetsDefinition:
    def read(changes: pa.Table) -> Rows:
        return reported(changes)

    made: dg.AssetsDefinition = dg.asset(name=name, ins=since_last_run(**options.pop("metadata", {})), **options)(read)
    return made


def test_first_run_of_each_asset_gets_all_rows_and_later_ones_the_changes_since_its_last_run(people: Followed) -> None:
    first, second = reader("first"), reader("second")
    assert people.read(first) == [(0, "Ann", "insert", 0), (1, "Bo", "insert", 0)]
    people.append("Cy")
    assert people.read(second) == [(0, "Ann", "insert", 1), (1, "Bo", "insert", 1), (2, "Cy", "insert", 1)]
    assert people.read(first) == [(2, "Cy", "insert", 1)]
    assert people.read(first) == []
    people.append("Di", refresh=False)
    deltalake.DeltaTable(str(people.path)).update({"name": "'Bob'"}, predicate="id = 1")
    people.refresh()
    expected = [(1, "Bo", "delete", 3), (1, "Bob", "insert", 3), (3, "Di", "insert", 2)]
    assert people.read(first) == people.read(second) == expected


@pytest.mark.thorough
def test_key_net_condition_and_columns_work_as_in_row_changes(people: Followed) -> None:
    mirror = reader(metadata={"key": "id", "net": True, "where": "id > 0", "columns": ["name"]})
    assert people.read(mirror) == [("Bo", "insert", 0)]
    table = deltalake.DeltaTable(str(people.path))
    for name in ("x", "Bob"):
        table.update({"name": f"'{name}'"}, predicate="id = 1")
    people.refresh()
    assert people.read(mirror) == [("Bo", "update_preimage", 2), ("Bob", "update_postimage", 2)]


@pytest.mark.thorough
@pytest.mark.parametrize("wanted", [DataFrame, pa.Table, pd.DataFrame, pl.DataFrame, None], ids=str)
def test_changes_have_the_requested_type(people: Followed, wanted: Any) -> None:
    def mirror(changes):  # type: ignore[no-untyped-def]
        assert isinstance(changes, wanted or DataFrame)
        return changes.count() if isinstance(changes, DataFrame) else len(changes)

    if wanted is not None:
        mirror.__annotations__["changes"] = wanted
    asset = dg.asset(ins=since_last_run())(mirror)
    assert people.run(asset).output_for_node("mirror") == 2
    people.append("Cy")
    assert people.run(asset).output_for_node("mirror") == 1


@pytest.mark.thorough
def test_recreated_table_is_an_error_until_the_asset_is_wiped(people: Followed) -> None:
    mirror = reader()
    people.append("Cy")
    people.run(mirror)
    shutil.rmtree(people.path)
    for name in ("Ed", "Flo", "Gus"):
        people.append(name)
    with pytest.raises(LastRunError, match="that run read version 1, which the history of version 2 no longer"):
        people.run(mirror)
    people.instance.wipe_assets([mirror.key])
    assert [row[1] for row in people.read(mirror)] == ["Ed", "Flo", "Gus"]


@pytest.mark.thorough
def test_rolled_back_table_is_an_error_only_if_its_version_was_read(people: Followed) -> None:
    early, late = reader("early"), reader("late")
    people.run(early)
    people.append("Cy")
    people.run(late)
    (people.path / "_delta_log" / f"{1:020d}.json").unlink()
    people.append("Di", refresh=False)
    people.append("Ed")
    assert people.read(early) == [(2, "Di", "insert", 1), (3, "Ed", "insert", 2)]
    with pytest.raises(LastRunError, match="rolled back"):
        people.run(late)


def test_versions_lost_in_the_store_come_from_the_log_or_are_an_error(people: Followed, spark: SparkSession) -> None:
    early, late = reader("early"), reader("late")
    people.run(early)
    people.run(late)
    for name in ("Cy", "Di", "Ed"):
        people.append(name, refresh=False)
    people.refresh()
    SnapshotStore.open(spark, people.settings.storage).prune("people", keep=1)
    assert [row[1:] for row in people.read(early)] == [("Cy", "insert", 1), ("Di", "insert", 2), ("Ed", "insert", 3)]
    for version in (2, 3):
        (people.path / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(LastRunError, match="version 1 is not stored, and the log was rolled back: version 1 in common"):
        people.run(late)
    people.append("Flo")
    with pytest.raises(LastRunError, match="that run read version 3, which the history of version 2 no longer"):
        people.run(early)


def test_changes_of_each_version(people: Followed) -> None:
    seen: dict[int, Rows] = {}
    of_version = {"row_changes": "of_version"}

    @dg.asset(
        ins={"changes": dg.AssetIn(["people", "all_files"], metadata=of_version)},
        partitions_def=version_partitions("people"),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def audit(changes: dict[int, pa.Table]) -> None:
        seen.update({version: reported(rows) for version, rows in changes.items()})

    people.append("Cy")
    deltalake.DeltaTable(str(people.path)).delete("id = 0")
    people.refresh()
    people.run(audit, tags=run_tags("people", 0, 2))
    assert seen == {
        0: [(0, "Ann", "insert", 0), (1, "Bo", "insert", 0)],
        1: [(2, "Cy", "insert", 1)],
        2: [(0, "Ann", "delete", 2)],
    }
    loader = dg.Definitions.merge(people.own).get_asset_value_loader(instance=people.instance)
    with loader:
        found = loader.load_asset_value(
            ["people", "all_files"], partition_key="2", python_type=pa.Table, input_definition_metadata=of_version
        )
    assert reported(found) == seen[2]
