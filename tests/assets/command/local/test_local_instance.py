"""The instance of a folder: its settings, and its records, which Dagster's own storage can read."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as sa
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage

from deltasnap_assets.command.local.local_instance import use_local_instance
from deltasnap_assets.command.local.local_storage import LocalEvents, LocalStorage
from tests.assets.command.test_cli import FORKS
from tests.assets.jobs import idle_job

_RECORDS = """\
import os, sys
import dagster as dg
with dg.DagsterInstance.from_config(sys.argv[1]) as instance:
    instance.add_dynamic_partitions("versions", ["0", "1"])
    instance.report_runless_asset_event(dg.AssetMaterialization("events", partition="1"))
    os._exit(0)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    return use_local_instance()


@pytest.mark.slow
def test_records_of_a_killed_process_are_found_by_the_storage_of_dagster(home: Path) -> None:
    assert FORKS.run(_RECORDS, str(home)).returncode == 0
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert list(instance.get_dynamic_partitions("versions")) == ["0", "1"]
        assert instance.get_materialized_partitions(dg.AssetKey("events")) == {"1"}


def test_event_touches_the_file_of_its_run(home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        run = instance.create_run_for_job(idle_job)
        instance.report_engine_event("first", run)
        file = home / "history" / "runs" / f"{run.run_id}.db"
        os.utime(file, (1, 1))
        instance.report_engine_event("second", run)
        assert file.stat().st_mtime > 1


@pytest.mark.slow
def test_watchers_of_a_run_receive_its_events(home: Path) -> None:
    reported = threading.Event()
    with dg.DagsterInstance.from_config(str(home)) as here, dg.DagsterInstance.from_config(str(home)) as there:
        run = here.create_run_for_job(idle_job)
        here.watch_event_logs(run.run_id, None, lambda event, _: reported.set() if "second" in event.message else None)
        there.report_engine_event("first", run)
        there.report_engine_event("second", run)
        assert reported.wait(60)


@pytest.mark.slow
def test_instance_is_created_once_by_commands_that_start_together(home: Path) -> None:
    with ThreadPoolExecutor(4) as commands:
        opened = list(commands.map(lambda _: LocalStorage(str(home)), range(4)))
    for storage in opened:
        storage.dispose()
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert instance.get_runs_count() == 0


def test_databases_are_checked_once_in_a_process_and_created_again_if_they_were_deleted(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LocalStorage(str(home)).dispose()
    with monkeypatch.context() as later:
        later.setattr(SqliteRunStorage, "from_local", None)  # each check takes memory that is never freed
        LocalStorage(str(home)).dispose()
    shutil.rmtree(home / "history")
    storage = LocalStorage(str(home))
    assert storage.run_storage.get_runs_count() == 0
    storage.dispose()


def test_partition_added_by_two_processes_at_once_exists_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance, dg.DagsterInstance.from_config(str(home)) as other:
        add, added = SqlEventLogStorage.add_dynamic_partitions, list[object]()

        def late(storage: SqlEventLogStorage, name: str, keys: Sequence[str]) -> None:
            if not added:
                added.append(keys)
                other.add_dynamic_partitions(name, keys)
                raise sa.exc.IntegrityError("INSERT", None, Exception("UNIQUE constraint failed"))
            add(storage, name, keys)

        monkeypatch.setattr(SqlEventLogStorage, "add_dynamic_partitions", late)
        instance.add_dynamic_partitions("versions", ["0", "1"])
        assert list(instance.get_dynamic_partitions("versions")) == ["0", "1"]


@pytest.mark.slow
def test_runs_of_one_instance_are_each_found_with_their_events(home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        runs = [instance.create_run_for_job(idle_job) for _ in range(3)]
        for number, run in enumerate([*runs, *runs]):
            instance.report_engine_event(f"event {number}", run)
        messages = [[event.message for event in instance.all_logs(run.run_id)] for run in runs]
        assert messages == [[f"event {n}", f"event {n + 3}"] for n in range(3)]
        assert {run.run_id for run in instance.get_runs()} == {run.run_id for run in runs}


def test_runs_are_read_and_written_by_the_storage_of_dagster(home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        runs = [instance.create_run_for_job(idle_job) for _ in range(2)]
        for run in runs:
            instance.report_engine_event("here", run)
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for run in runs:
            instance.report_engine_event("there", run)
        assert [[event.message for event in instance.all_logs(run.run_id)] for run in runs] == [["here", "there"]] * 2


@pytest.mark.slow
def test_events_of_one_run_from_two_processes_at_once_are_all_kept(home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as one, dg.DagsterInstance.from_config(str(home)) as other:
        for _ in range(3):
            run = dg.DagsterRun(job_name=idle_job.name)  # has no database yet
            with ThreadPoolExecutor(2) as processes:
                list(processes.map(lambda each, run=run: each.report_engine_event("event", run), (one, other)))
            assert [event.message for event in one.all_logs(run.run_id)] == ["event", "event"]


@pytest.mark.slow
def test_database_that_was_copied_in_part_is_no_run(home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        first, second = instance.create_run_for_job(idle_job), instance.create_run_for_job(idle_job)
        events = instance.event_log_storage
        assert isinstance(events, LocalEvents)
        Path(f"{events.path_for_shard(second.run_id)}.part").write_bytes(b"SQLite format 3")
        instance.report_engine_event("event", first)
        instance.report_engine_event("event", second)
        assert set(events.get_all_run_ids()) == {first.run_id, second.run_id}
        assert [event.message for event in instance.all_logs(second.run_id)] == ["event"]


def test_settings_follow_a_folder_that_is_moved(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = home.with_name("moved")
    shutil.move(home, moved)
    monkeypatch.setenv("DAGSTER_HOME", str(moved))
    assert str(moved) in (use_local_instance() / "dagster.yaml").read_text()


def test_settings_of_an_earlier_release_are_updated(home: Path) -> None:
    settings = home / "dagster.yaml"
    current = settings.read_text()
    settings.write_text("# Written anew by deltasnap, unless you remove this line.\ntelemetry: {}\n")
    use_local_instance()
    assert settings.read_text() == current


def test_settings_edited_by_the_user_are_kept(home: Path) -> None:
    settings = home / "dagster.yaml"
    own = settings.read_text().partition("\n")[2] + "# mine\n"
    settings.write_text(own)
    use_local_instance()
    assert settings.read_text() == own
