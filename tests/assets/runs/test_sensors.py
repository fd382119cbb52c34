from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.runs.plan import ASSET_NAMES
from deltasnap_assets.runs.schedules import refresh_schedule
from deltasnap_assets.runs.sensors import new_commits_sensor
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core.errors import DeltaTableNotFoundError
from tests.builders import add, metadata, protocol, write_log

START, END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


def write(path: Path, first: int, last: int, *, table_id: str = "table-id") -> None:
    versions = {version: [add(f"{version}.parquet")] for version in range(first, last + 1)}
    if first == 0:
        versions[0] = [protocol(), metadata(table_id=table_id), *versions[0]]
    write_log(path, versions)


class Ticks:
    """A sensor ticked by hand: partitions are added and runs succeed at once."""

    def __init__(self, path: Path, **settings: Any) -> None:
        table = TableSettings(name="events", path=str(path), **settings)
        self.sensor = new_commits_sensor(Settings(storage=str(path.with_name("store")), tables=(table,)), table)
        self.instance = dg.DagsterInstance.ephemeral()
        self.cursor: str | None = None

    def tick(self) -> list[tuple[str, str]] | str:
        """The ranges requested, or why there are none."""
        result = self.sensor(dg.build_sensor_context(instance=self.instance, cursor=self.cursor))
        if isinstance(result, dg.SkipReason):
            return result.skip_message or ""
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        for request in result.dynamic_partitions_requests or ():
            if isinstance(request, dg.DeleteDynamicPartitionsRequest):
                for key in request.partition_keys:
                    self.instance.delete_dynamic_partition("events_versions", key)
            else:
                self.instance.add_dynamic_partitions("events_versions", request.partition_keys)
        for event in result.asset_events:
            self.instance.report_runless_asset_event(event)
        ranges = [(request.tags[START], request.tags[END]) for request in result.run_requests or ()]
        for first, last in ranges:
            for version in range(int(first), int(last) + 1):
                for name in ASSET_NAMES:
                    asset = dg.AssetKey(["events", name])
                    self.instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition=str(version)))
        return ranges

    @property
    def partitions(self) -> list[str]:
        return list(self.instance.get_dynamic_partitions("events_versions"))


def test_one_run_is_requested_for_the_range_of_new_versions(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path)
    write(tmp_path, 0, 11)
    assert ticks.tick() == [("0", "11")]
    assert ticks.partitions == [str(version) for version in range(12)]
    assert ticks.tick() == "No new commit of events."
    write(tmp_path, 12, 14)
    assert ticks.tick() == [("12", "14")]
    assert ticks.tick() == "No new commit of events."


def test_backlog_is_worked_off_range_by_range(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path, max_versions_per_run=4)
    write(tmp_path, 0, 9)
    assert [ticks.tick() for _ in range(4)] == [
        [("0", "3")],
        [("4", "7")],
        [("8", "9")],
        "No new commit of events.",
    ]


def test_tick_observes_the_table(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path, versions="latest")
    write(tmp_path, 0, 4)
    assert ticks.tick() == [("4", "4")]
    (record,) = ticks.instance.fetch_observations(dg.AssetKey(["events", "delta_log"]), limit=5).records
    assert record.asset_observation is not None
    assert record.asset_observation.data_version == "4"


def test_sensor_whose_cursor_was_reset_asks_for_nothing_that_is_done(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path)
    write(tmp_path, 0, 4)
    ticks.tick()
    ticks.cursor = None
    assert ticks.tick() == []
    write(tmp_path, 5, 5)
    assert ticks.tick() == [("5", "5")]


def test_table_created_anew_is_followed_from_its_first_version(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path)
    write(tmp_path, 0, 4)
    ticks.tick()
    shutil.rmtree(tmp_path / "_delta_log")
    write(tmp_path, 0, 2, table_id="another")
    assert ticks.tick() == [("0", "2")]
    assert ticks.partitions == ["0", "1", "2"]
    assert ticks.tick() == "No new commit of events."


@pytest.mark.parametrize("last", [2, 4, 6])
def test_restored_table_is_followed_anew_whether_shorter_or_longer(tmp_path: Path, last: int) -> None:
    ticks = Ticks(tmp_path)
    write(tmp_path, 0, 4)
    ticks.tick()
    for version in (3, 4):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    if last > 2:
        write_log(tmp_path, {version: [add(f"other {version}.parquet")] for version in range(3, last + 1)})
    assert ticks.tick() == [("0", str(last))]
    assert ticks.partitions == [str(version) for version in range(last + 1)]
    assert ticks.tick() == "No new commit of events."


def test_missing_table_makes_the_tick_fail(tmp_path: Path) -> None:
    with pytest.raises(DeltaTableNotFoundError):
        Ticks(tmp_path / "absent").tick()


def test_table_with_a_run_under_way_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = Ticks(tmp_path)
    write(tmp_path, 0, 1)
    monkeypatch.setattr("deltasnap_assets.runs.sensors.unfinished_run", lambda instance, name: "run-1")
    assert ticks.tick() == "Run run-1 of events is not finished; its successor takes what is new by then."


def test_schedule_takes_up_what_is_not_materialized(tmp_path: Path) -> None:
    write(tmp_path, 0, 3)
    table = TableSettings(name="events", path=str(tmp_path))
    schedule = refresh_schedule(Settings(storage=str(tmp_path / "store"), tables=(table,)), table, "@daily")
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        for _ in range(2):  # nothing was materialized in between: the same again
            with dg.build_schedule_context(instance=instance) as context:
                requests = schedule(context)
            assert isinstance(requests, list)
            assert [(request.tags[START], request.tags[END]) for request in requests] == [("0", "3")]
        assert list(instance.get_dynamic_partitions("events_versions")) == ["0", "1", "2", "3"]


def test_sensor_without_a_cursor_does_not_observe_again_what_was_observed(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path)
    write(tmp_path, 0, 3)
    ticks.tick()
    ticks.cursor = None
    assert ticks.tick() == []
    assert len(ticks.instance.fetch_observations(dg.AssetKey(["events", "delta_log"]), limit=5).records) == 1
