"""A broken log that did not change is not read again by each tick, and each change of it is noticed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from deltasnap_assets.runs import apply
from deltasnap_assets.runs.condition import known_faults
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.log_conditions import BrokenTableError, condition_now
from deltasnap_assets.runs.planning.log_status import read_status
from deltasnap_core import ProblemKind
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from tests.assets.followed_table import FollowedTable, materialize
from tests.fast_dagster import local_instance

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
