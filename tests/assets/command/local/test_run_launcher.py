"""A run passed to the standby process. The run needs no Spark: an observation of the table."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.reconstruct import ReconstructableRepository  # no public name
from dagster._core.launcher.base import LaunchRunContext  # no public name
from dagster._grpc.types import ExecuteRunArgs  # no public name
from dagster._serdes import deserialize_value  # no public name

from deltasnap_assets.command.local.local_instance import use_local_instance
from deltasnap_assets.command.local.run_launcher import _HANDED_OVER_TAG, MODULE, StandbyRunLauncher
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.processes import pid_of, process_name
from deltasnap_assets.settings.loading import load_settings
from tests.assets.jobs import idle_job
from tests.builders import add, metadata, protocol, write_log
from tests.fast_dagster import local_instance


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    write_log(tmp_path / "events", {0: [protocol(), metadata(), add("0.parquet")]})
    write_log(tmp_path / "later", {0: [protocol(), metadata(), add("0.parquet")]})
    configure(tmp_path, "events")
    monkeypatch.setenv("DELTASNAP_CONFIG", str(tmp_path / "deltasnap.yaml"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    use_local_instance()
    with dg.DagsterInstance.get() as instance:
        yield instance


def configure(folder: Path, *names: str) -> None:
    tables = "".join(f"  - {{name: {name}, path: {folder / name}}}\n" for name in names)
    (folder / "deltasnap.yaml").write_text(f"storage: {folder / 'store'}\ntables:\n{tables}", encoding="utf-8")


def launched(instance: dg.DagsterInstance, table: str) -> dg.DagsterRun:
    """A finished run that observes a table."""
    key = dg.AssetKey([table, "delta_log"])
    repository = ReconstructableRepository.for_module(MODULE, "defs")
    job = build_definitions(load_settings()).resolve_implicit_global_asset_job_def()
    origin = repository.get_reconstructable_job(job.name).get_python_origin()
    run = instance.create_run_for_job(
        job.get_subset(asset_selection={key}), asset_selection={key}, job_code_origin=origin
    )
    instance.run_launcher.launch_run(LaunchRunContext(dagster_run=run, workspace=None))
    while not (found := instance.get_run_by_id(run.run_id)) or not found.is_finished:
        time.sleep(0.1)
    next_standby(instance.run_launcher)  # otherwise it would start during the next test
    return found


def next_standby(launcher: object) -> subprocess.Popen[str]:
    """The next standby process, as soon as there is one."""
    assert isinstance(launcher, StandbyRunLauncher)
    while (found := launcher._standby) is None:
        time.sleep(0.01)
    return found


@pytest.mark.spark  # separate programs
def test_run_is_executed_by_the_standby_process(instance: dg.DagsterInstance) -> None:
    launcher = instance.run_launcher
    assert isinstance(launcher, StandbyRunLauncher)
    launcher.stand_by()
    run = launched(instance, "events")
    assert run.is_success, [event.message for event in instance.all_logs(run.run_id)]
    started = [event.message for event in instance.all_logs(run.run_id) if event.message.startswith("Started process")]
    assert started == [f"Started process for run (pid: {pid_of(run.tags[_HANDED_OVER_TAG])})."]


@pytest.mark.thorough
@pytest.mark.spark  # separate programs
def test_table_added_after_the_standby_process_started_is_available_in_the_run(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    launcher = instance.run_launcher
    assert isinstance(launcher, StandbyRunLauncher)
    launcher.stand_by()
    time.sleep(5)
    configure(tmp_path, "events", "later")
    run = launched(instance, "later")
    assert run.is_success, [event.message for event in instance.all_logs(run.run_id)]


class Launches:
    """A launcher whose standby processes write what they are given to files, and the runs that Dagster launches."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.by_dagster, self.launcher = folder, list[str](), StandbyRunLauncher()
        self.instance = local_instance(folder)
        self.launcher.register_instance(self.instance)
        self.commands: list[list[str]] = []
        popen = subprocess.Popen

        def stand_by(command: list[str], **options: Any) -> subprocess.Popen[str]:
            self.commands.append(command[1:])
            return popen(["tee", str(folder / f"given_{len(self.commands)}")], **options)

        monkeypatch.setattr(subprocess, "Popen", stand_by)
        monkeypatch.setattr(
            dg.DefaultRunLauncher, "launch_run", lambda _, context: self.by_dagster.append(context.dagster_run.run_id)
        )

    def launch(self, module: str = MODULE) -> dg.DagsterRun:
        run = self.instance.create_run_for_job(idle_job)
        origin = ReconstructableRepository.for_module(module, "defs").get_reconstructable_job("j").get_python_origin()
        self.launcher.launch_run(LaunchRunContext(dagster_run=run._replace(job_code_origin=origin), workspace=None))
        found = self.instance.get_run_by_id(run.run_id)
        assert found is not None
        return found

    def given(self, number: int) -> str:
        """Return what a standby process was given before it ended."""
        return (self.folder / f"given_{number}").read_text(encoding="utf-8")

    @property
    def standby(self) -> subprocess.Popen[str]:
        """The next standby process."""
        return next_standby(self.launcher)


