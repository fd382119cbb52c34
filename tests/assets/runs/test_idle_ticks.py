"""Ticks without a new commit: they notice that the table, or the store, is gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Event
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.runs import sensors, table_polls
from deltasnap_assets.runs.condition import last_poll
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.runs.planning.poll import poll_log
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core.errors import DeltaTableNotFoundError, StorageError
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.storage.writable_files import WritableFiles
from tests.assets.jobs import idle_job
from tests.assets.runs.test_sensors import Ticks, write


def followed(folder: Path) -> Ticks:
    """A table whose versions are materialized, and whose last tick found no new commit."""
    write(folder, 0, 3)
    ticks = Ticks(folder)
    assert ticks.tick() == [("0", "3")]
    assert ticks.tick() == "No new commit of events."
    return ticks


def condition_of(folder: Path) -> tuple[str, str]:
    table = TableSettings(name="events", path=str(folder))
    (row,) = store_of(Settings(storage=f"{folder}-store", tables=(table,))).fleet(["events"]).to_pylist()
    return row["condition"], row["reason"]


@pytest.mark.parametrize("deleted", ["", "_delta_log"])
def test_deleted_table_fails_a_tick_and_is_broken(tmp_path: Path, deleted: str) -> None:
    ticks = followed(tmp_path / "t")
    shutil.rmtree(tmp_path / "t" / deleted)
    with pytest.raises(DeltaTableNotFoundError):
        ticks.tick()
    assert condition_of(tmp_path / "t")[0] == "broken"
    assert str(ticks.tick()).startswith("events is still broken: No Delta table at ")


def test_versions_of_a_deleted_store_are_requested_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = followed(tmp_path / "t")
    monkeypatch.setattr(last_poll, "_NOTED_AGAIN_MS", 0)
    assert ticks.tick() == "No new commit of events."
    shutil.rmtree(tmp_path / "t-store")
    assert ticks.tick() == [("0", "3")]


def test_every_tick_fails_while_the_store_cannot_be_read_and_examines_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = followed(tmp_path / "t")
    monkeypatch.setattr(last_poll, "_NOTED_AGAIN_MS", 0)

    def denied(_: WritableFiles, path: str, *__: object) -> bytes:
        raise StorageError(path=path, reason="access denied")

    for name in ("read", "list_folder"):
        monkeypatch.setattr(WritableFiles, name, denied)
    monkeypatch.setattr(TableLog, "condition", None)  # no log is read
    for _ in range(2):
        with pytest.raises(StorageError, match="access denied"):
            ticks.tick()


def endless_examinations(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Event]:
    """Examine the log in each tick of 0.1 s. Return the tables examined, and the event that ends examinations."""
    started, end = list[str](), Event()

    def slow(settings: Settings, table: TableSettings, **options: bool) -> Any:
        started.append(table.name)
        end.wait()
        return poll_log(settings, table, **options)

    monkeypatch.setattr(sensors, "_MAX_TICK_SECONDS", 0.1)
    monkeypatch.setattr(sensors, "_LAST_POLL_SECONDS", 0)
    monkeypatch.setattr(table_polls, "may_be_unexamined", lambda *_: True)
    monkeypatch.setattr(table_polls, "poll_log", slow)
    return started, end


@pytest.mark.parametrize("is_running", [False, True])
def test_examination_longer_than_a_tick_runs_once_and_a_later_tick_uses_it_unless_a_run_has_begun(
    is_running: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks, (started, end) = followed(tmp_path / "t"), endless_examinations(monkeypatch)
    for _ in range(3):
        with pytest.raises(sensors.UnfinishedPollError, match="The poll of events did not end"):
            ticks.tick()
    monkeypatch.setattr(sensors, "_MAX_TICK_SECONDS", 30)
    end.set()
    if is_running:
        tags, status = run_tags("events", 0, 3), dg.DagsterRunStatus.STARTED
        run_id = ticks.instance.create_run_for_job(idle_job, status=status, tags=tags).run_id
        assert f"Run {run_id} of events is in progress." in ticks.tick()
    else:
        assert ticks.tick() == [("0", "3")]  # nothing is stored in this test
    assert started == ["events"]


def test_poll_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks, (started, end) = followed(tmp_path / "t"), endless_examinations(monkeypatch)
    monkeypatch.setattr(sensors, "_MAX_POLL_SECONDS", 0)
    for _ in range(2):
        with pytest.raises(sensors.UnfinishedPollError):
            ticks.tick()
    end.set()
    assert started == ["events", "events"]
