"""A table that an asset of the project writes: its checks, its observations and its lineage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_assets.command import doctor
from deltasnap_assets.command.local import local_instance
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.attached import missing_assets
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from tests.assets.jobs import skip_message, ticked

KEY = dg.AssetKey(["silver", "events"])
LOG_CHECKS = {"contiguous_log", "readable_checkpoint", "readable_protocol", "fresh_table"}
DAYS = dg.DailyPartitionsDefinition("2026-01-01")
QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}


class Project:
    """A project with an asset that writes a table with `deltalake`, and an eager asset downstream of it."""

    def __init__(self, folder: Path, *, partitions: Any = None, has_writer: bool = True, **settings: Any) -> None:
        self.path = folder / "events"
        values = {"name": "events", "path": str(self.path), "asset_key": "silver/events", "attach": True, **settings}
        self.table = TableSettings.model_validate(values)
        self.settings = Settings(storage=str(folder / "store"), tables=(self.table,))
        self.own = build_definitions(self.settings)

        @dg.asset(key=KEY, partitions_def=partitions)
        def writer() -> None:
            write_deltalake(self.path, pa.table({"id": [1]}), mode="append")

        @dg.asset(deps=[KEY], automation_condition=dg.AutomationCondition.eager())
        def report() -> None: ...

        self.assets = [writer, report] if has_writer else []
        self.defs = dg.Definitions.merge(self.own, dg.Definitions(assets=self.assets, executor=dg.in_process_executor))
        self.instance = dg.DagsterInstance.ephemeral()

    def write(self, **options: Any) -> dg.ExecuteInProcessResult:
        """Run a job of the project that materializes the asset of the table, with all its checks, and what follows."""
        selection = dg.AssetSelection.assets(KEY, "report")
        job = dg.define_asset_job("own", selection, executor_def=dg.in_process_executor)
        defs = dg.Definitions.merge(self.defs, dg.Definitions(jobs=[job]))
        return defs.resolve_job_def("own").execute_in_process(instance=self.instance, run_config=QUIET, **options)

    def events(self, name: str) -> list[dg.DagsterEvent]:
        """All events about the asset of the table: of a kind, in order."""
        kind = dg.DagsterEventType(name)
        records = self.instance.get_event_records(dg.EventRecordsFilter(kind, asset_key=KEY))
        return [each.event_log_entry.dagster_event for each in records if each.event_log_entry.dagster_event]


@pytest.mark.parametrize(
    "partitions",
    [None, DAYS, dg.StaticPartitionsDefinition(["a"]), dg.DynamicPartitionsDefinition(name="other")],
    ids=["none", "daily", "static", "dynamic"],
)
def test_attached_table_has_one_definition_and_its_lineage_starts_at_the_writer(
    partitions: Any, tmp_path: Path
) -> None:
    project = Project(tmp_path, partitions=partitions, key_prefix="deltasnap", group="silver")
    dg.Definitions.validate_loadable(project.defs)
    own = [each for each in project.own.assets or () if isinstance(each, dg.AssetsDefinition)]
    assert KEY not in {key for each in own for key in each.keys}
    graph = project.defs.resolve_asset_graph()
    assert graph.get(KEY).is_materializable
    segment = dg.AssetKey(["deltasnap", "events", "log_segment"])
    assert graph.get(segment).parent_keys == {KEY}
    assert graph.get(segment).group_name == "silver"
    assert {key.name for key in graph.get(KEY).check_keys} == LOG_CHECKS


def test_job_of_the_project_evaluates_the_checks_of_the_log_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", "")
    project = Project(tmp_path)
    result = project.write()
    assert result.success
    found = {each.check_name: (each.passed, each.asset_key) for each in result.get_asset_check_evaluations()}
    assert found == dict.fromkeys(LOG_CHECKS, (True, KEY))
    started = [event.message or "" for event in result.all_events if event.event_type_value == "RESOURCE_INIT_STARTED"]
    assert [message for message in started if "pyspark" in message or "snapshots" in message] == []
    poll = store_of(project.settings).polls.read("events")
    assert poll is not None
    assert (poll.latest_version, poll.problems) == (0, ())


@pytest.mark.slow
def test_run_of_a_partition_of_the_writer_evaluates_the_checks(tmp_path: Path) -> None:
    project = Project(tmp_path, partitions=DAYS)
    job = dg.define_asset_job("own", dg.AssetSelection.assets(KEY), executor_def=dg.in_process_executor)
    defs = dg.Definitions.merge(project.defs, dg.Definitions(jobs=[job]))
    result = defs.resolve_job_def("own").execute_in_process(
        instance=project.instance, partition_key="2026-01-02", run_config=QUIET
    )
    assert {each.check_name for each in result.get_asset_check_evaluations()} == LOG_CHECKS


@pytest.mark.parametrize("blocking", [False, True])
def test_blocking_check_of_the_log_stops_what_follows_in_the_same_run(blocking: bool, tmp_path: Path) -> None:
    project = Project(tmp_path, checks={"contiguous_log": {"blocking": blocking}})
    for _ in range(4):
        write_deltalake(project.path, pa.table({"id": [1]}), mode="append")
    (project.path / "_delta_log" / f"{2:020d}.json").write_bytes(b"{nope\n")

    @dg.asset(key=KEY)
    def writer() -> None: ...  # the table is broken

    project.defs = dg.Definitions.merge(project.own, dg.Definitions(assets=[writer, project.assets[1]]))
    result = project.write(raise_on_error=False)
    failed = {each.check_name: each.severity.value for each in result.get_asset_check_evaluations() if not each.passed}
    assert failed == {"contiguous_log": "ERROR"}
    done = {str(event.asset_key) for event in result.get_asset_materialization_events()}
    assert (str(dg.AssetKey("report")) in done) != blocking


@pytest.mark.spark
@pytest.mark.slow
def test_observations_go_to_the_asset_of_the_project_and_materializations_stay_its_own(tmp_path: Path) -> None:
    project, requested, cursor = Project(tmp_path), [], None

    def evaluate() -> None:
        nonlocal cursor
        result = dg.evaluate_automation_conditions(defs=project.defs, instance=project.instance, cursor=cursor)
        cursor = result.cursor
        requested.append(result.total_requested)

    evaluate()
    project.write()
    evaluate()
    project.write()
    DeltaTable(project.path).optimize.z_order(["id"])
    refresh_table(project.own, project.settings, project.table, project.instance, log_level="ERROR")
    evaluate()
    (observed,) = project.events("ASSET_OBSERVATION")
    observation = observed.asset_observation_data.asset_observation
    assert {name: observation.metadata[name].value for name in ("latest_version", "data_version")} == {
        "latest_version": 2,
        "data_version": 1,
    }
    assert len(project.events("ASSET_MATERIALIZATION")) == 2  # those of the writer
    evaluate()
    DeltaTable(project.path).optimize.z_order(["id"])
    refresh_table(project.own, project.settings, project.table, project.instance, log_level="ERROR")
    evaluate()
    assert requested[-2:] == [0, 0]  # observations never start what is downstream
    assert project.instance.get_materialized_partitions(dg.AssetKey(["events", "all_files"])) == {"0", "1", "2", "3"}


def test_sensor_and_doctor_say_that_the_asset_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path, has_writer=False)
    write_deltalake(project.path, pa.table({"id": [1]}))
    there, absent = Project(tmp_path), project.own.get_repository_def()
    expected = "The asset silver/events, to which events is attached, is not defined: define it in your project"
    (text,) = missing_assets(project.instance, [project.table], absent)
    assert text.startswith(expected)
    assert [*missing_assets(project.instance, [project.table], there.defs.get_repository_def())] == []
    sensor = project.own.get_sensor_def("events_new_commits")
    with dg.build_sensor_context(instance=project.instance, repository_def=absent) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    assert len(result.run_requests or ()) == 1
    for version in ("0",):
        for key in (spec.key for spec in project.own.resolve_all_asset_specs() if spec.key.path[0] == "events"):
            project.instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=version))
    project.instance.add_dynamic_partitions("events_versions", ["0"])
    assert skip_message(ticked(sensor, project.instance, result.cursor)).startswith("The asset silver/events, to which")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    local_instance.use_local_instance()
    found = [finding.message for finding in doctor._runs(project.settings) if finding.subject == "assets"]
    assert [message.partition(":")[0] for message in found] == [
        "The asset silver/events, to which events is attached, was never materialized"
    ]
    project.instance.report_runless_asset_event(dg.AssetMaterialization(KEY))  # by another code location
    assert [*missing_assets(project.instance, [project.table], absent)] == []
