"""The effect of table observations in Dagster: one downstream run for each batch of commits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.fleet import asset_of
from deltasnap_assets.runs.planning.known_table import apply_to_instance, known_of, observation_tags, observed_by_hand
from deltasnap_assets.runs.planning.log_status import read_status
from deltasnap_assets.runs.planning.names import CONDITION_TAG, table_key
from deltasnap_assets.runs.planning.plan import plan
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from tests.assets.followed_table import EVENTS
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
    assert names == ["contiguous_log", "readable_checkpoint", "readable_protocol", "fresh_table"]


@pytest.mark.parametrize(("hours", "passed"), [(1, False), (24 * 365 * 100, True)])
def test_freshness_checks_of_dagster_read_the_time_of_the_last_commit(
    hours: int, passed: bool, follower: Follower
) -> None:
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
