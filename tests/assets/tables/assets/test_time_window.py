"""Assets with daily partitions get the versions that were committed on their day. The driver stores the versions."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets import build_definitions, versions_of_time_window
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import DeltaSnapError
from tests.builders import add, commit_info, metadata, protocol, write_log
from tests.driver_bases import use_driver_bases

DAYS = dg.DailyPartitionsDefinition("2026-03-01", end_offset=1)


def ms(day: int, hour: int = 0, minute: int = 0) -> int:
    return int(datetime(2026, 3, day, hour, minute, tzinfo=UTC).timestamp() * 1000)


class Project:
    """A table with commits of these times (ms), and an asset with partitions."""

    def __init__(self, folder: Path, times: list[int], *, in_commit: bool = False) -> None:
        self.table = TableSettings(name="events", path=str(folder / "events"))
        self.settings = Settings(storage=str(folder / "store"), tables=(self.table,))
        self.instance = dg.DagsterInstance.ephemeral()
        enabled = {"delta.enableInCommitTimestamps": "true"} if in_commit else {}
        features = {"readerFeatures": [], "writerFeatures": ["inCommitTimestamp"]} if in_commit else {}
        start = [protocol(3, 7, **features) if in_commit else protocol(), metadata(configuration=enabled)]
        actions = {
            version: [
                *([commit_info(inCommitTimestamp=time)] if in_commit else []),
                *(start if version == 0 else []),
                add(f"{version}"),
            ]
            for version, time in enumerate(times)
        }
        log = write_log(folder / "events", actions)
        for version, time in enumerate(times):
            seconds = ms(20) / 1000 if in_commit else time / 1000
            os.utime(log / f"{version:020d}.json", (seconds, seconds))

    def versions(
        self, *days: str, table: str = "events", keys: Any = frozenset({"snapshots"}), partitions: Any = DAYS
    ) -> tuple[int, ...]:
        """Return the versions that an asset gets in a run of these days, in one step."""
        found = list[tuple[int, ...]]()

        @dg.asset(
            partitions_def=partitions, required_resource_keys=set(keys), backfill_policy=dg.BackfillPolicy.single_run()
        )
        def daily(context) -> None:  # type: ignore[no-untyped-def]  # Dagster rejects a string
            found.append(versions_of_time_window(context, table))

        defs = dg.Definitions.merge(
            build_definitions(self.settings), dg.Definitions([daily], jobs=[dg.define_asset_job("own", [daily])])
        )
        tags = {"dagster/asset_partition_range_start": days[0], "dagster/asset_partition_range_end": days[-1]}
        defs.resolve_job_def("own").execute_in_process(instance=self.instance, tags=tags)
        return found[0]

    def refresh(self) -> None:
        defs = build_definitions(self.settings)
        refresh_table(defs, self.settings, self.table, self.instance, log_level="ERROR")


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)


@pytest.mark.parametrize("in_commit", [False, True], ids=["modification times", "in-commit timestamps"])
def test_asset_gets_the_versions_of_its_day_to_the_last_millisecond(tmp_path: Path, in_commit: bool) -> None:
    times = [ms(1, 23, 59), ms(2), ms(2, 12), ms(3) - 1, ms(3), ms(5)]
    project = Project(tmp_path, times, in_commit=in_commit)
    project.refresh()
    days = [project.versions(f"2026-03-0{day}") for day in (1, 2, 3, 4, 5, 6)]
    assert days == [(0,), (1, 2, 3), (4,), (), (5,), ()]
    assert project.versions("2026-03-02", "2026-03-03", "2026-03-04") == (1, 2, 3, 4)


def test_commit_whose_file_has_an_earlier_time_belongs_to_the_day_of_the_commit_before(tmp_path: Path) -> None:
    project = Project(tmp_path, [ms(1), ms(3), ms(2), ms(3, 1)])  # version 2: copied, for example
    project.refresh()
    assert [project.versions(f"2026-03-0{day}") for day in (1, 2, 3)] == [(0,), (), (1, 2, 3)]


def test_day_of_a_table_that_was_never_stored_has_no_versions(tmp_path: Path) -> None:
    assert Project(tmp_path, [ms(1)]).versions("2026-03-01") == ()


def test_window_is_that_of_the_time_zone_of_the_partitions(tmp_path: Path) -> None:
    project = Project(tmp_path, [ms(2, 4), ms(2, 6)])
    project.refresh()
    partitions = dg.DailyPartitionsDefinition("2026-03-01", timezone="America/New_York", end_offset=1)
    assert [project.versions(f"2026-03-0{day}", partitions=partitions) for day in (1, 2)] == [(0,), (1,)]


@pytest.mark.parametrize(
    ("table", "keys", "reported"),
    [
        ("events", {"io_manager"}, 'the step has no such resource: add required_resource_keys={"snapshots"}'),
        ("clicks", {"snapshots"}, "the step has no table clicks"),
    ],
)
def test_step_without_the_table_is_reported(tmp_path: Path, table: str, keys: Any, reported: str) -> None:
    with pytest.raises(DeltaSnapError, match=reported.replace("{", r"\{")):
        Project(tmp_path, [ms(1)]).versions("2026-03-01", table=table, keys=keys)
