"""The storage requests of one run: the same for any number of versions."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession

from deltasnap_assets.runs.condition.fault_texts import log_problems
from deltasnap_assets.runs.condition.poll_findings import LOG, PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.settings.config import Settings, SparkSettings, TableSettings
from deltasnap_assets.spark.session.run_session import RunSession
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import FaultKind
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.snapshot.delta_log import DeltaLog
from tests.builders import add, protocol, write_log
from tests.core.store.manifests import commit_actions
from tests.thorough import one_in

pytestmark = pytest.mark.spark


def settings_of(folder: Path, use: Literal["auto", "always"] = "auto") -> Settings:
    table = TableSettings(name="events", path=str(folder / "events"))
    return Settings(storage=str(folder / "store"), tables=(table,), spark=SparkSettings(use=use))


def run_of(
    spark: SparkSession, folder: Path, use: Literal["auto", "always"] = "auto"
) -> tuple[RunSnapshots, TableSettings]:
    DeltaLog.clear_cache()
    settings = settings_of(folder, use)
    pyspark: Any = SimpleNamespace(spark_session=spark, spark_config={})
    return RunSnapshots(settings, RunSession(pyspark)), settings.tables[0]


def refresh(snapshots: RunSnapshots, table: TableSettings, versions: Sequence[int]) -> None:
    """The requests of the five assets and the checks of a run."""
    messages: list[str] = []

    def progress(what: str, done: int, total: int) -> None:
        messages.append(what)

    assert list(snapshots.log_segments(table, versions)) == list(versions)
    manifests = snapshots.ensure_stored(table, versions, progress)
    assert [manifest.commit is not None for manifest in manifests.values()] == [True] * len(versions)
    for _ in range(3):
        assert list(snapshots.ensure_stored(table, versions, progress)) == list(versions)
    assert snapshots.stored_versions(table)[-1] == versions[-1]
    assert snapshots.versions.manifests(table.name, versions) == manifests
    assert list(snapshots.versions.states(table.name, versions)) == list(versions)


@pytest.mark.parametrize("count", one_in(2, [30, 5]))
def test_run_lists_log_and_store_twice_and_reads_each_commit_once(
    spark: SparkSession, tmp_path: Path, requested: dict[str, list[str]], count: int
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
    spark: SparkSession, tmp_path: Path, requested: dict[str, list[str]]
) -> None:
    write_log(tmp_path / "events", {0: commit_actions(0), 1: [*commit_actions(1), add("b", size=-1)]})
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [0, 1])
    found = snapshots.conditions.of(table)
    assert ([fault.kind for fault in found.faults], found.is_complete) == ([FaultKind.NEGATIVE_NUMBER], True)
    write_log(tmp_path / "events", {2: [*commit_actions(2), add("c", size=-1)]})
    record(snapshots.store, table, PollFindings(problems={LOG: ()}, is_examined=True))
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [2])
    (fault,) = snapshots.conditions.of(table).faults
    assert "Files of version 2 " in fault.text
    commits = Counter(path for path in requested["read"] if "/_delta_log/0" in path)
    assert commits[f"{tmp_path.as_uri()}/events/_delta_log/{2:020d}.json"] == 1


def test_run_finds_new_commits_dated_in_the_future(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", {0: commit_actions(0)})
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [0])
    record(snapshots.store, table, PollFindings(problems={LOG: ()}, is_examined=True))
    write_log(tmp_path / "events", {1: commit_actions(1)})
    os.utime(log / commit_file(1), (4_000_000_000, 4_000_000_000))
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [1])
    (fault,) = snapshots.conditions.of(table).faults
    assert (fault.kind, "version 1 " in fault.text) == (FaultKind.BROKEN_TIMESTAMPS, True)


def test_warning_about_an_old_commit_is_repeated_by_runs_that_read_only_new_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    ambiguous = [*commit_actions(1), protocol(), protocol()]
    write_log(tmp_path / "events", {0: commit_actions(0), 1: ambiguous})
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [0, 1])
    first = snapshots.conditions.of(table)
    assert [fault.kind for fault in first.faults] == [FaultKind.AMBIGUOUS_COMMIT]
    problems = {LOG: log_problems(first)}
    record(snapshots.store, table, PollFindings(problems=problems, is_examined=True))
    write_log(tmp_path / "events", {2: commit_actions(2)})
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, [2])
    later = snapshots.conditions.of(table)
    assert [*later.commits_read] == [2]
    assert [fault.text for fault in later.faults] == [fault.text for fault in first.faults]


def test_versions_lost_in_the_log_come_from_the_store(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", {version: commit_actions(version) for version in range(4)})
    snapshots, table = run_of(spark, tmp_path)
    refresh(snapshots, table, range(4))
    expected = snapshots.log_segments(table, range(4))
    (log / f"{0:020d}.json").unlink()
    assert run_of(spark, tmp_path)[0].log_segments(table, range(4)) == expected


def test_rolled_back_table_is_logged_in_the_run(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", {version: commit_actions(version) for version in range(4)})
    refresh(*run_of(spark, tmp_path), range(4))
    (log / f"{3:020d}.json").unlink()
    snapshots, table = run_of(spark, tmp_path)
    messages: list[str] = []
    snapshots.ensure_stored(table, [2], lambda what, done, total: messages.append(what))
    assert messages == ["Table events: the log was rolled back: version 2 in common, stored up to 3"]


class NoSpark:
    """A fake of dagster-pyspark's resource."""

    def __init__(self) -> None:
        self.spark_config: dict[str, str] = {}

    @property
    def spark_session(self) -> SparkSession:
        raise AssertionError("Spark was started")


def test_first_version_is_computed_by_spark_and_later_ones_by_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "events", {version: commit_actions(version) for version in range(2)})
    snapshots, table = run_of(spark, tmp_path)
    first = snapshots.ensure_stored(table, [0, 1], lambda *_: None)
    assert str(first[0].computed_by).startswith(f"Spark {spark.version}, local")
    assert str(first[1].computed_by).endswith(" applied to version 0")
    write_log(tmp_path / "events", {version: commit_actions(version) for version in (2, 3)})
    pyspark: Any = NoSpark()
    later = RunSnapshots(settings_of(tmp_path), RunSession(pyspark), queries_ahead=True)
    refresh(later, table, (2, 3))
    files = later.versions.states(table.name, [3])[3].num_of_files
    assert sum(partition.num_files for partition in later.facts.of(table.name, 3).files.partitions) == files
    assert later.facts.of(table.name, 3).tombstones is not None
    assert str(later.versions.manifests(table.name, [3])[3].computed_by).startswith("driver: ")


def test_spark_computes_everything_if_always_used(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "events", {version: commit_actions(version) for version in range(4)})
    snapshots, table = run_of(spark, tmp_path, use="always")
    stored = snapshots.ensure_stored(table, range(4), lambda *_: None)
    assert {str(manifest.computed_by)[:6] for manifest in stored.values()} == {"Spark "}
