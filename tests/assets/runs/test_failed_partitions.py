"""Stored versions that Dagster shows as failed: the schedule and `refresh` record them again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from deltasnap_assets import build_definitions
from deltasnap_assets.runs.planning.known_table import known_of
from deltasnap_assets.runs.planning.names import RANGE_END_TAG, RANGE_START_TAG, run_tags
from deltasnap_assets.runs.planning.partitions import key_of, version_partitions
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.settings.table_settings import ASSET_NAMES
from tests.assets.followed_table import FollowedTable
from tests.driver_bases import use_driver_bases
from tests.fast_dagster import local_instance

FAILED, MATERIALIZED = dg.AssetPartitionStatus.FAILED, dg.AssetPartitionStatus.MATERIALIZED


class Stored(FollowedTable):
    """A table whose versions 0 to 3 are stored and materialized, and the runs of it that fail."""

    def __init__(self, path: Path, instance: dg.DagsterInstance) -> None:
        super().__init__(path)
        self.write(0, 3)
        self.instance = instance
        self.defs = build_definitions(self.settings)
        self.job = self.defs.resolve_job_def("events_snapshots")
        assert self.refresh() == (0, 1, 2, 3)

    def refresh(self) -> tuple[int, ...]:
        return refresh_table(self.defs, self.settings, self.table, self.instance, log_level="CRITICAL")

    def begin(self, first: int, last: int) -> dg.DagsterRun:
        """Return a run of versions that has begun."""
        tags = run_tags("events", first, last)
        return self.instance.create_run_for_job(self.job, status=dg.DagsterRunStatus.STARTED, tags=tags)

    def fail(self, first: int, last: int) -> None:
        """Run versions again. The run fails before its first step."""
        self.instance.report_run_failed(self.begin(first, last))

    def statuses(self, name: str) -> list[dg.AssetPartitionStatus | None]:
        """Return what Dagster shows for the versions 0 to 3 of an asset."""
        keys, partitions = [key_of(version) for version in range(4)], version_partitions("events")
        return [
            *(self.instance.get_status_by_partition(dg.AssetKey(["events", name]), keys, partitions) or {}).values()
        ]

    @property
    def shown(self) -> list[dg.AssetPartitionStatus | None]:
        """What Dagster shows for the versions 0 to 3 of all assets, which is the same for each of them."""
        found = {name: self.statuses(name) for name in ASSET_NAMES}
        assert len({tuple(each) for each in found.values()}) == 1
        return found[ASSET_NAMES[0]]

    @property
    def files(self) -> dict[Path, int]:
        """The files of the stored versions, with their times."""
        folder = self.storage / "events"
        found = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
        return {path: time for path, time in found.items() if path.name != "last_poll.json"}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stored]:
    use_driver_bases(monkeypatch)
    with local_instance(tmp_path) as instance:
        yield Stored(tmp_path / "t", instance)


@pytest.mark.slow
def test_refresh_records_versions_of_a_failed_run_again_without_storing_them_again(table: Stored) -> None:
    stored = table.files
    assert table.shown == [MATERIALIZED] * 4
    table.fail(0, 2)
    assert table.shown == [FAILED, FAILED, FAILED, MATERIALIZED]
    assert table.refresh() == (0, 1, 2)
    assert table.shown == [MATERIALIZED] * 4
    assert table.refresh() == ()
    assert table.files.items() >= stored.items()


@pytest.mark.slow
def test_schedule_requests_versions_of_a_failed_run_again(table: Stored) -> None:
    assert isinstance(table.ask_schedule(), dg.SkipReason)
    table.fail(1, 2)
    (request,) = table.ask_schedule()
    assert (request.tags[RANGE_START_TAG], request.tags[RANGE_END_TAG]) == ("1", "2")
    run = table.begin(1, 2)
    assert table.ask_schedule() == dg.SkipReason(f"Run {run.run_id} of events is in progress.")


@pytest.mark.slow
def test_canceled_run_of_materialized_versions_leaves_nothing_to_record(table: Stored) -> None:
    table.instance.report_run_canceled(table.begin(1, 2))
    assert table.shown == [MATERIALIZED] * 4
    assert isinstance(table.ask_schedule(), dg.SkipReason)


@pytest.mark.slow
def test_failed_version_of_one_asset_is_recorded_again_for_all(table: Stored) -> None:
    key = dg.AssetKey(["events", "tombstones"])
    job = table.defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection={key})
    tags = {"dagster/partition": "1"}
    run = table.instance.create_run_for_job(job, asset_selection=frozenset({key}), tags=tags)
    table.instance.report_run_failed(run)
    assert table.statuses("tombstones") == [MATERIALIZED, FAILED, MATERIALIZED, MATERIALIZED]
    assert table.refresh() == (1,)
    assert table.shown == [MATERIALIZED] * 4


@pytest.mark.slow
def test_failed_version_that_is_not_stored_any_more_is_left_as_it_is(table: Stored) -> None:
    table.store.prune("events", keep=2, min_age_ms=0)
    table.fail(0, 1)
    assert known_of(table.instance, table.table, reads_failed=True).failed == {0, 1}
    assert table.refresh() == (3,)  # only its checks are due, after a failed run
    assert table.statuses("all_files") == [FAILED, FAILED, MATERIALIZED, MATERIALIZED]


@pytest.mark.slow
def test_failed_version_that_the_log_no_longer_has_is_recorded_again(table: Stored) -> None:
    table.checkpoint(2)
    for version in (0, 1):
        table.commit(version).unlink()
    table.fail(0, 3)
    assert table.refresh() == (2, 3, 0, 1)
    assert table.shown == [MATERIALIZED] * 4
