"""Two projects with one store that follow different tables under the same name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.runs.condition.alerts import send_alerts
from deltasnap_assets.runs.condition.reminders import REMINDERS
from deltasnap_assets.runs.condition.taken_names import TakenNameError
from deltasnap_assets.runs.failure_reason import reason_of
from deltasnap_assets.runs.fleet import fleet_of
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.runs.sensors import new_commits_sensor
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import AlertSettings
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

    def move(self, path: Path) -> None:
        self.configure(str(path))

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
    """Two projects. The second one has replaced the versions of the first one."""
    folder = tmp_path_factory.mktemp("projects")
    first, second = Project(folder, "first", 2), Project(folder, "second", 4)
    first.refresh()
    second.refresh()
    return first, second


@pytest.mark.slow
def test_refresh_stores_nothing_under_the_name_of_another_table(projects: tuple[Project, Project]) -> None:
    first, second = projects
    with pytest.raises(TakenNameError, match=f"another table named events, at {second.path}, which .* at {first.path}"):
        first.refresh()
    assert second.refresh() == ()
    assert first.stored_at == str(second.path)


@pytest.mark.slow
def test_run_of_a_user_records_no_numbers_of_another_table(projects: tuple[Project, Project]) -> None:
    first, second = projects
    job, asset = first.defs.resolve_job_def("events_snapshots"), dg.AssetKey(["events", "computed_state"])
    before = first.instance.fetch_materializations(asset, limit=9).records
    result = job.execute_in_process(instance=first.instance, tags=run_tags("events", 0, 2), raise_on_error=False)
    assert "another table named events" in (reason_of(result.all_events) or "")
    assert first.instance.fetch_materializations(asset, limit=9).records == before
    assert first.stored_at == str(second.path)


@pytest.mark.slow
def test_fleet_does_not_show_the_numbers_of_another_table(projects: tuple[Project, Project]) -> None:
    first, second = projects
    assert second.row["num_files"] == 5
    assert (first.row["condition"], first.row["num_files"], first.row["latest_version"]) == ("unknown", None, None)
    assert first.row["reason"] == f"The store has another table of this name, at {second.path}."


@pytest.mark.slow
def test_every_tick_fails_while_the_name_is_taken(tmp_path: Path) -> None:
    first, second = Project(tmp_path, "first", 2), Project(tmp_path, "second", 4)
    first.refresh()
    ticks = Ticks(first.path)
    ticks.instance = first.instance
    ticks.sensor = new_commits_sensor(first.settings, first.table, [idle_job])
    for _ in range(2):
        ticks.tick()
    second.refresh()
    REMINDERS._done.clear()  # as an hour later
    for last in (2, 2, 3, 3):
        write(first.path, 3, last)
        with pytest.raises(TakenNameError):
            ticks.tick()
    assert first.stored_at == str(second.path)


@pytest.mark.slow
def test_alert_reports_a_taken_name_but_no_table_that_moved(
    projects: tuple[Project, Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = projects
    sent = list[str]()
    monkeypatch.setattr("deltasnap_assets.runs.condition.alerts.send", lambda _, text, __: sent.append(text))
    alerts = AlertSettings.model_validate({"urls": ["json://chat.example"]})
    moved = second.table.model_copy(update={"path": f"{second.path}-elsewhere"})
    for project, table in ((first, first.table), (second, moved)):
        settings = project.settings.model_copy(update={"alerts": alerts, "tables": (table,)})
        send_alerts(settings, project.instance)
    (text,) = sent
    assert "The store has another table of this name" in text


@pytest.mark.slow
@pytest.mark.parametrize("is_same", [True, False])
def test_table_that_moved_is_followed(tmp_path: Path, is_same: bool) -> None:
    project, other = Project(tmp_path, "first", 2), Project(tmp_path, "second", 2)
    project.refresh()
    if is_same:
        shutil.rmtree(other.path)
        shutil.copytree(project.path, other.path)
    project.move(other.path)
    assert project.refresh() == (() if is_same else (0, 1, 2))
    assert project.row["num_files"] == 3
    assert project.stored_at == str(other.path)


@pytest.mark.slow
def test_projects_with_one_instance_do_not_take_turns_under_one_name(tmp_path: Path) -> None:
    first, second = Project(tmp_path, "first", 0), Project(tmp_path, "second", 0)
    second.instance = first.instance
    for project in (first, second, first, second):  # the first one may have moved away and back
        assert project.refresh() == (0,)
    with pytest.raises(TakenNameError, match=str(second.path)):
        first.refresh()
    assert second.refresh() == ()
    assert first.stored_at == str(second.path)


@pytest.mark.slow
def test_project_without_observations_is_not_stopped(tmp_path: Path) -> None:
    first, second = Project(tmp_path, "first", 2), Project(tmp_path, "second", 0)
    second.refresh()
    assert first.refresh() == (0, 1, 2)
