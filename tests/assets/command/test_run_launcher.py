"""A run handed to the process that stands by. The run is one that needs no Spark: an observation of the table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.reconstruct import ReconstructableRepository  # no public name
from dagster._core.launcher.base import LaunchRunContext  # no public name

from deltasnap_assets.command.local.local_instance import use_local_instance
from deltasnap_assets.command.local.run_launcher import MODULE, StandbyRunLauncher
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.processes import pid_of
from deltasnap_assets.runs.run_process import PROCESS_TAG
from deltasnap_assets.settings.loading import load_settings
from tests.builders import add, metadata, protocol, write_log

pytestmark = pytest.mark.spark  # programs of its own


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
    """A run that observes a table, at its end."""
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
    return found


def test_run_is_executed_by_the_process_that_stood_by(instance: dg.DagsterInstance) -> None:
    launcher = instance.run_launcher
    assert isinstance(launcher, StandbyRunLauncher)
    launcher.stand_by()
    run = launched(instance, "events")
    assert run.is_success, [event.message for event in instance.all_logs(run.run_id)]
    started = [event.message for event in instance.all_logs(run.run_id) if event.message.startswith("Started process")]
    assert started == [f"Started process for run (pid: {pid_of(run.tags[PROCESS_TAG])})."]


def test_table_added_since_the_process_stood_by_is_known_to_the_run(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    launcher = instance.run_launcher
    assert isinstance(launcher, StandbyRunLauncher)
    launcher.stand_by()
    time.sleep(5)
    configure(tmp_path, "events", "later")
    run = launched(instance, "later")
    assert run.is_success, [event.message for event in instance.all_logs(run.run_id)]
