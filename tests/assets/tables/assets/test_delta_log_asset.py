"""The asset of a log: its observations, runs downstream, and a table that an asset of the project writes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
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
from deltasnap_assets.runs.fleet import asset_of
from deltasnap_assets.runs.planning.known_table import apply_to_instance, known_of, observation_tags, observed_by_hand
from deltasnap_assets.runs.planning.log_status import read_status
from deltasnap_assets.runs.planning.names import CONDITION_TAG, table_key
from deltasnap_assets.runs.planning.plan import plan
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from tests.assets.followed_table import EVENTS
from tests.assets.jobs import skip_message, ticked
from tests.builders import add, commit_info, metadata, mtime_of, protocol, write_log

LOG = table_key(EVENTS)


class Follower:
    """A table, an eager downstream asset, and the automation sensor that requests it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "events"
        self.table = TableSettings(name="events", path=str(self.path))
        self.settings = Settings(storage=str(folder / "store"), tables=(self.table,))
        self.own = build_definitions(self.settings)

        @dg.asset(deps=[LOG], automation_condition=dg.AutomationCondition.eager())
        def report() -> None: ...

        self.defs = dg.Definitions.merge(self.own, dg.Definitions([report]))
        self.instance = dg.DagsterInstance.ephemeral()
        self.cursor: Any = None
        self.run_of: int | None = None

    def write(self, *versions: int) -> None:
        first = [protocol(), metadata()]
        write_log(self.path, {v: [commit_info(), *(first if v == 0 else []), add(f"{v}.parquet")] for v in versions})

    def poll(self) -> None:
        """The effect of a tick, and of the observation at the end of its run."""
        sight = log_of(self.table).status()
        todo = plan(self.table, sight, known_of(self.instance, EVENTS))
        apply_to_instance(self.instance, EVENTS, todo)
        if todo.last not in (None, self.run_of):
            self.run_of = todo.last
            tags = observation_tags(self.instance, self.table, sight.latest, sight.table_id)
            self.instance.report_runless_asset_event(dg.AssetObservation(LOG, tags=tags))

    def requested(self) -> int:
        result = dg.evaluate_automation_conditions(defs=self.defs, instance=self.instance, cursor=self.cursor)
        self.cursor = result.cursor
        if result.total_requested:
            job = self.defs.resolve_implicit_global_asset_job_def()
            job.execute_in_process(instance=self.instance, asset_selection=[dg.AssetKey("report")])
        return result.total_requested

    def observe(self) -> None:
        job = self.own.resolve_implicit_global_asset_job_def()
        config = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
        assert job.execute_in_process(instance=self.instance, asset_selection=[LOG], run_config=config).success

    def observations(self) -> list[dg.AssetObservation]:
        records = self.instance.fetch_observations(LOG, limit=100).records
        return [record.asset_observation for record in records if record.asset_observation is not None]


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


@pytest.mark.slow
def test_eager_asset_is_requested_once_for_each_batch_of_commits(follower: Follower) -> None:
    requested = [follower.requested()]
    for batch in ((0, 1), (2,), (), (3, 4, 5), ()):
        follower.write(*batch)
        follower.poll()
        requested += [follower.requested(), follower.requested()]
    assert requested == [0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0]
    assert [seen.data_version for seen in follower.observations()] == ["5", "2", "1"]


@pytest.mark.slow
def test_manual_observation_records_the_version_and_triggers_nothing_twice(follower: Follower) -> None:
    follower.write(0, 1)
    follower.requested()
    follower.observe()
    assert [follower.requested(), follower.requested()] == [1, 0]
    follower.poll()
    assert follower.requested() == 0
    assert [seen.data_version for seen in follower.observations()] == ["1", "1"]  # by hand, and of the run
    assert known_of(follower.instance, EVENTS).table_id == "table-id"


