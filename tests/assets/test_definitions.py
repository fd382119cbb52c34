from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap  # what the UI gets; no public name

from deltasnap_assets.all_definitions import configured_definitions
from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.sensors import MAX_SENSORS
from deltasnap_assets.settings.config import AlertSettings, Settings, SparkSettings
from deltasnap_assets.settings.loading import demo_settings, read_settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.settings.yaml_source import ConfigError
from deltasnap_core import DeltaSnapError
from tests.assets.command.cli_builders import FORKS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def defs() -> dg.Definitions:
    return build_definitions(demo_settings(Path("/nowhere")))


def test_definitions_load_with_the_documented_names(defs: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(defs)
    graph = defs.resolve_asset_graph()
    names = ["all_files", "computed_state", "delta_log", "log_segment", "reconstructed_state", "tombstones"]
    own = [f"events/{name}" for name in names]
    assert sorted(key.to_user_string() for key in graph.get_all_asset_keys()) == [*own, "fleet"]
    assert graph.external_asset_keys == {dg.AssetKey(["events", "delta_log"])}
    assert {key.path[0]: graph.get(key).group_name for key in graph.get_all_asset_keys()} == {
        "events": "events",
        "fleet": "fleet",
    }
    assert {key.path[0]: graph.get(key).partitions_def for key in graph.materializable_asset_keys} == {
        "events": dg.DynamicPartitionsDefinition(name="events_versions"),
        "fleet": None,
    }
    assert defs.resolve_job_def("events_snapshots").run_tags["deltasnap/table"] == "events"
    assert defs.resolve_sensor_def("events_new_commits").minimum_interval_seconds == 8  # of each ten
    assert defs.resolve_schedule_def("events_refresh").cron_schedule == "34 * * * *"


def test_jobs_sensors_and_schedules_are_complete() -> None:
    table = TableSettings(name="events", path="/t")
    defs = build_definitions(
        Settings(storage="/s", tables=(table,), alerts=AlertSettings.model_validate({"urls": ["json://h/x"]}))
    )
    jobs = {job.name: job for job in defs.get_repository_def().get_all_jobs()}
    assert {name: job.executor_def.name for name, job in jobs.items()} == {
        "__ASSET_JOB": "multi_or_in_process_executor",
        **dict.fromkeys(("events_snapshots", "events_observe", "refresh_all_tables"), "in_process"),
        **dict.fromkeys(("deltasnap_fleet", "deltasnap_prune", "deltasnap_checkpoint"), "in_process"),
    }
    by_table = dg.StaticPartitionsDefinition(["events"])
    assert [name for name, job in jobs.items() if job.partitions_def == by_table] == [
        "deltasnap_checkpoint",
        "deltasnap_prune",
    ]
    sensors = [each for each in defs.sensors or () if isinstance(each, dg.SensorDefinition)]
    assert [(each.name, each.minimum_interval_seconds, [job.job_name for job in each.targets]) for each in sensors] == [
        ("events_new_commits", 28, ["events_snapshots", "events_observe"]),
        ("deltasnap_fleet_after_refreshes", 300, ["deltasnap_fleet"]),
        ("deltasnap_alerts", 60, []),
    ]
    schedules = [each for each in defs.schedules or () if isinstance(each, dg.ScheduleDefinition)]
    assert [(each.name, each.job_name, each.cron_schedule) for each in schedules] == [
        ("events_refresh", "events_snapshots", "34 * * * *"),
        ("deltasnap_fleet_hourly", "deltasnap_fleet", "30 * * * *"),
    ]
    statuses = [*(each.default_status for each in sensors), *(each.default_status for each in schedules)]
    assert {status.value for status in statuses} == {"RUNNING"}
    assert {*(defs.resources or {})} == {"deltasnap_pyspark", "snapshots", "snapshot_io_manager"}


def test_sensors_and_schedules_can_wait_until_somebody_starts_them() -> None:
    alerts = AlertSettings.model_validate({"urls": ["json://h/x"]})
    for count in (1, MAX_SENSORS + 1):
        tables = tuple(TableSettings(name=f"t{number}", path=f"/{number}") for number in range(count))
        defs = build_definitions(Settings(storage="/s", tables=tables, alerts=alerts, default_status="stopped"))
        automation: list[Any] = [*(defs.sensors or ()), *(defs.schedules or ())]
        assert {each.default_status.value for each in automation} == {"STOPPED"}


def test_assets_of_a_table_show_their_kinds_and_their_table(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    nodes = {key.to_user_string(): graph.get(key) for key in graph.get_all_asset_keys()}
    assert {name: node.kinds for name, node in nodes.items()} == {
        "events/delta_log": {"deltalake"},
        "events/log_segment": {"json"},
        "events/reconstructed_state": {"pyspark", "parquet"},
        "events/computed_state": {"json"},
        "events/all_files": {"pyspark", "table"},
        "events/tombstones": {"pyspark", "table"},
        "fleet": {"table"},
    }
    own, *others = (
        {"dagster/table_name", "dagster/storage_kind"} & node.metadata.keys()
        for name, node in sorted(nodes.items(), key=lambda each: each[0] != "events/delta_log")
    )
    assert own == {"dagster/table_name", "dagster/storage_kind"}  # Dagster matches assets by these two
    assert others == [set()] * 6
    assert nodes["events/delta_log"].metadata["dagster/uri"] == "/nowhere/.deltasnap/demo/events"
    assert nodes["events/all_files"].backfill_policy == dg.BackfillPolicy.single_run()


@pytest.mark.parametrize("count", [1, MAX_SENSORS + 1], ids=["own sensor", "shared sensor"])
def test_every_asset_of_a_table_is_executed_by_a_job_that_its_sensor_targets(count: int) -> None:
    tables = tuple(TableSettings(name=f"t{number}", path=f"/{number}", refresh=None) for number in range(count))
    defs = build_definitions(Settings(storage="/s", tables=tables))
    (sensor,) = (each for each in defs.sensors or () if "new_commits" in each.name)
    assert isinstance(sensor, dg.SensorDefinition)
    executed = set[dg.AssetKey]()
    for target in sensor.targets:
        executed.update(defs.resolve_job_def(target.job_name).asset_layer.executable_asset_keys)
    assert executed == defs.resolve_asset_graph().get_all_asset_keys() - {dg.AssetKey(["fleet"])}


@pytest.mark.parametrize("name", ["all_files", "tombstones"])
def test_columns_of_file_lists_are_described(name: str, defs: dg.Definitions) -> None:
    metadata = defs.resolve_asset_graph().get(dg.AssetKey(["events", name])).metadata
    for column in metadata["dagster/column_schema"].schema.columns:
        assert column.description, column.name


def test_lineage_connects_the_log_with_the_five_assets(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    parents = {
        key.path[-1]: [parent.path[-1] for parent in graph.get(key).parent_keys] for key in graph.get_all_asset_keys()
    }
    assert parents == {
        "delta_log": [],
        "log_segment": ["delta_log"],
        "reconstructed_state": ["log_segment"],
        "computed_state": ["reconstructed_state"],
        "all_files": ["reconstructed_state"],
        "tombstones": ["reconstructed_state"],
        "fleet": [],
    }


@pytest.mark.parametrize("name", ["context", "in", "type", "schedule", "1", "_", "A_b_9", "fleet", "deltasnap"])
def test_every_valid_name_is_accepted_by_dagster(name: str) -> None:
    tables = (TableSettings(name=name, path="/t"), TableSettings(name=f"{name}_2", path="/u", refresh=None))
    defs = build_definitions(Settings(storage="/s", tables=tables))
    dg.Definitions.validate_loadable(defs)
    assert [schedule.name for schedule in defs.schedules or ()] == [f"{name}_refresh", "deltasnap_fleet_hourly"]


@pytest.mark.slow
def test_tables_with_names_that_end_like_our_own_load_together() -> None:
    endings = (
        *("version", "table", "log", "snapshots", "versions", "refresh", "observe", "prune", "prune_store"),
        *("checkpoint", "checkpoint_log"),
        *("new_commits", "expectations", "version_expectations", "table_expectations", "delta_log", "all_files"),
    )
    names = ["orders", *(f"orders{gap}{ending}" for ending in endings for gap in ("_", "__"))]
    for some in (names[:MAX_SENSORS], names):
        tables = tuple(TableSettings(name=name, path=f"/{name}") for name in some)
        dg.Definitions.validate_loadable(build_definitions(Settings(storage="/s", tables=tables)))


def test_job_of_a_table_named_fleet_has_only_its_assets() -> None:
    tables = (TableSettings(name="fleet", path="/t"),)
    job = build_definitions(Settings(storage="/s", tables=tables)).resolve_job_def("fleet_snapshots")
    assert {key.path[0] for key in job.asset_layer.executable_asset_keys if len(key.path) == 2} == {"fleet"}
    assert dg.AssetKey(["fleet"]) not in job.asset_layer.executable_asset_keys


def test_project_with_an_asset_fleet_can_choose_another_key() -> None:
    @dg.asset
    def fleet() -> None: ...

    own = dg.Definitions([fleet])
    settings = Settings(storage="/s", tables=(TableSettings(name="events", path="/t"),), fleet_asset="lake/all_tables")
    merged = dg.Definitions.merge(build_definitions(settings), own)
    dg.Definitions.validate_loadable(merged)
    job = merged.resolve_job_def("deltasnap_fleet")
    assert job.asset_layer.executable_asset_keys == {dg.AssetKey(["lake", "all_tables"])}
    with pytest.raises(ValueError, match="expected an asset key"):
        Settings(storage="/s", tables=settings.tables, fleet_asset="all tables")


def test_no_asset_of_a_table_has_a_freshness_policy() -> None:
    """Dagster's policies judge materializations: an import of old commits would make a stale table fresh."""
    table = TableSettings(name="fresh", path="/t", checks=CheckSettings(fresh_within_hours=26))
    graph = build_definitions(Settings(storage="/s", tables=(table,))).resolve_asset_graph()
    assert [key for key in graph.get_all_asset_keys() if graph.get(key).freshness_policy is not None] == []


def test_assets_link_to_the_configuration_of_their_table(tmp_path: Path) -> None:
    (tmp_path / "deltasnap.yaml").write_text("tables:\n  - {name: events, path: /t}\n", encoding="utf-8")
    graph = build_definitions(read_settings(tmp_path / "deltasnap.yaml", {})).resolve_asset_graph()
    for key in graph.get_all_asset_keys() - {dg.AssetKey(["fleet"])}:
        (place,) = graph.get(key).metadata["dagster/code_references"].code_references
        assert (place.file_path, place.line_number) == (str(tmp_path / "deltasnap.yaml"), 2)


def test_snapshot_of_the_code_location_has_no_secret() -> None:
    secret = "hunter2hunter2"
    settings = Settings.model_validate(
        {
            "storage": f"s3://{secret}:{secret}@b/store",
            "storage_options": {"secret": secret},
            "spark": {"remote": f"sc://h:1/;token={secret}", "config": {"spark.password": secret}},
            "alerts": {"urls": [f"json://{secret}@h/x"]},
            "tables": [{"name": "a", "path": f"s3://{secret}:{secret}@b/a", "storage_options": {"secret": secret}}],
        }
    )
    repository = build_definitions(settings).get_repository_def()
    snapshot = dg.serialize_value(RepositorySnap.from_def(repository))
    assert '"deltasnap_pyspark"' in snapshot
    assert secret not in snapshot
    assert secret not in repr(settings)


def test_run_can_have_spark_properties_of_its_own() -> None:
    spark = SparkSettings(master="local[2]", config={"spark.driver.memory": "2g", "spark.x": "1"})
    settings = Settings(storage="/s", tables=(TableSettings(name="a", path="/t"),), spark=spark)
    found = list[dict[str, str]]()

    @dg.op(required_resource_keys={"deltasnap_pyspark"})
    def properties(context) -> None:  # type: ignore[no-untyped-def]  # Dagster rejects a string
        found.append(context.resources.deltasnap_pyspark.spark_config)

    @dg.job
    def shows_properties() -> None:
        properties()

    defs = dg.Definitions.merge(build_definitions(settings), dg.Definitions(jobs=[shows_properties]))
    run_config = {"resources": {"deltasnap_pyspark": {"config": {"config": {"spark.driver.memory": "8g"}}}}}
    for config in ({}, run_config):
        defs.resolve_job_def("shows_properties").execute_in_process(run_config=config)
    assert [each["spark.driver.memory"] for each in found] == ["2g", "8g"]
    assert [(each["spark.master"], each["spark.x"]) for each in found] == [("local[2]", "1")] * 2


def test_code_location_of_the_file_has_no_project_resource(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deltasnap.yaml").write_text("spark: {resource: my_spark}\ntables: [{name: a, path: /a}]")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DeltaSnapError, match="my_spark, a resource of a project, which this code location does not"):
        configured_definitions()


@pytest.mark.slow
def test_importing_the_code_location_reads_nothing_and_building_it_starts_no_spark(tmp_path: Path) -> None:
    (tmp_path / "deltasnap.yaml").write_text("tables: [{name: clicks, path: /nowhere/clicks}]", encoding="utf-8")
    script = """
import gc, os, sys
for name in [name for name in sys.modules if name.startswith("deltasnap")]:
    del sys.modules[name]
opened = []
watched = ("open", "os.listdir", "os.scandir")
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event in watched else None)
import deltasnap_assets.definitions as module
assert not [name for name in opened if "deltasnap.yaml" in name or "nowhere" in name], opened
opened.clear()
gc.set_threshold(700, 10, 10)
defs = module.defs
assert defs is module.defs
assert gc.isenabled() and gc.get_threshold() == (700, 10, 10)  # the process is that of the user
os.environ["DELTASNAP_UI"] = "1"
module._configured.cache_clear()
assert module.defs and gc.isenabled() and gc.get_threshold() == (50_000, 10, 10)
assert [name for name in opened if name.endswith("deltasnap.yaml")]
gc.set_threshold(60_000, 9, 8)
module._configured.cache_clear()
assert module.defs and gc.get_threshold() == (60_000, 9, 8)
assert not [name for name in opened if "nowhere" in name], opened
assert defs.resolve_job_def("clicks_snapshots")
from pyspark.sql import SparkSession
assert SparkSession.getActiveSession() is None
"""
    result = FORKS.run(script, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""})
    assert result.returncode == 0, result.stderr


def test_broken_configuration_fails_the_code_location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltasnap_assets import definitions

    (tmp_path / "deltasnap.yaml").write_text("tables: [{name: a-b, path: /x}]", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DELTASNAP_CONFIG", raising=False)
    definitions._configured.cache_clear()
    with pytest.raises(ConfigError, match=r"deltasnap.yaml:1: tables\[0\].name"):
        _ = definitions.defs
    definitions._configured.cache_clear()


def test_dagster_finds_the_definitions_in_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dagster._core.workspace.autodiscovery import loadable_targets_from_python_module

    (tmp_path / "deltasnap.yaml").write_text("tables: [{name: events, path: /t}]", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DELTASNAP_CONFIG", raising=False)
    (target,) = loadable_targets_from_python_module("deltasnap_assets.definitions", str(tmp_path))
    assert target.attribute == "defs"


@pytest.mark.parametrize(("materialize_as", "kind"), [("table", "parquet"), ("view", "table")])
def test_lists_of_files_are_parquet_only_if_they_are_written_as_such(materialize_as: Any, kind: str) -> None:
    table = TableSettings(name="t", path="/t", materialize_as=materialize_as)
    graph = build_definitions(Settings(storage="/s", tables=(table,))).resolve_asset_graph()
    kinds = {name: graph.get(dg.AssetKey(["t", name])).kinds for name in ("all_files", "tombstones", "log_segment")}
    assert kinds == {"all_files": {"pyspark", kind}, "tombstones": {"pyspark", kind}, "log_segment": {"json"}}


def test_owners_tags_and_description_are_passed_to_the_assets() -> None:
    table = TableSettings(
        name="t", path="/t", owners=("ada@example.com", "team:web"), tags={"domain": "web"}, description="Clicks"
    )
    graph = build_definitions(Settings(storage="/s", tables=(table,))).resolve_asset_graph()
    keys = graph.get_all_asset_keys() - {dg.AssetKey(["fleet"])}
    assert {tuple(graph.get(key).owners) for key in keys} == {("ada@example.com", "team:web")}
    assert {graph.get(key).tags["domain"] for key in keys} == {"web"}
    assert graph.get(dg.AssetKey(["t", "delta_log"])).description == "Clicks"
