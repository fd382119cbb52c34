"""Damage that appears in a log between two examinations, and what is read of a broken log that did not change."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import dagster as dg
import pytest

from deltasnap_assets.command import doctor
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs import apply, decide
from deltasnap_assets.runs.condition import known_faults
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.fault_texts import FAILED_RUN
from deltasnap_assets.runs.condition.log_conditions import BrokenTableError, condition_after, condition_now
from deltasnap_assets.runs.condition.poll_findings import LOG, PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.planning.known_table import last_observation, observation_tags
from deltasnap_assets.runs.planning.log_status import read_status
from deltasnap_assets.runs.planning.names import run_tags, table_key
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_core import ProblemKind, SnapshotStore
from deltasnap_core.errors import CorruptStoreError, StorageError
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from tests.assets.followed_table import EVENTS, FollowedTable, materialize
from tests.assets.jobs import idle_job
from tests.assets.runs.sensors_builders import Ticks
from tests.assets.tables.checks.checks_alone_builders import LAST, Table, original, table
from tests.builders import add, metadata, protocol, remove
from tests.checkpoint_files import STYLES, CheckpointStyle, write_checkpoint
from tests.fast_dagster import local_instance
from tests.thorough import one_in


class Examined(Ticks):
    """A stored, materialized and checked table of versions 0 to 5, with a page. Its log was examined today."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        super().__init__(folder)
        self.instance = instance
        self.write(0, 5)
        self.store_versions(range(6), computed=True)
        self.tick()
        tags = observation_tags(self.instance, self.table, 5, "table-id")
        numbers: dict[str, Any] = {"latest_version": 5, "health": "OK", "num_rows": 7}
        self.instance.report_runless_asset_event(dg.AssetObservation(table_key(EVENTS), metadata=numbers, tags=tags))
        record(self.store, self.table, PollFindings(checked_version=5))
        assert isinstance(self.ask_schedule(), dg.SkipReason)

    def refresh(self) -> tuple[int, ...]:
        return refresh_table(build_definitions(self.settings), self.settings, self.table, self.instance)

    @property
    def errors(self) -> list[str]:
        """The recorded errors. With any, the fleet shows the table as broken."""
        return [problem.text for problem in self.poll.problems if problem.mark == "error"]

    @property
    def page(self) -> dict[str, Any]:
        last = last_observation(self.instance, EVENTS)
        assert last is not None
        return {name: entry.value for name, entry in last.metadata.items()}


@pytest.fixture
def examined(tmp_path: Path) -> Iterator[Examined]:
    with local_instance(tmp_path) as instance:
        yield Examined(tmp_path / "events", instance)


