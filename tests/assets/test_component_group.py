"""Projects with several components, translated specs, and discovered tables: loaded as Dagster loads them."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext, DefinitionsLoadType
from dagster._core.definitions.repository_definition import RepositoryLoadData
from dagster.components.testing import DefsFolderSandbox, create_defs_folder_sandbox

from deltasnap_assets import DeltaTableSnapshots, DeltaTableSnapshotsComponent
from deltasnap_assets.settings.config import DEFAULT_STORAGE
from deltasnap_core import SnapshotStore
from tests.assets.followed_table import write as write_table
from tests.driver_bases import use_driver_bases

KIND = "deltasnap_assets.DeltaTableSnapshotsComponent"
SHARED_JOBS = ("refresh_all_tables", "deltasnap_prune", "deltasnap_checkpoint", "deltasnap_fleet")
SECRET = "hunter2hunter2"


@pytest.fixture
def project() -> Iterator[DefsFolderSandbox]:
    with create_defs_folder_sandbox() as sandbox:
        yield sandbox


def write(project: DefsFolderSandbox, folder: str, *attributes: dict[str, Any], kind: str = KIND) -> Path:
    """Write a file with a component for each of the attributes. Return its folder."""
    place = project.defs_folder_path / folder
    place.mkdir(parents=True)
    documents = [{"type": kind, "attributes": each} for each in attributes]
    (place / "defs.yaml").write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return place


def built(project: DefsFolderSandbox) -> dg.Definitions:
    with project.build_all_defs() as defs:
        dg.Definitions.validate_loadable(defs)
        return defs


def error_of(project: DefsFolderSandbox) -> str:
    with pytest.raises(Exception, match="Error while") as raised:
        built(project)
    return "".join(traceback.format_exception(raised.value))


def tables(*names: str, **keys: Any) -> dict[str, Any]:
    return {"tables": [{"name": name, "path": name, "refresh": None} for name in names], **keys}


def keys_of(defs: dg.Definitions) -> set[str]:
    return {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}


def names_of(defs: dg.Definitions) -> set[str]:
    named: list[Any] = [*(defs.jobs or ()), *(defs.sensors or ()), *(defs.schedules or ())]
    return {each.name for each in named}


def test_both_names_of_the_component_are_one_class() -> None:
    assert DeltaTableSnapshots is DeltaTableSnapshotsComponent


def test_components_with_one_storage_share_resources_and_the_page_of_all_tables(project: DefsFolderSandbox) -> None:
    first = write(project, "bronze", tables("events"), kind="deltasnap_assets.DeltaTableSnapshots")
    second = write(project, "silver", tables("clicks"), tables("orders"))
    defs = built(project)
    assert {*(defs.resources or {})} == {"deltasnap_pyspark", "snapshots", "snapshot_io_manager"}
    assert {f"{table}/delta_log" for table in ("events", "clicks", "orders")} | {"fleet"} <= keys_of(defs)
    assert {*SHARED_JOBS, "events_snapshots", "clicks_snapshots", "orders_new_commits"} <= names_of(defs)
    prune: Any = defs.resolve_job_def("deltasnap_prune").partitions_def
    assert prune.get_partition_keys() == ["events", "clicks", "orders"]
    graph = defs.resolve_asset_graph()
    uris = [graph.get(dg.AssetKey([name, "delta_log"])).metadata["dagster/uri"] for name in ("events", "clicks")]
    assert uris == [str(first / "events"), str(second / "clicks")]


def test_each_component_has_the_definitions_of_its_own_tables(project: DefsFolderSandbox) -> None:
    write(project, "bronze", tables("events"))
    write(project, "silver", tables("clicks"))
    with project.build_component_tree() as tree:
        found = {name: tree.build_defs(project.defs_folder_path / name) for name in ("bronze", "silver")}
    assert {key.split("/")[0] for key in keys_of(found["bronze"])} == {"events", "fleet"}
    assets: list[Any] = [*(found["silver"].assets or ())]
    assert {asset.key.path[0] for asset in assets} == {"clicks"}


def test_components_with_other_storages_have_keys_of_their_own(project: DefsFolderSandbox) -> None:
    alerts = {"urls": ["json://h/x"]}
    write(project, "bronze", tables("events", alerts=alerts))
    write(project, "silver", tables("clicks", storage="other", alerts=alerts))
    write(project, "third/silver", tables("orders", storage="third"))
    defs = built(project)
    suffixes = ("", "_silver", "_silver_2")
    kinds = ("deltasnap_pyspark", "snapshots", "snapshot_io_manager")
    assert {*(defs.resources or {})} == {f"{kind}{suffix}" for kind in kinds for suffix in suffixes}
    assert {f"fleet{suffix}" for suffix in suffixes} <= keys_of(defs)
    expected = {f"{name}{suffix}" for name in (*SHARED_JOBS, "deltasnap_fleet_hourly") for suffix in suffixes}
    assert expected | {"deltasnap_alerts", "deltasnap_alerts_silver"} <= names_of(defs)
    needed = defs.resolve_assets_def(["clicks", "all_files"]).required_resource_keys
    assert needed == {f"{kind}_silver" for kind in kinds}
    fleet = defs.resolve_job_def("deltasnap_fleet_silver")
    assert fleet.asset_layer.executable_asset_keys == {dg.AssetKey("fleet_silver")}


def test_many_tables_of_several_components_have_a_sensor_for_each(project: DefsFolderSandbox) -> None:
    write(project, "bronze", tables(*(f"a{number}" for number in range(21))))
    write(project, "silver", tables(*(f"b{number}" for number in range(21))))
    names = names_of(built(project))
    assert {"new_commits_every_30_seconds", "new_commits_every_30_seconds_silver"} <= names


@pytest.mark.parametrize(
    ("one", "other", "reported"),
    [
        (
            tables("a", spark={"use": "always"}),
            tables("b", spark={"master": "local[2]"}),
            "bronze/defs.yaml has the same storage",
        ),
        (tables("a"), tables("A"), "several tables have the same name: a"),
    ],
)
def test_components_with_one_storage_that_contradict_each_other_are_an_error(
    one: dict[str, Any], other: dict[str, Any], reported: str, project: DefsFolderSandbox
) -> None:
    write(project, "bronze", one)
    write(project, "silver", other)
    assert reported in error_of(project)


def test_what_components_share_is_given_once(project: DefsFolderSandbox) -> None:
    write(project, "bronze", tables("events"))
    write(project, "silver", tables("clicks", default_status="stopped", fleet_asset="lake/fleet"))
    defs = built(project)
    assert "lake/fleet" in keys_of(defs)
    assert {each.default_status.value for each in defs.sensors or () if isinstance(each, dg.SensorDefinition)} == {
        "STOPPED"
    }


def test_translation_changes_specs_but_not_their_keys(project: DefsFolderSandbox) -> None:
    translation = {"group_name": "lake_{{ table }}", "tags": {"part": "{{ asset }}"}, "metadata": {"x": 1}}
    write(project, "bronze", tables("events", translation=translation))
    graph = built(project).resolve_asset_graph()
    found = graph.get(dg.AssetKey(["events", "all_files"]))
    assert (found.group_name, found.tags["part"], found.metadata["x"]) == ("lake_events", "all_files", 1)
    assert "dagster/column_schema" in found.metadata
    assert graph.get(dg.AssetKey(["events", "delta_log"])).tags["part"] == "delta_log"
    assert graph.get(dg.AssetKey("fleet")).group_name == "fleet"


def test_translation_of_a_key_is_an_error_that_names_the_keys_of_the_table(project: DefsFolderSandbox) -> None:
    write(project, "bronze", tables("events", translation={"key_prefix": "lake"}))
    assert "changes its key or its partitions. For another key, set `asset_key`" in error_of(project)


SUBCLASS = """
import dagster as dg
from deltasnap_assets import DeltaTableAsset, DeltaTableSnapshotsComponent

