"""Runs that go on with steps of a user, or are executed again, while a sensor ticks.

The steps run in this process. `tests/assets/deployed` has the same under `dagster dev`.
"""

# No `from __future__ import annotations` here: Dagster reads the annotations of assets and rejects strings.
# ruff: noqa: I002

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.runs.planning.partitions import key_of, version_partitions
from deltasnap_assets.runs.sensors import new_commits_sensor
from deltasnap_assets.settings.config import ASSET_NAMES, Settings, TableSettings
from tests.assets.followed_table import write
from tests.assets.jobs import idle_job, skip_message, ticked
from tests.driver_bases import use_driver_bases
from tests.fast_dagster import local_instance

OURS = [dg.AssetKey(["events", name]) for name in ASSET_NAMES]
KEYS = [key_of(version) for version in range(3)]
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class Place(dg.ConfigurableResource[Any]):
    """The folder of the project of a test."""

    path: str

    @property
    def settings(self) -> Settings:
        table = TableSettings(name="events", path=f"{self.path}/events", refresh=None)
        return Settings(storage=f"{self.path}/store", tables=(table,))

    @property
    def is_broken(self) -> Path:
        return Path(self.path, "broken")

    @property
    def answers(self) -> Path:
        return Path(self.path, "answers")


@dg.asset(deps=OURS, partitions_def=version_partitions("events"), backfill_policy=dg.BackfillPolicy.single_run())
def model(context: dg.AssetExecutionContext, place: Place) -> None:
    """A step of a user after ours, during which the sensor ticks."""
    sensor = new_commits_sensor(place.settings, place.settings.tables[0], [idle_job])
    answer = ticked(sensor, context.instance)
    place.answers.write_text(f"{answer.run_requests} {skip_message(answer)}", encoding="utf-8")
    assert not place.is_broken.exists()


def own_job(folder: str) -> dg.JobDefinition:
    """Return a job with our assets and that of the user."""
    place = Place(path=folder)
    job = dg.define_asset_job("own", [*OURS, model.key], executor_def=dg.in_process_executor)
    own = dg.Definitions([model], jobs=[job], resources={"place": place})
    return dg.Definitions.merge(build_definitions(place.settings), own).resolve_job_def("own")


class Project:
    """A table of three versions, a job, and an instance."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(path=str(folder))
        write(folder / "events", 0, len(KEYS) - 1)
        home = folder / "home"
        home.mkdir()
        (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n", encoding="utf-8")
        self.instance = local_instance(home)
        self.instance.add_dynamic_partitions("events_versions", KEYS)
        self._job = dg.build_reconstructable_job(__name__, "own_job", (str(folder),))

    def execute(self) -> dg.DagsterRun:
        """Execute the job for all versions. Return the run as it is afterwards."""
        return self._ended(dg.execute_job(self._job, self.instance, QUIET, run_tags("events", 0, len(KEYS) - 1)))

    def execute_again(self, parent: dg.DagsterRun, options: dg.ReexecutionOptions) -> dg.DagsterRun:
        """Execute a run again. Its tags are copied, as the page of the run and run retries do."""
        return self._ended(dg.execute_job(self._job, self.instance, QUIET, parent.tags, reexecution_options=options))

    def _ended(self, result: dg.JobExecutionResult) -> dg.DagsterRun:
        run = self.instance.get_run_by_id(result.run_id)
        assert run is not None
        return run

    @property
    def answer(self) -> str:
        """The answer of the tick during the last run."""
        return self.place.answers.read_text(encoding="utf-8")

    @property
    def statuses(self) -> set[str | None]:
        """What Dagster shows for the versions of our assets."""
        found = set()
        for asset in OURS:
            by_key = self.instance.get_status_by_partition(asset, KEYS, version_partitions("events")) or {}
            found |= {None if (status := by_key.get(key)) is None else status.value for key in KEYS}
        return found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    use_driver_bases(monkeypatch)
    made = Project(tmp_path)
    with made.instance:
        yield made


def waits_for(run: dg.DagsterRun) -> str:
    return f"[] Run {run.run_id} of events is in progress. The next run materializes the new commits."


@pytest.mark.slow
def test_tick_during_a_later_step_leaves_the_run_alone(project: Project) -> None:
    run = project.execute()
    assert run.is_success
    assert project.answer == waits_for(run)
    assert project.statuses == {"MATERIALIZED"}


@pytest.mark.slow
def test_tick_leaves_a_run_alone_that_is_executed_again_with_all_steps(project: Project) -> None:
    first = project.execute()
    again = project.execute_again(first, dg.ReexecutionOptions(parent_run_id=first.run_id))
    assert again.is_success
    assert project.answer == waits_for(again)
    assert project.statuses == {"MATERIALIZED"}


@pytest.mark.slow
def test_tick_leaves_a_run_alone_that_is_executed_again_from_a_failed_step(project: Project) -> None:
    project.place.is_broken.touch()
    failed = project.execute()
    assert failed.status is dg.DagsterRunStatus.FAILURE
    project.place.is_broken.unlink()
    again = project.execute_again(failed, dg.ReexecutionOptions.from_failure(failed.run_id, project.instance))
    assert again.is_success
    assert again.step_keys_to_execute == ["model"]
    assert project.answer == waits_for(again)
    assert project.statuses == {"MATERIALIZED"}
