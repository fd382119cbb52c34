"""Ticks without a new commit: they notice that the table, or the store, is gone."""

from __future__ import annotations

import os
import re
import shutil
import time
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.quantities import DAY_MS
from deltasnap_assets.runs import apply, decide, due, memory, sensors
from deltasnap_assets.runs.condition import log_conditions
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.log_conditions import condition_now
from deltasnap_assets.runs.condition.poll_findings import PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.memory import LongReads
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.runs.planning.sensor_state import SensorState
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import LogCursor
from deltasnap_core.errors import DeltaTableNotFoundError, StorageError
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents
from deltasnap_core.log.checkpoints.checkpoint_pages import ReadPages, read_every_page
from deltasnap_core.log.condition import examined_files
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import LogStore
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.support import LastPoll, LastPolls, LogPoll
from tests.assets.followed_table import forget_looks, materialize, write
from tests.assets.jobs import idle_job
from tests.assets.runs.sensors_builders import Ticks
from tests.builders import add, metadata, protocol, write_log
from tests.checkpoint_files import write_checkpoint
from tests.fast_dagster import local_instance


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
def test_checks_of_a_replaced_log_do_not_count_while_its_run_has_not_started(
    tmp_path: Path, is_recreated: bool
) -> None:
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
    assert str(ticks.tick()).startswith("events is still broken: No Delta table at ")


@pytest.mark.slow
def test_versions_of_a_deleted_store_are_requested_again(tmp_path: Path) -> None:
    ticks = followed(tmp_path / "t")
    shutil.rmtree(ticks.storage)
    assert ticks.tick() == "No new commits in events."
    forget_looks()  # as an hour later
    assert ticks.tick() == [("0", "3")]


