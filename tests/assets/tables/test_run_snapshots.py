"""The storage requests of one run: the same for any number of versions.

The driver writes the bases, so that these tests need no JVM.
"""

# ruff: noqa: F811 - the fixture `spark`

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.checks.compaction import Compaction
from deltasnap_assets.runs.condition.poll_findings import LOG, PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.spark.session.run_session import RunSession
from deltasnap_assets.tables import run_snapshots
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import ProblemKind
from deltasnap_core.protocol.log_files.file_names import checksum_file, commit_file
from tests.assets.checks.files.small_files_builders import candidate
from tests.assets.checks.known import counted, partitions
from tests.assets.tables.run_snapshots_builders import refresh, run_of
from tests.builders import add, protocol, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.store.format.manifest_builders import BASE, FILE, MANIFEST
from tests.core.store.manifests import commit_actions
from tests.driver_bases import spark  # noqa: F401
from tests.thorough import one_in

TABLE = TableSettings(name="events", path="/events")


@pytest.mark.parametrize(("queries_ahead", "started"), [(True, ["events"]), (False, [])])
def test_run_of_all_assets_counts_the_files_of_its_newest_version_as_soon_as_it_is_stored(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries_ahead: bool, started: list[str]
) -> None:
    write_log(tmp_path / "events", {version: commit_actions(version) for version in range(2)})
    snapshots, table = run_of(spark, tmp_path, queries_ahead=queries_ahead)
    found: list[TableSettings] = []
    monkeypatch.setattr(snapshots.facts, "start", found.append)
    snapshots.ensure_stored(table, (0, 1), lambda *_: None)
    assert [each.name for each in found] == started


@pytest.mark.slow
@pytest.mark.parametrize("count", one_in(2, [30, 5]))
def test_run_lists_log_and_store_twice_and_reads_each_commit_once(
    spark: Any, tmp_path: Path, requested: dict[str, list[str]], count: int
) -> None:
    write_log(tmp_path / "events", {version: commit_actions(version) for version in range(count + 1)})
    refresh(*run_of(spark, tmp_path), [0])
    for paths in requested.values():
        paths.clear()
    refresh(*run_of(spark, tmp_path), range(1, count + 1))
    listings = Counter(path.rpartition("/")[2] for path in requested["listed"])
    assert listings == {"_delta_log": 2, "manifests": 2}
    commits = [path for path in requested["read"] if "/_delta_log/0" in path]
    assert len(commits) == len(set(commits)) == count + 1  # the previous commit shows that the log is the same
    manifests = Counter(path for path in requested["read"] if "/manifests/" in path)
    assert len(manifests) == 1  # of the version before


def test_run_finds_the_faults_of_the_commits_that_it_stores_without_reading_them_again(
    spark: Any, tmp_path: Path, requested: dict[str, list[str]]
) -> None:
    write_log(tmp_path / "events", {0: commit_actions(0), 1: [*commit_actions(1), add("b", size=-1)]})
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [0, 1])
    found = snapshots.conditions.of(table)
    assert ([fault.kind for fault in found.faults], found.is_complete) == ([ProblemKind.NEGATIVE_NUMBER], True)
    write_log(tmp_path / "events", {2: [*commit_actions(2), add("c", size=-1)]})
    record(snapshots.store, table, PollFindings(problems={LOG: ()}, is_examined=True))
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [2])
    (fault,) = snapshots.conditions.of(table).faults
    assert "Files of version 2 " in fault.text
    commits = Counter(path for path in requested["read"] if "/_delta_log/0" in path)
    assert commits[f"{tmp_path.as_uri()}/events/_delta_log/{2:020d}.json"] == 1


def test_run_that_stores_the_first_version_reads_no_commit_before_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", {version: commit_actions(version) for version in range(4)})
    write_checkpoint(log, 2, "classic", [action for version in range(3) for action in commit_actions(version)])
    snapshots, table = run_of(spark, tmp_path)
    record(snapshots.store, table, PollFindings(problems={LOG: ()}, is_examined=True))
    refresh(snapshots, table, [3])
    assert [*snapshots.conditions.of(table).commits_read] == [3]


