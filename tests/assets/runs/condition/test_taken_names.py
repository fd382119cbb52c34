"""Two projects with one store that follow different tables under the same name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.runs.condition.log_conditions import BrokenTableError
from deltasnap_assets.runs.failure_reason import reason_of
from deltasnap_assets.runs.fleet import fleet_of
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.runs.planning.partitions import version_partitions
from deltasnap_assets.runs.sensors import new_commits_sensor
from deltasnap_assets.runs.stores import store_of
from deltasnap_core import DeltaSnapError
from tests.assets.followed_table import write
from tests.assets.jobs import idle_job
from tests.assets.runs.refresh_builders import Refreshed
from tests.assets.runs.sensors_builders import Ticks
from tests.driver_bases import use_driver_bases


@pytest.fixture(scope="module", autouse=True)
def _no_session() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        use_driver_bases(patched)
        yield


class Project(Refreshed):
    """A project with a table `events`, and a store that all projects below a folder share."""

    def __init__(self, folder: Path, name: str, last: int) -> None:
        super().__init__(folder / name)
        self.storage = folder / "store"
        self.configure()
        write(self.path, 0, last, table_id=name)

    @property
    def row(self) -> dict[str, Any]:
        (row,) = fleet_of(self.settings)
        return row

    @property
    def stored_at(self) -> str | None:
        poll = store_of(self.settings).polls.read("events")
        return None if poll is None else poll.path


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Project]:
    """Two projects. The store has the versions of the second one."""
    folder = tmp_path_factory.mktemp("projects")
    first, second = Project(folder, "first", 2), Project(folder, "second", 4)
    second.refresh()
    return first, second


@pytest.mark.slow
def test_refresh_stores_nothing_under_the_name_of_another_table(projects: tuple[Project, Project]) -> None:
    first, second = projects
    with pytest.raises(
        DeltaSnapError, match=f"another table named events, at {second.path}. This one is at {first.path}"
    ):
        first.refresh()
    assert second.refresh() == ()
    assert first.stored_at == str(second.path)


def test_run_of_a_user_records_no_numbers_of_another_table(projects: tuple[Project, Project]) -> None:
    first, second = projects
    first.instance.add_dynamic_partitions(version_partitions("events").name or "", ["0", "1", "2"])
    job, asset = first.defs.resolve_job_def("events_snapshots"), dg.AssetKey(["events", "computed_state"])
    result = job.execute_in_process(instance=first.instance, tags=run_tags("events", 0, 2), raise_on_error=False)
    assert "another table named events" in (reason_of(result.all_events) or "")
    assert first.instance.fetch_materializations(asset, limit=9).records == []
    assert first.stored_at == str(second.path)


@pytest.mark.slow
def test_fleet_does_not_show_the_numbers_of_another_table(projects: tuple[Project, Project]) -> None:
    first, second = projects
    assert second.row["num_files"] == 5
    assert (first.row["condition"], first.row["num_files"], first.row["latest_version"]) == ("unknown", None, None)
    assert first.row["reason"] == f"The store has another table of this name, at {second.path}."


@pytest.mark.slow
def test_every_tick_fails_while_the_name_is_taken(projects: tuple[Project, Project]) -> None:
    first, second = projects
    ticks = Ticks(first.path)
    ticks.instance = first.instance
    ticks.sensor = new_commits_sensor(first.settings, first.table, [idle_job])
    for _ in range(2):
        with pytest.raises(DeltaSnapError, match="another table named events"):
            ticks.tick()
    assert first.stored_at == str(second.path)


@pytest.mark.slow
def test_table_that_moved_with_its_log_is_followed(tmp_path: Path) -> None:
    project = Project(tmp_path, "first", 2)
    project.refresh()
    project.path.rename(tmp_path / "moved")
    project.configure(str(tmp_path / "moved"))
    assert project.refresh() == ()
    assert (project.row["num_files"], project.stored_at) == (3, str(tmp_path / "moved"))


@pytest.mark.slow
def test_table_whose_path_was_wrong_before_is_followed(tmp_path: Path) -> None:
    project = Project(tmp_path, "first", 2)
    project.configure(str(tmp_path / "wrong"))
    with pytest.raises(BrokenTableError):
        project.refresh()
    project.configure(str(project.path))
    assert project.refresh() == (0, 1, 2)