GAPS: dict[str, Callable[[Examined], object]] = {
    "versions 6 to 7 cannot be loaded": lambda table: shutil.copy(table.commit(5), table.commit(7)),
    "versions 3 to 5 cannot be loaded": lambda table: table.commit(3).unlink(),
    "cannot be loaded": lambda table: shutil.copy(table.commit(5), table.commit(2**63 - 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "expected"), [*(("refresh", gap) for gap in GAPS), ("schedule", next(iter(GAPS)))])
def test_gap_after_an_examination_is_reported_at_once(examined: Examined, asked: str, expected: str) -> None:
    assert not examined.errors
    GAPS[expected](examined)
    if asked == "schedule":
        examined.ask_schedule()
    else:
        with pytest.raises(BrokenTableError, match=expected):
            examined.refresh()
    (error,) = examined.errors
    assert expected in error


@pytest.mark.slow
def test_refresh_reports_a_damaged_checkpoint_that_appears_after_an_examination(examined: Examined) -> None:
    file = examined.checkpoint(5)
    os.truncate(file, file.stat().st_size // 2)
    examined.refresh()
    assert "The checkpoint of version 5 cannot be read" in examined.page["health"]


@pytest.mark.slow
def test_refresh_without_commits_reads_a_short_log_again(examined: Examined, monkeypatch: pytest.MonkeyPatch) -> None:
    examined.damage(3)
    monkeypatch.setattr(decide, "SHORT_LOG", 5)
    assert examined.refresh() == ()
    assert not examined.errors
    monkeypatch.setattr(decide, "SHORT_LOG", 6)
    with pytest.raises(BrokenTableError, match="Version 3 cannot be read") as raised:
        examined.refresh()
    assert not raised.value.problems  # they are those beside the log
    assert examined.page["numbers_of"] == "version 5, stored before the damage"


@pytest.mark.slow
def test_page_of_a_damaged_table_keeps_its_numbers_and_is_healthy_after_the_repair(examined: Examined) -> None:
    lost = examined.commit(3)
    content = lost.read_bytes()
    lost.unlink()
    examined.ask_schedule()
    assert "versions 3 to 5 cannot be loaded" in examined.page["health"]
    assert (examined.page["num_rows"], examined.page["latest_version"]) == (7, 5)
    lost.write_bytes(content)
    examined.ask_schedule()
    assert examined.page["health"].startswith("The log no longer has faults")
    assert examined.page["num_rows"] == 7
    assert not examined.errors


@pytest.mark.parametrize(
    ("store", "folder"), [("lake", "lake_tables/events"), ("lake", "lake/events"), ("lake/events/store", "lake/events")]
)
def test_failure_of_a_table_near_the_store_is_not_one_of_the_store(tmp_path: Path, store: str, folder: str) -> None:
    table = FollowedTable(tmp_path / folder, storage=tmp_path / store)
    table.write(0, 1)
    failure = StorageError(path=f"{log_of(table.table).log_path}/{0:020}.json", reason="timeout")
    assert condition_after(table.settings, table.table, failure).latest == 1
    for path in (table.store.root, f"{table.store.root}/manifests"):
        with pytest.raises(StorageError):
            condition_after(table.settings, table.table, StorageError(path=path, reason="timeout"))


@pytest.mark.slow
def test_failure_of_a_commit_that_was_deleted_ends_with_the_next_refresh(examined: Examined) -> None:
    examined.damage(6)
    tags, status = run_tags("events", 6, 6), dg.DagsterRunStatus.FAILURE
    examined.instance.create_run_for_job(idle_job, status=status, tags=tags)
    with pytest.raises(BrokenTableError, match="Version 6 cannot be read"):
        examined.refresh()
    examined.commit(6).unlink()
    examined.refresh()
    assert FAILED_RUN not in examined.page
    assert examined.page["health"].startswith("The log no longer has faults")
    assert {"log", "run"}.isdisjoint(each.check for each in examined.poll.problems)


@pytest.mark.slow
def test_failed_run_of_an_idle_table_is_observed_once(examined: Examined) -> None:
    tags, status = run_tags("events", 5, 5), dg.DagsterRunStatus.FAILURE
    run = examined.instance.create_run_for_job(idle_job, status=status, tags=tags)
    examined.tick()
    assert examined.page[FAILED_RUN] == run.run_id
    observed = last_observation(examined.instance, EVENTS)
    for _ in range(2):
        examined.tick()
        assert last_observation(examined.instance, EVENTS) == observed


@pytest.mark.slow
def test_page_of_a_damaged_stored_version_names_the_file_without_its_folder(examined: Examined) -> None:
    examined.damage(3)
    condition = condition_now(examined.settings, examined.table)
    report_condition(examined.instance, examined.settings, examined.table, condition)
    assert (examined.page["can_be_loaded"], examined.page["numbers_of"]) == (
        "0 to 2",
        "version 5, stored before the damage",
    )
    assert f" {3:020}.json, line 1: " in examined.page["health"]
    assert "/_delta" not in examined.page["health"].replace("\\", "")


VERSIONS = 12
DAMAGED = 4


class Broken(FollowedTable):
    """A table whose commit of version 4 is damaged, and the commits that were read since the last call."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.write(0, VERSIONS - 1)
        self.damaged = self.commit(DAMAGED)
        self.sound = self.damaged.read_bytes()
        self.damaged.write_bytes(b"?" * len(self.sound))
        self._read: list[str] = []
        read_bytes = FsspecLogStore.read_bytes

        def read(store: FsspecLogStore, path: str) -> bytes:
            self._read.append(path)
            return read_bytes(store, path)

        monkeypatch.setattr(FsspecLogStore, "read_bytes", read)

    def commits_read(self) -> set[int]:
        found, self._read = self._read, []
        return {int(path[-25:-5]) for path in found if "/_delta_log/0" in path}

    def examined(self) -> tuple[bool, ...]:
        """Whether each way to examine the log finds versions that cannot be loaded."""
        status, _ = read_status(self.settings, self.table, examine=True)
        assert status.condition is not None
        return bool(status.condition.unloadable), bool(condition_now(self.settings, self.table).unloadable)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broken:
    return Broken(tmp_path / "events", monkeypatch)


@pytest.mark.slow
def test_only_the_damaged_commit_of_an_unchanged_log_is_read_again(broken: Broken) -> None:
    assert broken.examined() == (True, True)
    assert broken.commits_read() == set(range(VERSIONS))
    assert broken.examined() == (True, True)
    assert broken.commits_read() == set(range(DAMAGED + 1))  # the sound ones up to the table id: nothing is stored


def test_unchanged_broken_log_is_read_again_after_a_day(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    condition_now(broken.settings, broken.table)
    read, start = [], time.monotonic()
    for hours in (23.9, 24.1):
        broken.commits_read()
        monkeypatch.setattr(known_faults, "time", SimpleNamespace(monotonic=lambda now=start + hours * 3600: now))
        condition_now(broken.settings, broken.table)
        read.append(broken.commits_read() == set(range(VERSIONS)))
    assert read == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize(("damaged", "read"), [(0, {0, DAMAGED}), (DAMAGED, {DAMAGED - 1, DAMAGED})])
def test_tick_of_the_schedule_does_not_read_an_unchanged_broken_log_again(
    broken: Broken, tmp_path: Path, damaged: int, read: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "report_freshness", lambda *_: {})  # it reads commits until it finds the metadata
    broken.damage(damaged)
    with local_instance(tmp_path) as broken.instance:
        broken.store_versions(range(damaged))
        materialize(broken.instance, range(damaged))
        report_condition(broken.instance, broken.settings, broken.table, condition_now(broken.settings, broken.table))
        for _ in range(3):
            broken.commits_read()
            with suppress(BrokenTableError):
                broken.ask_schedule()
    assert broken.commits_read() == read  # also the newest stored one, to compare it


def restored_with_its_time(broken: Broken) -> None:
    status = broken.damaged.stat()
    broken.damaged.write_bytes(broken.sound)
    os.utime(broken.damaged, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: dict[str, tuple[Callable[[Broken], object], bool]] = {
    "restored": (lambda broken: broken.damaged.write_bytes(broken.sound + b"\n"), False),
    "restored with the same size and time": (restored_with_its_time, False),
    "a later commit is damaged": (lambda broken: broken.damage(8), True),
    "a later commit is gone": (lambda broken: broken.commit(8).unlink(), True),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_change_of_a_broken_log_is_noticed(change: str, broken: Broken) -> None:
    before = condition_now(broken.settings, broken.table)
    make, is_broken = CHANGES[change]
    broken.examined()
    make(broken)
    assert broken.examined() == (is_broken, is_broken)
    assert condition_now(broken.settings, broken.table).text != before.text


@pytest.mark.slow
@pytest.mark.parametrize("is_damaged", [False, True], ids=["a sound log", "a log with an error"])
def test_fault_of_the_hint_begins_and_ends_with_it(broken: Broken, is_damaged: bool) -> None:
    hint = broken.log / "_last_checkpoint"
    if not is_damaged:
        broken.damaged.write_bytes(broken.sound)

    def has_fault() -> bool:
        condition = condition_now(broken.settings, broken.table)
        assert bool(condition.unloadable) == is_damaged
        return bool(condition.faults_of(ProblemKind.BROKEN_HINT))

    found = [has_fault()]
    hint.write_bytes(b"{")
    found.append(has_fault())
    hint.unlink()
    assert [*found, has_fault()] == [False, True, False]


__all__ = ["original", "table"]

AT = 4
EXPECTED = "The checkpoint of version 4 contradicts the stored version: "


def put_checkpoint(table: Table, num_files: int, version: int = AT, style: CheckpointStyle = "classic") -> None:
    actions = [protocol(), metadata(), *(add(f"{each}.parquet") for each in range(num_files))]
    write_checkpoint(table.log, version, style, [*actions, remove("x"), remove("y")])


def report(table: Table) -> None:
    condition = condition_now(table.settings, table.table)
    report_condition(table.instance, table.settings, table.table, condition)


@pytest.mark.parametrize("style", one_in(3, STYLES))
def test_checkpoint_with_other_files_than_the_stored_version_is_on_the_page_in_its_check_and_in_the_fleet(
    table: Table, style: CheckpointStyle
) -> None:
    put_checkpoint(table, 3, style=style)
    report(table)
    page = last_observation(table.instance, EVENTS)
    assert page is not None
    assert EXPECTED in str(page.metadata["health"].value)
    assert " has 3 files, the stored version has 5." in str(page.metadata["health"].value)
    (row,) = store_of(table.settings).fleet(["events"]).to_pylist()
    assert (row["condition"], EXPECTED in row["reason"]) == ("warned", True)
    result = table.check("readable_checkpoint")
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert str(result.description).startswith(EXPECTED)


@pytest.mark.parametrize("style", one_in(3, STYLES))
def test_checkpoint_with_the_files_of_the_stored_version_is_sound(table: Table, style: CheckpointStyle) -> None:
    put_checkpoint(table, AT + 1, style=style)
    assert condition_now(table.settings, table.table).without(ProblemKind.WRONG_CHECKSUM).faults == ()
    name = min(path.name for path in table.log.glob("*.checkpoint*"))
    described = [str(table.check("readable_checkpoint").description) for _ in range(2)]
    assert described == [
        f"Every page of {name} is readable.",
        f"Every page of {name} was readable, and has not changed since then.",
    ]


@pytest.mark.slow
def test_wrong_checkpoint_fails_each_run_until_it_is_replaced(table: Table) -> None:
    put_checkpoint(table, AT)
    results = [table.check("readable_checkpoint") for _ in range(2)]
    put_checkpoint(table, LAST + 1, version=LAST)
    results.append(table.check("readable_checkpoint"))
    assert [result.passed for result in results] == [False, False, True]
    assert not [problem for problem in table.poll.problems if problem.check == LOG]


def test_doctor_shows_a_recorded_wrong_checkpoint_until_it_is_replaced(table: Table) -> None:
    put_checkpoint(table, 3)
    report(table)
    finding = doctor._table(table.settings, table.table)
    assert (finding.mark, EXPECTED in finding.message) == ("warning", True)
    assert finding.condition is not None
    assert finding.condition.faults_of(ProblemKind.WRONG_CHECKPOINT)
    put_checkpoint(table, LAST + 1, version=LAST)
    assert EXPECTED not in doctor._table(table.settings, table.table).message


def test_doctor_shows_recorded_lost_versions_until_a_commit_is_added(table: Table) -> None:
    table.commit(LAST).unlink()
    condition = condition_now(table.settings, table.table)
    assert condition.faults_of(ProblemKind.LOST_VERSIONS)
    report_condition(table.instance, table.settings, table.table, condition)
    assert condition.text in doctor._table(table.settings, table.table).message
    table.write(LAST, LAST)
    assert doctor._table(table.settings, table.table).mark == "ok"


def test_checkpoint_of_a_version_that_is_not_stored_is_not_compared(table: Table) -> None:
    table.write(LAST + 1, LAST + 1)
    put_checkpoint(table, 1, version=LAST + 1)
    assert table.check("readable_checkpoint").passed


def test_damaged_store_does_not_hide_the_faults_of_the_log(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    put_checkpoint(table, 3)
    (table.log / "_last_checkpoint").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(
        SnapshotStore, "computed_state", Mock(side_effect=CorruptStoreError(path="manifest", reason="expected JSON"))
    )
    found = condition_now(table.settings, table.table).without(ProblemKind.WRONG_CHECKSUM)
    assert [fault.kind for fault in found.faults] == [ProblemKind.BROKEN_HINT]