def test_run_reads_the_pages_of_a_sound_checkpoint_only_if_it_stores_its_version(spark: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", {version: commit_actions(version) for version in range(4)})
    for version in (1, 3):
        actions = [action for each in range(version + 1) for action in commit_actions(each)]
        write_checkpoint(log, version, "classic", actions)
    snapshots, table = run_of(spark, tmp_path)
    newest = log_of(table).list().newest_checkpoint
    record(snapshots.store, table, PollFindings(problems={LOG: ()}, is_examined=True, examined_checkpoint=newest))
    read = []
    for versions in ([0, 1], [2, 3]):
        snapshots, table = run_of(spark, tmp_path)
        refresh(snapshots, table, versions)
        read.append(snapshots.conditions.of(table).pages_read)
    assert read == [False, True]


def test_checkpoint_of_a_forked_log_is_compared_with_versions_of_the_run(spark: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", {version: commit_actions(version) for version in range(4)})
    refresh(*run_of(spark, tmp_path), range(4))
    write_log(tmp_path / "events", {version: commit_actions(version, "b") for version in (3, 4)})
    write_checkpoint(log, 4, "classic", [action for version in range(4) for action in commit_actions(version)])
    snapshots, table = run_of(spark, tmp_path)
    snapshots.ensure_stored(table, [3, 4], lambda *_: None)
    assert [fault.kind for fault in snapshots.conditions.of(table).faults] == [ProblemKind.WRONG_CHECKPOINT]


def test_run_finds_new_commits_dated_in_the_future(spark: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", {0: commit_actions(0)})
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [0])
    record(snapshots.store, table, PollFindings(problems={LOG: ()}, is_examined=True))
    write_log(tmp_path / "events", {1: commit_actions(1)})
    os.utime(log / commit_file(1), (4_000_000_000, 4_000_000_000))
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [1])
    (fault,) = snapshots.conditions.of(table).faults
    assert (fault.kind, "version 1 " in fault.text) == (ProblemKind.FUTURE_TIMESTAMP, True)


def test_warning_about_an_old_commit_is_repeated_by_runs_that_read_only_new_ones(spark: Any, tmp_path: Path) -> None:
    ambiguous = [*commit_actions(1), protocol(), protocol()]
    write_log(tmp_path / "events", {0: commit_actions(0), 1: ambiguous})
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [0, 1])
    first = snapshots.conditions.of(table)
    assert [fault.kind for fault in first.faults] == [ProblemKind.REPEATED_PROTOCOL]
    problems = {LOG: first.faults}
    record(snapshots.store, table, PollFindings(problems=problems, is_examined=True))
    write_log(tmp_path / "events", {2: commit_actions(2)})
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [2])
    later = snapshots.conditions.of(table)
    assert [*later.commits_read] == [2]
    assert [fault.text for fault in later.faults] == [fault.text for fault in first.faults]


def test_versions_lost_in_the_log_come_from_the_store(spark: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", {version: commit_actions(version) for version in range(4)})
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, range(4))
    expected = snapshots.log_segments(table, range(4))
    (log / f"{0:020d}.json").unlink()
    again, _ = run_of(spark, tmp_path)
    assert again.log_segments(table, range(4)) == expected
    assert again.log_segments(table, [2]) == {2: expected[2]}  # its commit exists, but not all before it


def test_name_of_a_table_is_checked_once_in_a_run(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path / "events", {version: commit_actions(version) for version in range(2)})
    checked = list[TableSettings]()
    monkeypatch.setattr(run_snapshots, "check_name", lambda _, table, __: checked.append(table))
    snapshots, table = run_of(spark, tmp_path)
    for version in range(2):
        snapshots.ensure_stored(table, [version], lambda *_: None)
    assert checked == [table]


def test_wrong_checksum_is_left_to_its_check(spark: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", {0: commit_actions(0)})
    values = {"tableSizeBytes": 10, "numFiles": 1, "numMetadata": 2, "numProtocol": 1}
    (log / checksum_file(0)).write_text(json.dumps(values))
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [0])
    assert (log_of(table).condition(first=0).mark, snapshots.conditions.of(table).faults) == ("warning", ())


def test_rolled_back_table_is_logged_in_the_run(spark: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", {version: commit_actions(version) for version in range(4)})
    refresh(*run_of(spark, tmp_path), range(4))
    (log / f"{3:020d}.json").unlink()
    snapshots, table = run_of(spark, tmp_path)
    messages: list[str] = []
    snapshots.ensure_stored(table, [2], lambda what, done, total: messages.append(what))
    assert messages == ["Table events: the log was rolled back: version 2 in common, stored up to 3"]


@pytest.mark.parametrize(("base", "changes", "is_exact"), [(40_000, 10_000, True), (40_000, 10_001, False)])
def test_effect_of_optimize_is_exact_up_to_fifty_thousand_files(base: int, changes: int, is_exact: bool) -> None:
    candidates = [candidate("1", 8, 1)]
    of_base, of_changes = replace(FILE, rows=base), replace(FILE, rows=changes)
    later = replace(MANIFEST.changes[0], files=(of_changes,))
    manifest = replace(MANIFEST, base=replace(BASE, files=(of_base,)), changes=(later,))

    tables = {("events", manifest.version): SimpleNamespace(optimize_candidate_values=lambda: candidates)}
    store = SimpleNamespace(tables=lambda name, of: tables[name, of.version])
    estimate = Compaction.estimated([replace(partitions(1000).partitions[0], num_files=5)], {})
    snapshots: Any = RunSnapshots(Settings(tables=(TABLE,)), RunSession({}))
    snapshots.versions = SimpleNamespace(
        store=store, manifests=lambda *of: {7: manifest} if of == ("events", [7]) else {}
    )
    known = counted(replace(partitions(1000), compaction=estimate))
    snapshots.facts = SimpleNamespace(of=lambda table: known if table == TABLE else None)
    assert snapshots.compaction(TABLE, 7) == (Compaction.exact(candidates) if is_exact else estimate)