@pytest.fixture
def launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launches]:
    made = Launches(tmp_path, monkeypatch)
    yield made
    made.launcher.dispose()


def test_run_is_passed_to_the_standby_process_and_the_next_one_starts_when_it_has_ended(launches: Launches) -> None:
    launches.launcher.stand_by()
    launches.launcher.stand_by()
    first = launches.standby
    run = launches.launch()
    assert launches.by_dagster == []
    assert run.tags[_HANDED_OVER_TAG] == process_name(first.pid)
    assert launches.launcher._standby is None
    assert first.stdin is not None
    first.stdin.close()
    assert launches.standby is not first
    (line,) = launches.given(1).splitlines()
    assert deserialize_value(line, ExecuteRunArgs).run_id == run.run_id
    assert launches.commands == [["-m", "deltasnap_assets.command.local.standby"]] * 2


def test_run_without_a_standby_process_is_launched_by_dagster(launches: Launches) -> None:
    run = launches.launch()
    assert launches.by_dagster == [run.run_id]
    assert _HANDED_OVER_TAG not in run.tags
    killed = launches.standby
    killed.kill()
    killed.wait()
    again = launches.launch()
    assert launches.by_dagster == [run.run_id, again.run_id]
    assert launches.standby.poll() is None


def test_run_of_other_code_leaves_the_standby_process(launches: Launches) -> None:
    launches.launcher.stand_by()
    run, process = launches.launch("elsewhere"), launches.standby
    assert launches.by_dagster == [run.run_id]
    launches.launcher.dispose()
    assert process.returncode == 0
    assert launches.given(1) == ""


def terminated(
    process: str, monkeypatch: pytest.MonkeyPatch, status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTED
) -> tuple[bool, dg.DagsterRunStatus]:
    """Terminate a run of some process. Return whether Dagster's own launcher is used, and the run's status."""
    requested: list[str] = []

    def terminate(_: dg.DefaultRunLauncher, run_id: str) -> bool:
        requested.append(run_id)
        return True

    monkeypatch.setattr(dg.DefaultRunLauncher, "terminate", terminate)
    launcher, instance = StandbyRunLauncher(), dg.DagsterInstance.ephemeral()
    launcher.register_instance(instance)

    @dg.job
    def one() -> None: ...

    tags = {_HANDED_OVER_TAG: process} if process else {}
    run = instance.create_run_for_job(one, status=status, tags=tags)
    assert launcher.terminate(run.run_id)
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    return requested == [run.run_id], found.status


def test_terminated_run_of_this_machine_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "600"]) as program:
        assert terminated(process_name(program.pid), monkeypatch) == (False, dg.DagsterRunStatus.CANCELING)
        assert program.wait() == -signal.SIGINT


def test_terminated_run_that_has_ended_is_left_to_dagster(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "600"]) as program:
        ended = dg.DagsterRunStatus.SUCCESS
        assert terminated(process_name(program.pid), monkeypatch, ended) == (True, ended)
        assert program.poll() is None
        program.kill()


@pytest.mark.parametrize("place", ["another machine", "another start", "nowhere"])
def test_terminate_interrupts_only_the_process_of_the_run(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "600"]) as program:
        machine, pid, start = process_name(program.pid).rsplit("#", 2)
        names = {
            "another machine": f"elsewhere{machine}#{pid}#{start}",
            "another start": f"{machine}#{pid}#{int(start) + 1}",
            "nowhere": "",
        }
        assert terminated(names[place], monkeypatch) == (True, dg.DagsterRunStatus.STARTED)
        assert program.poll() is None
        program.kill()
