"""Assets materialized alone, late and after others were pruned. The driver writes the bases: no test needs a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

pytest.importorskip("deltalake")

from deltalake import DeltaTable

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.settings.table_settings import ASSET_NAMES
from deltasnap_core import SnapshotStore
from deltasnap_core.errors import StoredVersionNotFoundError, VersionNotFoundError
from tests.assets.tables.assets_builders import QUIET, App, keys, live_paths
from tests.driver_bases import spark  # noqa: F401

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.slow]


def stored_paths(app: App, version: int) -> set[str]:
    key, partition = ["events", "all_files"], str(version)
    files: Any = app.defs.load_asset_value(key, python_type=pa.Table, partition_key=partition, instance=app.instance)
    return {Path(path).name for path in files["path"].to_pylist()}


def test_only_new_versions_are_refreshed(tmp_path: Path) -> None:
    app = App(tmp_path, max_versions_per_run=2)
    app.grow(3)
    ranges: list[range] = []

    def note(versions: range, _: str) -> None:
        if versions not in ranges:
            ranges.append(versions)

    assert app.refresh(on_event=note) == (0, 1, 2)
    assert app.refresh(on_event=note) == ()
    app.grow(4)
    assert app.refresh(on_event=note) == (3,)
    assert ranges == [range(2), range(2, 3), range(3, 4)]


@pytest.mark.parametrize("name", ASSET_NAMES)
def test_each_asset_can_be_materialized_alone(tmp_path: Path, name: str) -> None:
    app = App(tmp_path)
    app.grow(3)
    app.instance.add_dynamic_partitions("events_versions", ["0", "1", "2"])
    job = app.defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=app.instance,
        tags=run_tags("events", 1, 2),
        asset_selection=[dg.AssetKey(["events", name])],
        run_config=QUIET,
    )
    assert result.success
    assert app.materialized(name) == {"1", "2"}
    stored = SnapshotStore.open(None, app.settings.storage).versions("events")
    assert stored == ([] if name == "log_segment" else [1, 2])


def test_versions_cleaned_up_while_a_run_waited_do_not_fail_it(tmp_path: Path) -> None:
    app = App(tmp_path)
    app.grow(12)
    assert app.refresh() == tuple(range(12))
    app.instance.add_dynamic_partitions("events_versions", [str(version) for version in range(12, 25)])
    app.grow(21)
    DeltaTable(app.path).create_checkpoint()
    app.grow(25)
    for version in range(20):
        (app.path / "_delta_log" / f"{version:020d}.json").unlink()
    job = app.defs.resolve_job_def("events_snapshots")
    assert job.execute_in_process(instance=app.instance, tags=run_tags("events", 10, 24), run_config=QUIET).success
    left = {str(version) for version in (*range(12), *range(20, 25))}
    assert set(app.instance.get_dynamic_partitions("events_versions")) == left
    assert {name: app.materialized(name) for name in ASSET_NAMES} == dict.fromkeys(ASSET_NAMES, left)
    with pytest.raises(VersionNotFoundError, match="Available: 20 to 24"):  # a run that has no other version
        job.execute_in_process(instance=app.instance, tags=run_tags("events", 13, 13), run_config=QUIET)


def test_late_version_is_also_stored(tmp_path: Path) -> None:
    app = App(tmp_path, versions="latest")
    app.grow(4)
    assert app.refresh() == (3,)
    app.defs = build_definitions(app.settings)
    app.table = app.table.model_copy(update={"versions": "all"})
    assert app.refresh() == (0, 1, 2)
    assert stored_paths(app, 2) == live_paths(app.path, 2)
    assert list(app.instance.get_dynamic_partitions("events_versions")) == ["0", "1", "2", "3"]
    app.instance.add_dynamic_partitions("events_versions", ["abc"])  # by hand
    app.grow(6)
    assert app.refresh() == (4, 5)
    assert app.materialized("all_files") == keys(6)
    assert list(app.instance.get_dynamic_partitions("events_versions"))[-1] == "5"


def test_pruned_versions_lose_their_partitions_and_remain_done(tmp_path: Path) -> None:
    app = App(tmp_path)
    app.grow(4)
    app.refresh()
    job = app.defs.resolve_job_def("deltasnap_prune")
    config = {"ops": {"deltasnap_prune_store": {"config": {"keep": 2}}}, **QUIET}
    assert job.execute_in_process(instance=app.instance, run_config=config, partition_key="events").success
    assert list(app.instance.get_dynamic_partitions("events_versions")) == ["2", "3"]
    with pytest.raises(StoredVersionNotFoundError):
        app.defs.load_asset_value(["events", "all_files"], partition_key="1")
    assert app.refresh() == ()
    assert stored_paths(app, 2) == live_paths(app.path, 2)