def test_manual_observation_repeats_the_page_until_there_are_new_commits(follower: Follower) -> None:
    follower.write(0, 1)
    status = log_of(follower.table).status()
    first = observed_by_hand(follower.instance, follower.table, status)
    place: dict[str, Any] = {"table_id": "table-id", "dagster/uri": str(follower.path)}
    of_table = {"deltasnap/generation": "table-id"}
    assert (first.asset_key, first.description) == (LOG, "Latest version: 1")
    times = [{"dagster/last_updated_timestamp": mtime_of(version) / 1000} for version in range(3)]
    assert plain(first.metadata) == {"latest_version": 1, "data_version": 1, **place, **times[1]}
    assert first.tags == {"dagster/data_version": "1", **of_table}
    follower.poll()
    fault = {CONDITION_TAG: "a-fault"}
    page = dg.AssetObservation(
        LOG, description="A page", metadata={"latest_version": 1, "num_rows": 7}, tags={**first.tags, **fault}
    )
    follower.instance.report_runless_asset_event(page)
    again = observed_by_hand(follower.instance, follower.table, status)
    assert (again.description, plain(again.metadata), again.tags) == ("A page", plain(page.metadata), page.tags)
    follower.write(2)
    later = observed_by_hand(follower.instance, follower.table, log_of(follower.table).status())
    assert later.description == "Latest version: 2"
    assert plain(later.metadata) == {"latest_version": 2, "data_version": 2, **place, **times[2]}
    assert later.tags == {"dagster/data_version": "2", **of_table, **fault}


def plain(metadata: Mapping[str, dg.MetadataValue]) -> dict[str, Any]:
    return {name: entry.value for name, entry in metadata.items()}


def test_manual_observation_leaves_a_recreated_table_to_the_next_plan(follower: Follower) -> None:
    follower.write(0, 1)
    follower.poll()
    write_log(follower.path, {0: [commit_info(), protocol(), metadata(table_id="another")]})
    follower.observe()
    known = known_of(follower.instance, EVENTS)
    status, stored = read_status(follower.settings, follower.table)
    planned = plan(follower.table, status, known, stored).observation.tags
    assert known.table_id not in (None, "another")
    assert planned["deltasnap/generation"] == "another"


def test_observation_and_checks_of_the_log_need_no_resource_of_runs(follower: Follower) -> None:
    follower.write(0)
    result = follower.own.resolve_job_def("events_observe").execute_in_process(instance=follower.instance)
    (started,) = (event for event in result.all_events if event.event_type_value == "RESOURCE_INIT_STARTED")
    assert started.message == "Starting initialization of resources [deltasnap_no_inputs, io_manager]."
    names = [each.check_name for each in result.get_asset_check_evaluations()]
    assert names == ["contiguous_log", "readable_checkpoint", "readable_protocol", "fresh_table", "cleanup_orphans"]


@pytest.mark.parametrize(("hours", "passed"), [(1, False), (24 * 365 * 100, True)])
def test_freshness_checks_of_dagster_read_the_last_commit_time(hours: int, passed: bool, follower: Follower) -> None:
    """Also right after the table was observed for the first time: the commit is old."""
    follower.write(0)
    follower.observe()
    checks = dg.build_last_update_freshness_checks(assets=[LOG], lower_bound_delta=timedelta(hours=hours))
    job = dg.define_asset_job("fresh", dg.AssetSelection.checks_for_assets(LOG), executor_def=dg.in_process_executor)
    defs = dg.Definitions.merge(follower.own, dg.Definitions(asset_checks=checks, jobs=[job]))
    result = defs.resolve_job_def("fresh").execute_in_process(instance=follower.instance)
    found = {each.check_name: each.passed for each in result.get_asset_check_evaluations()}
    assert found["freshness_check"] is passed


def test_lineage_alerts_and_the_fleet_follow_the_key_of_the_table(tmp_path: Path) -> None:
    path = str(tmp_path / "events")
    table = TableSettings(name="events", path=path, asset_key="silver/events", deps=("raw/clicks",))
    settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
    graph = build_definitions(settings).resolve_asset_graph()
    own = graph.get(dg.AssetKey(["silver", "events"]))
    assert own.parent_keys == {dg.AssetKey(["raw", "clicks"])}
    assert own.child_keys == {dg.AssetKey(["events", "log_segment"])}
    assert [asset_of(settings, name) for name in ("events", "lost", "no name")] == [
        "silver/events",
        "lost/delta_log",
        None,
    ]


KEY = dg.AssetKey(["silver", "events"])
LOG_CHECKS = {"contiguous_log", "readable_checkpoint", "readable_protocol", "fresh_table", "cleanup_orphans"}
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
def test_attached_table_has_one_definition_with_its_writer_upstream(partitions: Any, tmp_path: Path) -> None:
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


def test_job_of_the_project_evaluates_checks_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
