"""Runs whose processes do not share the folder of the store with the ticks."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
import pytest

from deltasnap_assets import build_definitions
from deltasnap_assets.runs.planning.names import RANGE_END_TAG, RANGE_START_TAG
from deltasnap_assets.runs.sensors import new_commits_sensor
from tests.assets.followed_table import FollowedTable
from tests.assets.jobs import idle_job, skip_message, ticked
from tests.driver_bases import use_driver_bases
from tests.fast_dagster import local_instance

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class Deployment(FollowedTable):
    """A table whose ticks use one store. Its runs use another one, or the same."""

    def __init__(self, path: Path, instance: dg.DagsterInstance, *, is_shared: bool) -> None:
        super().__init__(path)
        self.write(0, 2)
        self.instance = instance
        self.sensor = new_commits_sensor(self.settings, self.table, [idle_job])
        self.cursor: str | None = None
        of_runs = str(self.storage) if is_shared else str(path.with_name("store-of-runs"))
        self.defs = build_definitions(self.settings.model_copy(update={"storage": of_runs}))

    def tick(self) -> list[tuple[str, str]] | str:
        """Run what a tick requests. Return its ranges, or its message."""
        result = ticked(self.sensor, self.instance, self.cursor)
        self.cursor = result.cursor
        for request in result.run_requests or ():
            self.run(request)
        return skip_message(result) or _ranges(result.run_requests or [])

    def run(self, request: dg.RunRequest) -> None:
        job = self.defs.resolve_job_def("events_snapshots")
        assert job.execute_in_process(instance=self.instance, tags=dict(request.tags), run_config=QUIET).success

    def schedule(self) -> list[tuple[str, str]] | str:
        """Return the ranges that the schedule requests, or its message."""
        answer = self.ask_schedule()
        return answer.skip_message or "" if isinstance(answer, dg.SkipReason) else _ranges(answer)


def _ranges(requests: Sequence[dg.RunRequest]) -> list[tuple[str, str]]:
    return [(request.tags[RANGE_START_TAG], request.tags[RANGE_END_TAG]) for request in requests]


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    use_driver_bases(monkeypatch)
    with local_instance(tmp_path) as found:
        yield found


def test_tick_and_schedule_report_that_runs_store_their_versions_elsewhere_until_they_share_the_store(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    table = Deployment(tmp_path / "t", instance, is_shared=False)
    assert table.tick() == [("0", "2")]
    for message in (table.tick(), table.schedule()):
        assert re.search(r"versions 0 to 2 are not in the store .*Set `storage` to a folder", str(message))
    assert table.tick() == "No new commits in events."
    table.write(3, 3)
    assert table.tick() == [("3", "3")]
    assert [problem.check for problem in table.poll.problems] == ["unshared_store"]
    table.defs = build_definitions(table.settings)
    table.write(4, 4)
    assert table.tick() == [("4", "4")]
    assert table.tick() == "No new commits in events."
    assert "unshared_store" not in {problem.check for problem in table.poll.problems}
    assert table.schedule() == [("0", "3")]


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["tick", "schedule"])
def test_versions_of_a_deleted_store_are_requested(asked: str, instance: dg.DagsterInstance, tmp_path: Path) -> None:
    table = Deployment(tmp_path / "t", instance, is_shared=True)
    assert table.tick() == [("0", "2")]
    assert table.tick() == "No new commits in events."
    assert table.schedule() == "All versions of events are materialized."
    shutil.rmtree(table.storage)
    if asked == "schedule":
        assert table.schedule() == [("0", "2")]
    table.write(3, 3)
    assert table.tick() == [("0", "3")]
