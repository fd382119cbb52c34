"""Ticks without a new commit: they notice that the table, or the store, is gone, and wait for no long read."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import wait
from pathlib import Path
from threading import Event
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.runs import memory, polls
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.log_conditions import condition_now
from deltasnap_assets.runs.condition.poll_findings import PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.memory import LongRead
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_core import LogCursor, LogStatus
from deltasnap_core.errors import DeltaSnapError, DeltaTableNotFoundError, StorageError
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.storage.writable_files import WritableFiles
from tests.assets.command.cli_builders import FORKS
from tests.assets.followed_table import forget_looks, write
from tests.assets.jobs import idle_job
from tests.assets.runs.sensors_builders import Ticks
from tests.builders import add, write_log


def followed(folder: Path) -> Ticks:
    """A table whose versions are materialized, and whose last tick found no new commit."""
    ticks = Ticks(folder, last=3)
    assert ticks.tick() == [("0", "3")]
    assert ticks.tick() == "No new commits in events."
    return ticks


def condition_of(ticks: Ticks) -> tuple[str, str]:
    return ticks.row["condition"], ticks.row["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("is_recreated", [True, False])
def test_checks_of_a_replaced_log_do_not_count_before_its_run_started(tmp_path: Path, is_recreated: bool) -> None:
    ticks, path = followed(tmp_path / "t"), tmp_path / "t"
    ticks.store_versions(range(4), computed=True)
    record(ticks.store, ticks.table, PollFindings(checked_version=3))
    assert condition_of(ticks)[0] == "healthy"
    if is_recreated:
        shutil.rmtree(path)
        write(path, 0, 1, table_id="other")
    else:
        write_log(path, {3: [add("other.parquet")]})
    ticks.runs_succeed = False
    assert ticks.tick() == [("0", "1") if is_recreated else ("3", "3")]
    assert condition_of(ticks) == ("unknown", "No run has checked this table yet.")


@pytest.mark.slow
@pytest.mark.parametrize("deleted", ["", "_delta_log"])
def test_deleted_table_fails_a_tick_and_is_broken(tmp_path: Path, deleted: str) -> None:
    ticks = followed(tmp_path / "t")
    shutil.rmtree(tmp_path / "t" / deleted)
    with pytest.raises(DeltaTableNotFoundError):
        ticks.tick()
    assert condition_of(ticks)[0] == "broken"
    assert str(ticks.tick()).startswith("events is broken: No Delta table at ")


@pytest.mark.slow
def test_versions_of_a_deleted_store_are_requested_again(tmp_path: Path) -> None:
    ticks = followed(tmp_path / "t")
    shutil.rmtree(ticks.storage)
    assert ticks.tick() == "No new commits in events."
    forget_looks()  # as an hour later
    assert ticks.tick() == [("0", "3")]


@pytest.mark.slow
def test_each_tick_fails_without_a_readable_store_and_reads_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = followed(tmp_path / "t")
    forget_looks()

    def denied(_: WritableFiles, path: str, *__: object) -> bytes:
        raise StorageError(path=path, reason="access denied")

    for name in ("read", "names"):
        monkeypatch.setattr(WritableFiles, name, denied)
    monkeypatch.setattr(TableLog, "condition", None)  # no log is read
    for _ in range(2):
        with pytest.raises(StorageError, match="access denied"):
            ticks.tick()


def all_ended(reads: Mapping[Any, LongRead]) -> None:
    wait([read.future for read in reads.values()])


def unanswered_polls(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], Event]:
    """Polls that do not end until the event is set, in ticks of 0.1 s. And the versions that they start from."""
    started, end, new_commits = list[int](), Event(), TableLog.new_commits

    def slow(table_log: TableLog, since: LogCursor) -> LogStatus | None:
        started.append(since.version)
        end.wait(60)
        return new_commits(table_log, since)

    monkeypatch.setattr(polls, "_MAX_SECONDS", 0.1)
    monkeypatch.setattr(TableLog, "new_commits", slow)
    return started, end


@pytest.mark.parametrize("is_running", [False, True])
def test_poll_longer_than_a_tick_runs_once_and_a_later_tick_uses_it_unless_a_run_has_begun(
    is_running: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = followed(tmp_path / "t")
    write(tmp_path / "t", 4, 4)
    started, end = unanswered_polls(monkeypatch)
    for _ in range(3):
        assert "The poll of events has been running since 20" in ticks.tick()
    assert started == [3]
    end.set()
    all_ended(memory.POLLS)
    if is_running:
        tags, status = run_tags("events", 0, 3), dg.DagsterRunStatus.STARTED
        run_id = ticks.instance.create_run_for_job(idle_job, status=status, tags=tags).run_id
        assert f"Run {run_id} of events is in progress." in ticks.tick()
    else:
        assert ticks.tick() == [("4", "4")]


@pytest.mark.slow
def test_endless_poll_fails_its_ticks_and_starts_again_in_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = followed(tmp_path / "t")
    now, (started, end) = time.time(), unanswered_polls(monkeypatch)
    ticks.tick()
    counts = []
    for minutes in (4, 5, 59, 60, 64, 65):
        monkeypatch.setattr(time, "time", lambda later=now + 60 * minutes + 1: later)
        if minutes in (4, 60, 64):
            assert "The poll of events has been running since" in ticks.tick()
        else:
            with pytest.raises(DeltaSnapError, match=r"The poll of events has been running .*minutes"):
                ticks.tick()
        counts.append(len(started))
    end.set()
    assert counts == [1, 1, 1, 2, 2, 2]


def test_tick_names_the_damage_of_a_stored_commit_that_another_process_found_and_pauses(tmp_path: Path) -> None:
    ticks = followed(tmp_path / "t")
    ticks.store_versions(range(4))
    ticks.damage(1)
    report_condition(ticks.instance, ticks.settings, ticks.table, condition_now(ticks.settings, ticks.table))
    forget_looks()  # as in a new process
    assert "Version 1 cannot be read" in ticks.tick()
    assert re.fullmatch(r"events is broken: Version 1 cannot be read: .* Next poll in \d+ s\.", str(ticks.tick()))


HANGING_POLL = """
import signal, sys, threading
import dagster as dg
from deltasnap_assets.runs import polls, sensors
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import TableLog
from tests.assets.jobs import idle_job

signal.alarm(60)
polls._MAX_SECONDS = 0.2
TableLog.for_path = lambda *_: threading.Event().wait()
table = TableSettings(name="events", path=sys.argv[1])
sensor = sensors.new_commits_sensor(Settings(storage=sys.argv[1] + "-store", tables=(table,)), table, [idle_job])
with dg.DagsterInstance.ephemeral() as instance:
    print(sensor(dg.build_sensor_context(instance=instance)).skip_reason.skip_message)
threading._shutdown()  # as Python does at its end
"""


@pytest.mark.slow
def test_poll_that_never_ends_does_not_keep_the_process_from_exiting(tmp_path: object) -> None:
    ended = FORKS.run(HANGING_POLL, f"{tmp_path}/events")
    is_waiting = ended.stdout.startswith("The poll of events has been running since")
    assert (ended.returncode, is_waiting) == (0, True), ended.stderr