@pytest.mark.slow
def test_every_tick_fails_while_the_store_cannot_be_read_and_examines_no_log(
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


def all_ended(reads: LongReads[Any, Any]) -> None:
    wait([read.future for read in reads._reads.values()])


def long_examinations(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Event]:
    """Idle ticks that read the whole log, which does not end until the event is set. And the tables they read."""
    started, end = list[str](), Event()

    def slow(settings: Settings, table: TableSettings, _: due.Examination) -> Any:
        started.append(table.name)
        condition = condition_now(settings, table)
        end.wait(60)
        return condition

    monkeypatch.setattr(log_conditions, "_WAIT_SECONDS", 0.1)
    monkeypatch.setattr(log_conditions, "condition_now", slow)
    monkeypatch.setattr(decide, "is_examination_due", lambda *_: True)
    forget_looks()
    return started, end


@pytest.mark.slow
def test_examination_longer_than_a_tick_runs_once_and_a_later_tick_reports_its_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks, (started, end) = followed(tmp_path / "t"), long_examinations(monkeypatch)
    ticks.damage(1)
    for _ in range(3):
        assert (
            "No new commits in events. The examination of its log for faults has been running since 20" in ticks.tick()
        )
    assert condition_of(ticks)[0] != "broken"
    end.set()
    all_ended(memory.EXAMINATIONS)
    ticks.tick()
    assert condition_of(ticks)[0] == "broken"
    assert started == ["events"]


@pytest.mark.slow
def test_new_commits_are_requested_while_the_log_is_examined_and_stay_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks, (_, end) = followed(tmp_path / "t"), long_examinations(monkeypatch)
    assert "The examination of its log for faults has been running" in ticks.tick()
    write(tmp_path / "t", 4, 4)
    assert ticks.tick() == [("4", "4")]
    end.set()
    all_ended(memory.EXAMINATIONS)
    ticks.tick()
    assert (ticks.poll.latest_version, ticks.poll.examined_at_ms is not None) == (4, True)


@pytest.mark.slow
def test_schedule_does_not_wait_for_an_examination_and_the_sensor_reports_its_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks, (_, end) = followed(tmp_path / "t"), long_examinations(monkeypatch)
    ticks.store_versions(range(4))
    record(ticks.store, ticks.table, PollFindings(checked_version=3))
    ticks.damage(1)
    sensor_instance = ticks.instance
    with local_instance(tmp_path) as ticks.instance:
        materialize(ticks.instance, range(4))
        assert isinstance(ticks.ask_schedule(), dg.SkipReason)
    ticks.instance = sensor_instance
    end.set()
    all_ended(memory.EXAMINATIONS)
    ticks.tick()
    assert condition_of(ticks)[0] == "broken"


def unanswered_polls(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], Event]:
    """Polls that do not end until the event is set, in ticks of 0.1 s. And the versions that they start from."""
    started, end, poll = list[int](), Event(), TableLog.poll

    def slow(table_log: TableLog, since: LogCursor) -> LogPoll:
        started.append(since.version)
        end.wait(60)
        return poll(table_log, since)

    monkeypatch.setattr(sensors, "_MAX_POLL_SECONDS", 0.1)
    monkeypatch.setattr(TableLog, "poll", slow)
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
def test_poll_that_never_ends_fails_its_ticks_and_is_started_again_after_doubling_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = followed(tmp_path / "t")
    now, (_, end) = time.time(), unanswered_polls(monkeypatch)
    ticks.tick()
    started = []
    for minutes in (4, 5, 14, 15, 34, 35):
        monkeypatch.setattr(time, "time", lambda later=now + 60 * minutes + 1: later)
        if minutes < 5:
            ticks.tick()
        else:
            with pytest.raises(
                sensors.UnfinishedPollError, match=rf"The poll of events has been running .*\({minutes} min"
            ):
                ticks.tick()
        (read,) = (read for key, read in memory.POLLS._reads.items() if key[0][0] == f"{tmp_path}/t-store")
        started.append(int(read.started - now) // 60)
    end.set()
    assert started == [0, 5, 5, 15, 15, 35]


def checkpointed(folder: Path, version: int, *, is_damaged: bool = False) -> None:
    """Write a checkpoint after its commit, as writers do. A damaged one ends too early."""
    actions = [protocol(), metadata(), *(add(f"{each}.parquet") for each in range(version + 1))]
    (file,) = write_checkpoint(folder / "_delta_log", version, "classic", actions)
    if is_damaged:
        os.truncate(file, file.stat().st_size // 2)
    hint = LastCheckpointInfo(version=version, size=len(actions))
    (folder / "_delta_log" / "_last_checkpoint").write_bytes(hint.serialized())


@pytest.fixture(params=[True, False], ids=["listed", "by name"])
def lists(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Storages that can list from a name, and storages that cannot."""
    monkeypatch.setattr(FsspecLogStore, "lists_from_name", lambda *_: request.param)


@pytest.mark.slow
@pytest.mark.usefixtures("lists")
def test_damaged_checkpoint_written_after_its_version_was_stored_is_reported(tmp_path: Path) -> None:
    ticks = followed(tmp_path / "t")
    checkpointed(tmp_path / "t", 3, is_damaged=True)
    ticks.tick()
    condition, reason = condition_of(ticks)
    assert (condition, "The checkpoint of version 3 cannot be read" in reason) == ("warned", True)


@pytest.mark.slow
@pytest.mark.usefixtures("lists")
def test_pages_of_a_new_checkpoint_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks, read = followed(tmp_path / "t"), list[int]()

    def counted(store: LogStore, contents: CheckpointContents) -> ReadPages:
        read.append(contents.version)
        return read_every_page(store, contents)

    monkeypatch.setattr(examined_files, "read_every_page", counted)
    for version in (3, 4):
        write(tmp_path / "t", version, version)
        ticks.tick()
        ticks.tick()
        checkpointed(tmp_path / "t", version)
        for _ in range(3):
            ticks.tick()
            forget_looks()  # as in a new process
    assert read == [3, 4]


def test_tick_names_the_damage_of_a_stored_commit_that_another_process_found_and_pauses(tmp_path: Path) -> None:
    ticks = followed(tmp_path / "t")
    ticks.store_versions(range(4))
    ticks.damage(1)
    report_condition(ticks.instance, ticks.settings, ticks.table, condition_now(ticks.settings, ticks.table))
    forget_looks()  # as in a new process
    assert "Version 1 cannot be read" in ticks.tick()
    assert re.fullmatch(r"events is broken: Version 1 cannot be read: .* Next poll in \d+ s\.", str(ticks.tick()))


def test_store_is_read_once_for_a_checkpoint_that_another_process_has_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks, reads, read = followed(tmp_path / "t"), list[str](), LastPolls.read
    checkpointed(tmp_path / "t", 3)
    cursor = LogCursor.from_text(SensorState.from_text(ticks.cursor).cursor or "")
    checkpoint = log_of(ticks.table).poll(cursor).checkpoint
    record(ticks.store, ticks.table, PollFindings(examined_checkpoint=checkpoint))

    def counted(polls: LastPolls, name: str) -> LastPoll | None:
        reads.append(name)
        return read(polls, name)

    monkeypatch.setattr(LastPolls, "read", counted)
    assert ticks.tick() == "No new commits in events."
    assert reads
    reads.clear()
    for _ in range(2):
        assert ticks.tick() == "No new commits in events."
    assert reads == []


def test_faults_found_by_an_examination_before_the_last_commit_are_not_reported(tmp_path: Path) -> None:
    ticks, ended = followed(tmp_path / "t"), Future[Any]()
    sound = ticks.commit(1).read_bytes()
    ticks.damage(1)
    ended.set_result(condition_now(ticks.settings, ticks.table))
    ticks.commit(1).write_bytes(sound)
    write(tmp_path / "t", 4, 4)
    assert ticks.tick() == [("4", "4")]
    memory.EXAMINATIONS.of(memory.key_of_table(ticks.settings, ticks.table), lambda: ended)
    ticks.tick()
    assert condition_of(ticks)[0] != "broken"


def test_tick_examines_no_log_while_too_many_others_are_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = followed(tmp_path / "t")
    checkpointed(tmp_path / "t", 3, is_damaged=True)
    monkeypatch.setattr(apply, "may_examine", lambda: False)
    assert ticks.tick() == "No new commits in events."
    assert condition_of(ticks)[0] == "unknown"  # nothing is stored
    monkeypatch.undo()
    ticks.tick()
    assert condition_of(ticks)[0] == "warned"


def test_checkpoint_written_during_an_outage_of_the_store_is_examined_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = followed(tmp_path / "t")
    checkpointed(tmp_path / "t", 3, is_damaged=True)

    def fail(*_: object) -> None:
        raise StorageError(path="store", reason="timeout")

    with monkeypatch.context() as outage:
        outage.setattr(LastPolls, "read", fail)
        with pytest.raises(StorageError, match="timeout"):
            ticks.tick()
    ticks.tick()
    assert condition_of(ticks)[0] == "warned"


@pytest.mark.parametrize("is_due", [True, False])
def test_log_is_examined_only_if_no_other_process_has_examined_it_lately(
    is_due: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = followed(tmp_path / "t")
    ticks.store_versions(range(4))
    if is_due:
        day_ago = replace(ticks.poll, examined_at_ms=ticks.poll.polled_at_ms - DAY_MS)
        ticks.store.polls.write("events", day_ago)
    asked = list[str]()

    def examination_of(*given: Any, **options: Any) -> Any:
        asked.append(given[1].name)
        return log_conditions.examination_of(*given, **options)

    monkeypatch.setattr(apply, "examination_of", examination_of)
    forget_looks()
    assert ticks.tick() == "No new commits in events."
    assert asked == (["events"] if is_due else [])