class LakeTables(DeltaTableSnapshotsComponent):
    def get_asset_spec(self, props: DeltaTableAsset) -> dg.AssetSpec:
        tags = {"lake": props.table.name, "part": props.name}
        return super().get_asset_spec(props).merge_attributes(tags=tags)

@dg.component_instance
def made(_: dg.ComponentLoadContext) -> LakeTables:
    return LakeTables(tables=[{"name": "clicks", "path": "clicks"}])
"""


def test_subclass_changes_specs_in_a_file_and_in_python(project: DefsFolderSandbox) -> None:
    (project.defs_folder_path / "kinds.py").write_text(SUBCLASS, encoding="utf-8")
    write(project, "bronze", tables("events"), kind=f"{project.project_name}.defs.kinds.LakeTables")
    graph = built(project).resolve_asset_graph()
    for table in ("events", "clicks"):
        assert graph.get(dg.AssetKey([table, "tombstones"])).tags["lake"] == table
    clicks = graph.get(dg.AssetKey(["clicks", "delta_log"]))
    assert clicks.metadata["dagster/uri"] == str(project.project_root / "clicks")


@contextmanager
def loading(kept: dict[str, Any] | None = None) -> Iterator[DefinitionsLoadContext]:
    """Load definitions as a code location does, or a process of its runs with what the code location has kept."""
    if kept is None:
        context = DefinitionsLoadContext(DefinitionsLoadType.INITIALIZATION)
    else:
        data = RepositoryLoadData(cacheable_asset_data={}, reconstruction_metadata=kept)
        context = DefinitionsLoadContext(DefinitionsLoadType.RECONSTRUCTION, data)
    before = DefinitionsLoadContext._instance
    DefinitionsLoadContext.set(context)
    try:
        yield context
    finally:
        DefinitionsLoadContext._instance = before


def log_of(folder: Path) -> None:
    (folder / "_delta_log").mkdir(parents=True)


def test_process_of_a_run_gets_the_discovered_tables_of_its_code(project: DefsFolderSandbox, tmp_path: Path) -> None:
    write(project, "bronze", {"discover": [{"path": f"{tmp_path}/*", "tags": {"a": "b"}}]})
    write(project, "silver", tables("events", discover=[{"path": f"{tmp_path}/s/*", "name": "silver_{name}"}]))
    for name in ("one", "s/two"):
        log_of(tmp_path / name)
    expected = {"one/delta_log", "silver_two/delta_log", "events/delta_log"}
    with loading() as context:
        assert expected <= keys_of(built(project))
        kept = dict(context.get_pending_reconstruction_metadata())
    for name in ("three", "s/four"):
        log_of(tmp_path / name)
    with loading(kept):
        defs = built(project)
    assert expected <= keys_of(defs)
    assert not {key for key in keys_of(defs) if "three" in key or "four" in key}
    assert defs.resolve_asset_graph().get(dg.AssetKey(["one", "all_files"])).tags["a"] == "b"
    with loading():
        assert {"three/delta_log", "silver_four/delta_log"} <= keys_of(built(project))


def test_state_has_no_credentials(project: DefsFolderSandbox, tmp_path: Path) -> None:
    options = {"secret": SECRET}
    write(project, "bronze", {"discover": [{"path": f"{tmp_path}/*", "storage_options": {"auto_mkdir": False}}]})
    log_of(tmp_path / "one")
    with loading() as context:
        built(project)
        kept = str(context.get_pending_reconstruction_metadata())
    assert '"/one"' in kept.replace("\\", "")
    assert not {"auto_mkdir", *options} & {*kept.split('"')}


def test_state_in_the_project_is_read_instead_of_the_lake(project: DefsFolderSandbox, tmp_path: Path) -> None:
    state = {"management_type": "LOCAL_FILESYSTEM"}
    (project.project_root / "pyproject.toml").write_text(
        f'[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{project.project_name}"\n'
    )
    write(project, "bronze", tables("events", defs_state=state, discover=[{"path": f"{tmp_path}/*"}]))
    log_of(tmp_path / "one")
    assert "one/delta_log" not in keys_of(built(project))  # nothing was written yet
    with project.build_component_tree() as tree:
        import asyncio

        component = tree.load_component(project.defs_folder_path / "bronze", DeltaTableSnapshotsComponent)
        asyncio.run(component.refresh_state(project.project_root))
    log_of(tmp_path / "two")
    found = keys_of(built(project))
    assert "one/delta_log" in found
    assert "two/delta_log" not in found


@pytest.mark.slow
def test_job_of_each_storage_stores_its_own_tables(project: DefsFolderSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)
    for name, attributes in {
        "bronze": tables("events"),
        "silver": tables("clicks", storage="other"),
        "gold": tables("orders", storage="other"),
    }.items():
        (table,) = attributes["tables"]
        write_table(write(project, name, attributes) / table["name"], 0, 1)
    defs, instance = built(project), dg.DagsterInstance.ephemeral()
    shared = [name for name in names_of(defs) if name.startswith("refresh_all_tables")]
    for name in shared:
        assert defs.resolve_job_def(name).execute_in_process(instance=instance).success
    stores = [SnapshotStore.open(None, project.project_root / each) for each in (DEFAULT_STORAGE, "other")]
    found = [{name: store.versions(name) for name in ("events", "clicks", "orders")} for store in stores]
    assert sorted(found, key=str) == sorted(
        [{"events": [0, 1], "clicks": [], "orders": []}, {"events": [], "clicks": [0, 1], "orders": [0, 1]}], key=str
    )
    assert len(shared) == 2
